"""Shapes with soft edges, drawn from their distance fields."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.demo_arm.scene import Point

__all__ = ["Canvas", "Colour", "View", "colour", "rounded_rectangle"]

Colour = tuple[float, float, float]


def colour(code: str) -> Colour:
    """Return a colour from its hexadecimal code.

    Examples:
        >>> colour("#ff8000")
        (255.0, 128.0, 0.0)
    """
    red, green, blue = bytes.fromhex(code.removeprefix("#"))
    return (float(red), float(green), float(blue))


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

    def box(self, points: Sequence[Point], margin_m: float) -> tuple[slice, slice] | None:
        """Return the rows and columns that shapes around points touch; None if outside the image."""
        rows, columns = zip(*(self.pixel(point) for point in points), strict=True)
        margin = margin_m * self.scale + 1
        bounds = []
        for places, limit in ((rows, self.size[0]), (columns, self.size[1])):
            low = max(math.floor(min(places) - margin), 0)
            high = min(math.ceil(max(places) + margin), limit)
            if low >= high:
                return None
            bounds.append(slice(low, high))
        return bounds[0], bounds[1]

    def coordinates(
        self, box: tuple[slice, slice], origin: Point, angle: float = 0.0
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return each pixel's position in metres, along and across a direction from an origin."""
        row, column = self.pixel(origin)
        rows = np.arange(box[0].start, box[0].stop, dtype=np.float32)[:, None]
        columns = np.arange(box[1].start, box[1].stop, dtype=np.float32)[None, :]
        away = (np.float32(row - 0.5) - rows) / np.float32(self.scale * self.tilt)
        across = (columns - np.float32(column - 0.5)) / np.float32(self.scale)
        cosine, sine = (np.float32(f(self.turn - angle)) for f in (math.cos, math.sin))
        return across * cosine - away * sine, across * sine + away * cosine


class Canvas:
    """An image onto which shapes are painted, one over the other.

    Args:
        view: How the table is seen.
        planes: Red, green and blue from 0 to 255, ``float32 (3, height, width)``; drawn into.
    """

    def __init__(self, view: View, planes: NDArray[np.float32]) -> None:
        self.view = view
        self.planes = planes
        self._pixel_m = 1 / (view.scale * math.sqrt(view.tilt))

    def disc(
        self,
        middle: Point,
        radius: float,
        paint: Colour,
        *,
        opacity: float = 1.0,
        blur: float = 0.0,
    ) -> None:
        """Fill a circle; ``blur`` is the width of its edge in metres."""
        box = self.view.box([middle], radius + blur)
        if box is None:
            return
        x, y = self.view.coordinates(box, middle)
        self._fill(box, _norm(x, y) - np.float32(radius), paint, opacity, blur)

    def ring(
        self, middle: Point, radius: float, width: float, paint: Colour, *, opacity: float = 1.0
    ) -> None:
        """Draw the outline of a circle."""
        box = self.view.box([middle], radius + width)
        if box is None:
            return
        x, y = self.view.coordinates(box, middle)
        distance = np.abs(_norm(x, y) - np.float32(radius)) - np.float32(width / 2)
        self._fill(box, distance, paint, opacity, 0.0)

    def square(
        self,
        middle: Point,
        half: tuple[float, float],
        corner: float,
        paint: Colour,
        *,
        angle: float = 0.0,
        opacity: float = 1.0,
        blur: float = 0.0,
    ) -> None:
        """Fill a rectangle with round corners."""
        box = self.view.box([middle], math.hypot(*half) + blur)
        if box is None:
            return
        x, y = self.view.coordinates(box, middle, angle)
        distance = rounded_rectangle(x, y, half, corner)
        self._fill(box, distance, paint, opacity, blur)

    def link(
        self,
        start: Point,
        stop: Point,
        radii: tuple[float, float],
        paint: Colour,
        *,
        opacity: float = 1.0,
        blur: float = 0.0,
        roundness: float = 0.0,
    ) -> None:
        """Fill a bar with round ends that tapers from one radius to the other.

        Args:
            start: Middle of the first end.
            stop: Middle of the second end.
            radii: Of the two ends.
            paint: Its colour.
            opacity: 1 covers what is below.
            blur: Width of the edge in metres.
            roundness: How much lighter the side facing the light is, as on a tube.
        """
        angle = math.atan2(stop[1] - start[1], stop[0] - start[0])
        length = np.float32(math.dist(start, stop))
        box = self.view.box([start, stop], max(radii) + blur)
        if box is None:
            return
        along, across = self.view.coordinates(box, start, angle)
        nearest = np.clip(along, np.float32(0), length)
        radius = np.float32(radii[0]) + nearest * np.float32((radii[1] - radii[0]) / length)
        distance = _norm(along - nearest, across) - radius
        # Light comes from the top left of the image, wherever the camera is.
        facing = math.sin(0.75 * math.pi - angle + self.view.turn)
        shade = None
        if roundness:
            shade = across * np.float32(roundness * facing / max(radii))
        self._fill(box, distance, paint, opacity, blur, shade)

    def _fill(
        self,
        box: tuple[slice, slice],
        distance: NDArray[np.float32],
        paint: Colour,
        opacity: float,
        blur: float,
        shade: NDArray[np.float32] | None = None,
    ) -> None:
        """Paint where ``distance`` is negative; the array is overwritten."""
        cover = distance
        cover *= np.float32(-1 / max(blur, self._pixel_m))
        cover += np.float32(0.5)
        np.clip(cover, 0, 1, out=cover)
        if blur:
            cover *= cover * (np.float32(3) - 2 * cover)
        cover *= np.float32(opacity)
        for plane, value in zip(self.planes, paint, strict=True):
            area = plane[box]
            change = np.float32(value) - area
            if shade is not None:
                change += shade * np.float32(value)
            change *= cover
            area += change

    def image(self) -> NDArray[np.uint8]:
        """Return what was drawn, ``uint8 (height, width, 3)``."""
        image = np.empty((*self.view.size, 3), dtype=np.uint8)
        for channel, plane in enumerate(self.planes):
            np.add(plane, np.float32(0.5), out=image[..., channel], casting="unsafe")
        return image


def _norm(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    # Three times as fast as np.hypot, which guards against overflow.
    squared = x * x
    squared += y * y
    length: NDArray[np.float32] = np.sqrt(squared, out=squared)
    return length


def rounded_rectangle(
    x: NDArray[np.float32], y: NDArray[np.float32], half: tuple[float, float], corner: float
) -> NDArray[np.float32]:
    """Return the distance from the edge of a rectangle with round corners, negative inside."""
    across = np.abs(x) - np.float32(half[0] - corner)
    away = np.abs(y) - np.float32(half[1] - corner)
    outside = _norm(np.maximum(across, 0), np.maximum(away, 0))
    distance: NDArray[np.float32] = (
        outside + np.minimum(np.maximum(across, away), 0) - np.float32(corner)
    )
    return distance
