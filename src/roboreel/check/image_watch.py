"""What the images of one episode look like: still, black, sharp. No file is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Measured on every n-th pixel, so that at most so many are left of a line.
_MOST_PIXELS = 320
_COLOURS = 3
# An image is still if no field of a grid of 8x8 changes by more than this, on average, of 255.
# Encoders change textures and edges by up to 5 when they encode the same image again.
_GRID, _STILL_CHANGE = 8, 6.0
# An image is black if nearly no pixel is brighter than this.
_BLACK_LEVEL, _BRIGHT_SHARE = 16, 0.01
SHARPNESS_STEPS = 8
"""Steps of sharpness for each doubling."""


@dataclass(frozen=True, slots=True)
class StillRun:
    """Consecutive frames that show the same image."""

    start: int
    stop: int
    codings: int
    """How many of the images were encoded on their own, without reference to another one."""
    change: float = 0.0
    """How much the image changes at most, where it changes most; of 255."""

    @property
    def length(self) -> int:
        """How many frames there are."""
        return self.stop - self.start


@dataclass(slots=True)
class ImageWatch:
    """Looks at the images of an episode in their order.

    Args:
        least: How many still images in a row are worth keeping.
        is_depth: Whether values are distances: those are only compared, bit by bit.
    """

    least: int
    is_depth: bool = False
    same: list[StillRun] = field(default_factory=list)
    """Runs of images that are equal to the last bit."""
    still: list[StillRun] = field(default_factory=list)
    """Runs of images that hardly differ from their first."""
    sharpness: list[int] = field(default_factory=list)
    """Of each image, on the scale of `sharpness_of`."""
    black: list[int] = field(default_factory=list)
    """Frames whose images are black."""
    frames: list[int] = field(default_factory=list)
    """The frame of each image."""
    changes: list[float] = field(default_factory=list)
    """How much the image changes, where it changes most, in steps of ``least`` frames; of 255."""
    _same_from: tuple[int, int] = (0, 0)
    _still_from: tuple[int, int] = (0, 0)
    _codings: int = 0
    _last: NDArray[Any] | None = None
    _reference: NDArray[np.int16] | None = None
    _change: float = 0.0
    _earlier: NDArray[np.int16] | None = None

    def add(self, frame: int, image: NDArray[Any], *, is_independent: bool) -> None:
        """Look at the next image.

        Args:
            frame: Its frame.
            image: ``(C, H, W)``. It must not change afterwards.
            is_independent: Whether it was encoded without reference to another image.
        """
        follows = bool(self.frames) and self.frames[-1] == frame - 1
        if not (follows and self._last is not None and _is_same(self._last, image)):
            self._end(self.same, *self._same_from)
            self._same_from = (frame, self._codings)
        self._last = image
        if not self.is_depth:
            small = _brightness(image)
            change = _change(self._reference, small) if follows else np.inf
            if change > _STILL_CHANGE:
                self._end(self.still, *self._still_from, self._change)
                self._still_from, self._reference = (frame, self._codings), small
            self._change = max(self._change, change) if change <= _STILL_CHANGE else 0.0
            self._step(small)
            if (small > _BLACK_LEVEL).mean() < _BRIGHT_SHARE:
                self.black.append(frame)
            self.sharpness.append(sharpness_of(small))
        self._codings += is_independent
        self.frames.append(frame)

    def finish(self) -> None:
        """Close the runs that are still open."""
        self._end(self.same, *self._same_from)
        if not self.is_depth:
            self._end(self.still, *self._still_from, self._change)
        self._last = self._reference = self._earlier = None

    def _step(self, small: NDArray[np.int16]) -> None:
        if len(self.frames) % self.least == 0:
            if self._earlier is not None:
                self.changes.append(_change(self._earlier, small))
            self._earlier = small

    def _end(self, runs: list[StillRun], start: int, codings: int, change: float = 0.0) -> None:
        if self.frames and self.frames[-1] + 1 - start >= self.least:
            run = StillRun(start, self.frames[-1] + 1, self._codings - codings, change)
            runs.append(run)


def thinned(image: NDArray[Any]) -> NDArray[Any]:
    """Return every n-th pixel of an image ``(C, H, W)``, as a view."""
    step = -(-max(image.shape[1:]) // _MOST_PIXELS)
    return image[:, ::step, ::step]


def sharpness_of(brightness: NDArray[np.int16]) -> int:
    """Return how sharp an image is: the logarithm of its Laplacian's variance, 8 steps a doubling.

    Examples:
        >>> flat = np.full((16, 16), 90, np.int16)
        >>> edges = (np.indices((16, 16)).sum(axis=0) % 2 * 100).astype(np.int16)
        >>> sharpness_of(flat), sharpness_of(edges)
        (0, 138)
    """
    inner = brightness[1:-1, 1:-1]
    if not inner.size:
        return 0
    around = brightness[:-2, 1:-1] + brightness[2:, 1:-1] + brightness[1:-1, :-2]
    laplacian = 4 * inner - around - brightness[1:-1, 2:]
    return round(SHARPNESS_STEPS * float(np.log2(1 + laplacian.var(dtype=np.float64))))


def _brightness(image: NDArray[Any]) -> NDArray[np.int16]:
    """Return the brightness of every n-th pixel, 0 to 255."""
    small = thinned(image)
    if len(small) < _COLOURS or small.dtype != np.uint8:
        grey: NDArray[np.int16] = small[0].astype(np.int16)
        return grey
    red, green, blue = (plane.astype(np.int16) for plane in small[:3])
    brightness: NDArray[np.int16] = (red + 2 * green + blue) >> 2
    return brightness


def _is_same(first: NDArray[Any], second: NDArray[Any]) -> bool:
    return first.shape == second.shape and bool((first == second).all())


def _change(reference: NDArray[np.int16] | None, image: NDArray[np.int16]) -> float:
    """Return by how much the field of the grid that changes most does so, on average."""
    if reference is None or reference.shape != image.shape:
        return np.inf
    change = np.abs(image - reference)
    height, width = (max(length // _GRID, 1) for length in change.shape)
    rows, columns = change.shape[0] // height * height, change.shape[1] // width * width
    fields = change[:rows, :columns].reshape(rows // height, height, -1, width)
    return float(fields.mean(axis=(1, 3)).max(initial=0.0))
