"""What the cameras around the table see."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from roboreel.demo_arm.canvas import Canvas, Colour, View, colour
from roboreel.demo_arm.scene import BLOCK_HALF_M, HAND_RADIUS_M, Point, Scene, forward_kinematics

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CAMERAS", "render"]

CAMERAS = ("front", "wrist", "side", "top", "left", "right")
"""The cameras there are, the most useful ones first."""

_FLOOR, _TABLE, _GRID = colour("#b7b3ad"), colour("#f3eee4"), colour("#e2d9c9")
_SLATE, _SLATE_LIGHT, _GRAPHITE = colour("#2f4858"), colour("#4b6a7d"), colour("#26323c")
_STEEL, _AMBER, _WHITE = colour("#dfe5e8"), colour("#f2a541"), colour("#fffdf8")
_RED, _BLUE = colour("#e2503f"), colour("#2f7fd1")
_GREEN, _GREEN_PALE, _GREEN_DARK = colour("#3fae74"), colour("#d9e6d3"), colour("#2b8659")

_TABLE_MIDDLE = (0.0, 0.19)
_TABLE_HALF_M = (0.5, 0.33)
_GRID_STEP_M = 0.05
_MIDDLE = (0.0, 0.17)
_STILL = {
    "front": (_MIDDLE, 1.0, 0.0, 1.0),
    "side": (_MIDDLE, 0.92, -1.1, 0.72),
    "top": (_TABLE_MIDDLE, 0.66, 0.0, 1.0),
    "left": (_MIDDLE, 0.9, -0.45, 0.62),
    "right": (_MIDDLE, 0.9, 0.45, 0.62),
}
"""Of each camera that does not move: the middle of its view, its zoom, turn and tilt."""


def render(scene: Scene, camera: str, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return what a camera sees, ``uint8 (height, width, 3)``.

    Args:
        scene: What there is to see.
        camera: One of `CAMERAS`.
        size: ``(height, width)`` in pixels.
    """
    view = _view(scene, camera, size)
    # The wrist camera moves with the hand; for the others the table stays the same.
    paint = _paint_table if camera == "wrist" else _still_table
    canvas = Canvas(view, paint(view, scene.red, scene.blue, scene.goal).copy())
    _draw_block(canvas, scene)
    _draw_arm(canvas, scene)
    return canvas.image()


def _view(scene: Scene, camera: str, size: tuple[int, int]) -> View:
    fit = min(size[0] / 0.54, size[1] / 0.72)
    if camera == "wrist":
        x, y = forward_kinematics(scene.joints)[1]
        heading = sum(scene.joints)
        ahead = (x + 0.03 * math.cos(heading), y + 0.03 * math.sin(heading))
        return View(size, ahead, 2.6 * fit, turn=heading - math.pi / 2)
    if camera not in _STILL:
        raise ValueError(f"No camera {camera!r}: there are {', '.join(CAMERAS)}.")
    centre, zoom, turn, tilt = _STILL[camera]
    return View(size, centre, zoom * fit, turn, tilt)


def _paint_table(view: View, red: Point, blue: Point, goal: Point) -> NDArray[np.float32]:
    """Return what never moves: the table with its grid, and the marks on it."""
    canvas = Canvas(view, np.empty((3, *view.size), dtype=np.float32))
    box, x, y = view.around(_TABLE_MIDDLE, margin_m=math.hypot(*_TABLE_HALF_M))
    edge = np.maximum(np.abs(x) - _TABLE_HALF_M[0], np.abs(y) - _TABLE_HALF_M[1])
    floor_in_sight = edge.max() > -0.03
    canvas.planes[:] = np.reshape(_FLOOR if floor_in_sight else _TABLE, (3, 1, 1))
    if floor_in_sight:
        canvas.square(_TABLE_MIDDLE, _TABLE_HALF_M, 0.03, _TABLE, height=0.03)
    steps = (x / _GRID_STEP_M, (y + _TABLE_MIDDLE[1]) / _GRID_STEP_M)
    line = np.minimum(*(np.abs(step - np.rint(step)) * _GRID_STEP_M for step in steps))
    canvas.fill(box, np.maximum(line - 0.6 / view.scale, edge), _GRID)
    canvas.planes *= _vignette(view.size)
    for middle, paint in ((red, _RED), (blue, _BLUE)):
        _draw_discs(canvas, middle, 0.03, (1, paint), (0.8, _WHITE), (0.42, paint))
    angle = _block_angle(goal)
    canvas.square(goal, (0.031, 0.031), 0.009, _GREEN, angle=angle)
    canvas.square(goal, (0.0275, 0.0275), 0.0065, _GREEN_PALE, angle=angle)
    return canvas.planes


_still_table = lru_cache(maxsize=16)(_paint_table)


@lru_cache(maxsize=4)
def _vignette(size: tuple[int, int]) -> NDArray[np.float32]:
    y, x = (np.linspace(-1, 1, count, dtype=np.float32) for count in size)
    return np.float32(1.015) - np.float32(0.075) * ((x + 0.25) ** 2 + (y[:, None] + 0.3) ** 2)


def _block_angle(goal: Point) -> float:
    return math.atan2(goal[1], goal[0]) - math.pi / 2


def _draw_block(canvas: Canvas, scene: Scene) -> None:
    angle, half, top = _block_angle(scene.goal), BLOCK_HALF_M, BLOCK_HALF_M - 0.003
    canvas.square(scene.block, (half, half), 0.004, _GREEN_DARK, angle=angle, height=0.008)
    lifted = (scene.block[0] - 0.0007, scene.block[1] + 0.001)
    canvas.square(lifted, (top, top), 0.003, _GREEN, angle=angle)


def _draw_arm(canvas: Canvas, scene: Scene) -> None:
    shoulder = (0.0, 0.0)
    elbow, hand = forward_kinematics(scene.joints)
    canvas.square((0.0, -0.01), (0.055, 0.04), 0.014, _GRAPHITE, height=0.01)
    canvas.link(shoulder, elbow, (0.029, 0.023), _SLATE, height=0.014)
    canvas.link(elbow, hand, (0.02, 0.012), _SLATE_LIGHT, height=0.016)
    joint = ((1.0, _GRAPHITE), (0.79, _AMBER), (0.57, _GRAPHITE), (0.3, _STEEL))
    _draw_discs(canvas, shoulder, 0.023, *joint)
    _draw_discs(canvas, elbow, 0.018, *joint)
    _draw_discs(canvas, hand, HAND_RADIUS_M, (1, _GRAPHITE), (0.78, _STEEL), (0.36, _AMBER))


def _draw_discs(canvas: Canvas, middle: Point, radius: float, *discs: tuple[float, Colour]) -> None:
    """Draw discs one on the other, each with its share of the radius."""
    for share, paint in discs:
        canvas.disc(middle, share * radius, paint)
