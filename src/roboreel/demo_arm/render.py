"""What the cameras around the table see."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from roboreel.demo_arm.canvas import Canvas, Colour, View, colour, rounded_rectangle
from roboreel.demo_arm.scene import BLOCK_HALF_M, HAND_RADIUS_M, Point, Scene, forward_kinematics

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CAMERAS", "render"]

CAMERAS = ("front", "wrist", "side", "top", "left", "right")
"""The cameras there are, the most useful ones first."""

_FLOOR = colour("#b7b3ad")
_TABLE = colour("#f3eee4")
_GRID = colour("#e2d9c9")
_SHADOW = colour("#3a2f2a")
_SLATE = colour("#2f4858")
_SLATE_LIGHT = colour("#4b6a7d")
_GRAPHITE = colour("#26323c")
_STEEL = colour("#dfe5e8")
_AMBER = colour("#f2a541")
_RED = colour("#e2503f")
_BLUE = colour("#2f7fd1")
_GREEN = colour("#3fae74")
_GREEN_PALE = colour("#d9e6d3")
_GREEN_DARK = colour("#2b8659")
_WHITE = colour("#fffdf8")

_TABLE_MIDDLE = (0.0, 0.19)
_TABLE_HALF_M = (0.5, 0.33)
_GRID_STEP_M = 0.05


def render(scene: Scene, camera: str, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return what a camera sees, ``uint8 (height, width, 3)``.

    Args:
        scene: What there is to see.
        camera: One of `CAMERAS`.
        size: ``(height, width)`` in pixels.
    """
    view = _view(scene, camera, size)
    marks = (scene.red, scene.blue, scene.goal)
    # The wrist camera moves with the hand; for the others the table stays the same.
    moves = camera == "wrist"
    table = _paint_table(view, *marks) if moves else _still_table(view, *marks).copy()
    canvas = Canvas(view, table)
    _draw_block(canvas, scene)
    _draw_arm(canvas, scene)
    return canvas.image()


def _view(scene: Scene, camera: str, size: tuple[int, int]) -> View:
    height, width = size
    fit = min(height / 0.54, width / 0.72)
    if camera == "wrist":
        _, hand = forward_kinematics(scene.joints)
        heading = sum(scene.joints)
        ahead = (hand[0] + 0.03 * math.cos(heading), hand[1] + 0.03 * math.sin(heading))
        return View(size, ahead, 2.6 * fit, turn=heading - math.pi / 2)
    views = {
        "front": View(size, (0.0, 0.17), fit),
        "side": View(size, (0.0, 0.17), 0.92 * fit, turn=-1.1, tilt=0.72),
        "top": View(size, _TABLE_MIDDLE, 0.66 * fit),
        "left": View(size, (0.0, 0.17), 0.9 * fit, turn=-0.45, tilt=0.62),
        "right": View(size, (0.0, 0.17), 0.9 * fit, turn=0.45, tilt=0.62),
    }
    if camera not in views:
        raise ValueError(f"No camera {camera!r}: there are {', '.join(CAMERAS)}.")
    return views[camera]


def _paint_table(view: View, red: Point, blue: Point, goal: Point) -> NDArray[np.float32]:
    """Return what never moves: the table with its grid, and the marks on it."""
    planes = _paint_sheet(view)
    if not _inside_table(view):
        _draw_floor(view, planes)
    planes *= _vignette(view.size)
    canvas = Canvas(view, planes)
    _draw_target(canvas, red, _RED)
    _draw_target(canvas, blue, _BLUE)
    _draw_goal(canvas, goal)
    return planes


_still_table = lru_cache(maxsize=16)(_paint_table)


def _paint_sheet(view: View) -> NDArray[np.float32]:
    """Return the table's surface with its grid; working in place halves the time."""
    planes = np.empty((3, *view.size), dtype=np.float32)
    x, y = view.coordinates(_everywhere(view), (0.0, 0.0))
    for axis in (x, y):
        axis *= np.float32(1 / _GRID_STEP_M)
        axis -= np.rint(axis, out=planes[0])
        np.abs(axis, out=axis)
    cover = np.minimum(x, y, out=x)
    cover *= np.float32(-view.scale * _GRID_STEP_M)
    cover += np.float32(1.1)
    np.clip(cover, 0, 1, out=cover)
    for plane, table, grid in zip(planes, _TABLE, _GRID, strict=True):
        np.multiply(cover, np.float32(grid - table), out=plane)
        plane += np.float32(table)
    return planes


def _inside_table(view: View) -> bool:
    radius = 0.5 * math.hypot(view.size[0] / view.tilt, view.size[1]) / view.scale
    return all(
        abs(centre - middle) + radius < half
        for centre, middle, half in zip(view.centre, _TABLE_MIDDLE, _TABLE_HALF_M, strict=True)
    )


def _draw_floor(view: View, planes: NDArray[np.float32]) -> None:
    """Draw the floor around the table, with the table's shadow on it."""
    x, y = view.coordinates(_everywhere(view), _TABLE_MIDDLE)
    distance = rounded_rectangle(x, y, _TABLE_HALF_M, 0.03)
    cover = np.clip(distance * np.float32(view.scale) + np.float32(0.5), 0, 1)
    shadow = np.float32(1) - np.float32(0.22) * np.exp(-distance.clip(0) / np.float32(0.035))
    for plane, value in zip(planes, _FLOOR, strict=True):
        plane += cover * (np.float32(value) * shadow - plane)


def _everywhere(view: View) -> tuple[slice, slice]:
    return (slice(0, view.size[0]), slice(0, view.size[1]))


@lru_cache(maxsize=4)
def _vignette(size: tuple[int, int]) -> NDArray[np.float32]:
    height, width = size
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    return np.float32(1.015) - np.float32(0.075) * ((x + 0.25) ** 2 + (y + 0.3) ** 2)


def _draw_target(canvas: Canvas, middle: Point, paint: Colour) -> None:
    canvas.disc(middle, 0.03, _WHITE, opacity=0.75)
    canvas.ring(middle, 0.027, 0.006, paint)
    canvas.disc(middle, 0.0125, paint)


def _draw_goal(canvas: Canvas, middle: Point) -> None:
    angle = _block_angle(middle)
    canvas.square(middle, (0.031, 0.031), 0.009, _GREEN, angle=angle)
    canvas.square(middle, (0.0275, 0.0275), 0.0065, _GREEN_PALE, angle=angle)


def _block_angle(goal: Point) -> float:
    return math.atan2(goal[1], goal[0]) - math.pi / 2


def _draw_block(canvas: Canvas, scene: Scene) -> None:
    angle = _block_angle(scene.goal)
    half = (BLOCK_HALF_M, BLOCK_HALF_M)
    shade = _shadow_of(scene.block, 0.007)
    canvas.square(shade, half, 0.005, _SHADOW, angle=angle, opacity=0.3, blur=0.012)
    canvas.square(scene.block, half, 0.004, _GREEN_DARK, angle=angle)
    top = _shadow_of(scene.block, -0.0012)
    inner = (BLOCK_HALF_M - 0.003, BLOCK_HALF_M - 0.003)
    canvas.square(top, inner, 0.003, _GREEN, angle=angle)


def _draw_arm(canvas: Canvas, scene: Scene) -> None:
    shoulder = (0.0, 0.0)
    elbow, hand = forward_kinematics(scene.joints)
    _draw_base(canvas, shoulder)
    _draw_link_shadow(canvas, shoulder, elbow, (0.029, 0.023), 0.014)
    _draw_link_shadow(canvas, elbow, hand, (0.02, 0.013), 0.018)
    canvas.link(shoulder, elbow, (0.029, 0.023), _SLATE, roundness=0.28)
    canvas.link(elbow, hand, (0.02, 0.012), _SLATE_LIGHT, roundness=0.24)
    _draw_joint(canvas, shoulder, 0.023)
    _draw_joint(canvas, elbow, 0.018)
    _draw_hand(canvas, hand)


def _draw_base(canvas: Canvas, shoulder: Point) -> None:
    half = (0.055, 0.04)
    plate = (shoulder[0], shoulder[1] - 0.01)
    canvas.square(_shadow_of(plate, 0.008), half, 0.016, _SHADOW, opacity=0.3, blur=0.016)
    canvas.square(plate, half, 0.014, _GRAPHITE)
    for side in (-0.043, 0.043):
        for end in (-0.038, 0.018):
            canvas.disc((shoulder[0] + side, shoulder[1] + end), 0.0035, _SLATE_LIGHT)


def _draw_link_shadow(
    canvas: Canvas, start: Point, stop: Point, radii: tuple[float, float], height: float
) -> None:
    canvas.link(
        _shadow_of(start, height),
        _shadow_of(stop, height),
        radii,
        _SHADOW,
        opacity=0.26,
        blur=0.02,
    )


def _draw_joint(canvas: Canvas, middle: Point, radius: float) -> None:
    canvas.disc(middle, radius, _GRAPHITE)
    canvas.ring(middle, 0.68 * radius, 0.22 * radius, _AMBER)
    canvas.disc(middle, 0.3 * radius, _STEEL)


def _draw_hand(canvas: Canvas, middle: Point) -> None:
    canvas.disc(middle, HAND_RADIUS_M, _GRAPHITE)
    canvas.disc(middle, 0.78 * HAND_RADIUS_M, _STEEL)
    canvas.disc(middle, 0.36 * HAND_RADIUS_M, _AMBER)


def _shadow_of(point: Point, distance: float) -> Point:
    """Return where the shadow of a raised point falls."""
    # The light is fixed to the table, at its top left, so that all cameras see the same shadows.
    return (point[0] + 0.6 * distance, point[1] - 0.8 * distance)
