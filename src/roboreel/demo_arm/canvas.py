"""Shapes with soft edges, drawn from their distance fields."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.demo_arm.scene import Point

    Field = NDArray[np.floating[Any]]
    """A number for each pixel; ``float32``."""
    Box = tuple[slice, slice]
    """Rows and columns of an image."""

__all__ = ["Canvas", "Colour", "View", "colour"]

Colour = tuple[float, float, float]


def colour(code: str) -> Colour:
    """Return a colour from its hexadecimal code.

    Examples:
        >>> colour("#ff8000")
        (255.0, 128.0, 0.0)
    """
    red, green, blue = bytes.fromhex(code.removeprefix("#"))
    return (float(red), float(green), float(blue))


_SHADOW = colour("#3a2f2a")
_SHADOW_OPACITY = 0.28
_ROUNDNESS = 0.26
"""How much lighter the side of a link that faces the light is, as on a tube."""


@dataclass(frozen=True, slots=True)
class View:
    """How metres on the table become pixels of an image: rotated, scaled and tilted."""

    size: tuple[int, int]
    """``(height, width)``."""
    centre: Point
    """The point of the table in the middle of the image."""
    scale: float
    """Pixels per metre."""
    turn: float = 0.0
    """Angle of the direction on the table that points to the right of the image."""
    tilt: float = 1.0
    """Foreshortening of depth: 1 from straight above, less from the side."""

    def pixel(self, point: Point) -> Point:
        """Return where a point of the table appears: ``(row, column)``."""
        x, y = point[0] - self.centre[0], point[1] - self.centre[1]
        across = x * math.cos(self.turn) + y * math.sin(self.turn)
        away = y * math.cos(self.turn) - x * math.sin(self.turn)
        return (
            self.size[0] / 2 - away * self.scale * self.tilt,
            self.size[1] / 2 + across * self.scale,
        )

    def around(
        self, *points: Point, margin_m: float, angle: float = 0.0
    ) -> tuple[Box, Field, Field]:
        """Return the part of the image around some points, and where its pixels lie.

        Returns:
            The part, which may be empty; and for each pixel the metres from the first point, along
            a direction of the table and across it.
        """
        rows, columns = zip(*map(self.pixel, points), strict=True)
        margin = margin_m * self.scale + 1
        top, left = (max(math.floor(min(at) - margin), 0) for at in (rows, columns))
        bottom = max(min(math.ceil(max(rows) + margin), self.size[0]), top)
        right = max(min(math.ceil(max(columns) + margin), self.size[1]), left)
        away = (rows[0] - 0.5 - np.arange(top, bottom, dtype=np.float32)[:, None]) / self.tilt
        across = np.arange(left, right, dtype=np.float32) + 0.5 - columns[0]
        cosine, sine = math.cos(self.turn - angle), math.sin(self.turn - angle)
        x, y = (across * cosine - away * sine), (across * sine + away * cosine)
        return (slice(top, bottom), slice(left, right)), x / self.scale, y / self.scale


class Canvas:
    """An image onto which shapes are painted, one over the other.

    A shape with a height throws a shadow. The light is fixed to the table, at its top left, so that
    all cameras see the same shadows.

    Args:
        view: How the table is seen.
        planes: Red, green and blue from 0 to 255, ``float32 (3, height, width)``; drawn into.
    """

    def __init__(self, view: View, planes: NDArray[np.float32]) -> None:
        self.view = view
        self.planes = planes
        self._pixel_m = 1 / (view.scale * math.sqrt(view.tilt))

    def disc(self, middle: Point, radius: float, paint: Colour) -> None:
        """Fill a circle."""
        self.link(middle, middle, (radius, radius), paint)

    def square(
        self,
        middle: Point,
        half: Point,
        corner: float,
        paint: Colour,
        *,
        angle: float = 0.0,
        height: float = 0.0,
        blur: float = 0.0,
    ) -> None:
        """Fill a rectangle with round corners; a blurred one is a shadow."""
        if height:
            below = _shadow_of(middle, height)
            self.square(below, half, corner, _SHADOW, angle=angle, blur=1.5 * height)
        box, x, y = self.view.around(middle, margin_m=math.hypot(*half) + blur, angle=angle)
        x, y = np.abs(x) - (half[0] - corner), np.abs(y) - (half[1] - corner)
        outside = _norm(np.maximum(x, 0), np.maximum(y, 0))
        self.fill(box, outside + np.minimum(np.maximum(x, y), 0) - corner, paint, blur)

    def link(
        self,
        start: Point,
        stop: Point,
        radii: tuple[float, float],
        paint: Colour,
        *,
        height: float = 0.0,
        blur: float = 0.0,
    ) -> None:
        """Fill a tube with round ends that tapers from one radius to the other, or its shadow."""
        if height:
            ends = _shadow_of(start, height), _shadow_of(stop, height)
            self.link(*ends, radii, _SHADOW, blur=1.5 * height)
        length = math.dist(start, stop)
        angle = math.atan2(stop[1] - start[1], stop[0] - start[0])
        box, along, across = self.view.around(start, stop, margin_m=max(radii) + blur, angle=angle)
        nearest = np.clip(along, 0, length)
        radius = radii[0] + nearest * ((radii[1] - radii[0]) / (length or 1))
        # Light comes from the top left of the image, wherever the camera is.
        facing = math.sin(0.75 * math.pi - angle + self.view.turn) if length else 0.0
        shade = across * (_ROUNDNESS * facing / max(radii)) if facing and not blur else None
        self.fill(box, _norm(along - nearest, across) - radius, paint, blur, shade)

    def fill(
        self,
        box: Box,
        distance: Field,
        paint: Colour,
        blur: float = 0.0,
        shade: Field | None = None,
    ) -> None:
        """Paint where ``distance`` is negative, lighter by ``shade``."""
        cover = np.clip(0.5 - distance / max(blur, self._pixel_m), 0, 1)
        if blur:
            cover *= _SHADOW_OPACITY * cover * (3 - 2 * cover)
        for plane, value in zip(self.planes, paint, strict=True):
            change = value - plane[box]
            if shade is not None:
                change += value * shade
            change *= cover
            plane[box] += change

    def image(self) -> NDArray[np.uint8]:
        """Return what was drawn, ``uint8 (height, width, 3)``."""
        image = np.empty((*self.view.size, 3), dtype=np.uint8)
        np.add(self.planes.transpose(1, 2, 0), 0.5, out=image, casting="unsafe")
        return image


def _shadow_of(point: Point, height: float) -> Point:
    return (point[0] + 0.6 * height, point[1] - 0.8 * height)


def _norm(x: Field, y: Field) -> Field:
    # Three times as fast as np.hypot, which guards against overflow.
    return np.sqrt(x * x + y * y)
