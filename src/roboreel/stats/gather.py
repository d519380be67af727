"""The pass that computes statistics: values of any reader into accumulators, which can be kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.stats.accumulate import Accumulator
from roboreel.stats.image import ImageAccumulator
from roboreel.stats.summary import shape_of_stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from roboreel.schema import Feature
    from roboreel.stats.summary import FeatureStats

Gathered = Accumulator | ImageAccumulator
"""What accumulates the statistics of a feature."""

_BYTES_AT_ONCE = 2**25
# Images are thinned to about this size for statistics, which hardly depend on it.
_SAMPLED_SIDE = 150
_SAMPLES_PER_SECOND = 3


def new_accumulator(feature: Feature, stored: FeatureStats | None = None) -> Gathered:
    """Return an empty accumulator for a feature.

    Args:
        feature: The feature, of numbers or images.
        stored: Statistics that there are, whose shape the new ones keep if LeRobot has it.
    """
    if feature.is_camera and feature.depth is None:
        return ImageAccumulator(feature.shape[2])
    return Accumulator((1, 1, 1) if feature.is_camera else shape_of_stats(feature.shape, stored))


def gather(
    parts: Iterable[tuple[str, Gathered]],
    features: Mapping[str, Feature],
    rows: tuple[int, int],
    read: Callable[[NDArray[np.int64], list[str]], Mapping[str, NDArray[Any]]],
    *,
    on_rows: Callable[[int], object] = lambda _: None,
) -> None:
    """Add the values of some rows to accumulators, in bounded memory.

    Args:
        parts: Accumulators with the names of their features; several may be of one feature.
        features: All features.
        rows: The rows ``[start, stop)``.
        read: Returns the values of rows by feature: of numbers ``(N, ...)``, of images
            ``(N, C, H, W)``.
        on_rows: Called now and then with the first row that is left.
    """
    parts = list(parts)
    names = list(dict.fromkeys(name for name, _ in parts))
    if not names:
        return
    width = {name: 1 if features[name].is_camera else 8 for name in names}
    row_bytes = sum(width[name] * math.prod(features[name].shape) for name in names)
    step = max(1, _BYTES_AT_ONCE // max(1, row_bytes))
    start, stop = rows
    for first in range(start, stop, step):
        last = min(first + step, stop)
        values = read(np.arange(first, last, dtype=np.int64), names)
        for name, part in parts:
            own = values[name]
            part.update(own.reshape(-1, *part.shape) if isinstance(part, Accumulator) else own)
        on_rows(last)


def add_part(totals: dict[str, Gathered], name: str, part: Gathered) -> None:
    """Add what was gathered of a feature to the totals; the first part becomes the total."""
    total = totals.setdefault(name, part)
    if total is not part:
        total.merge(part)  # type: ignore[arg-type]  # of one feature, so of one kind


def packed(parts: Mapping[str, Gathered], separator: str = "/") -> dict[str, NDArray[Any]]:
    """Return the states of accumulators as arrays, for one file and `unpacked`."""
    return {
        f"{name}{separator}{key}": array
        for name, part in parts.items()
        for key, array in part.state().items()
    }


def unpacked(
    arrays: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, tuple[int, ...]],
    separator: str = "/",
) -> dict[str, Gathered]:
    """Return the accumulators whose states `packed` returned.

    Args:
        arrays: The arrays. Those of no state are passed over.
        shapes: The shape of an accumulator of numbers, by name.
        separator: What `packed` was given.

    Raises:
        KeyError: A state is incomplete.
        ValueError: A state is of another shape, or no state at all.
    """
    states: dict[str, dict[str, NDArray[Any]]] = {}
    for path in arrays:
        name, _, key = path.rpartition(separator)
        if name in shapes:
            states.setdefault(name, {})[key] = arrays[path]
    return {
        name: ImageAccumulator.from_state(state)
        if "histogram" in state
        else Accumulator.from_state(shapes[name], state)
        for name, state in states.items()
    }


# Some images of a camera, which stand for all.


class ImageSampler:
    """Gathers the statistics of a camera from some of its images, thinned out.

    Args:
        feature: The camera.
        every: One of this many images counts, beginning with the first.
    """

    def __init__(self, feature: Feature, every: int) -> None:
        self.gathered = new_accumulator(feature)
        self._every = every
        self._step = max(1, min(feature.shape[:2]) // _SAMPLED_SIDE)
        # Statistics of pictures have the unit of the pictures, those of videos are in metres.
        in_mm = not feature.is_video and feature.depth is not None and feature.depth.unit == "mm"
        self._per_metre = 1000.0 if in_mm else 1.0
        self._seen = 0

    def take(self, image: Any) -> None:  # noqa: ANN401  # an array, or what has `decode`
        """Look at the next image: ``(H, W, C)``, or ``(H, W)`` for depth; decoded if it counts."""
        self._seen += 1
        if (self._seen - 1) % self._every:
            return
        pixels: NDArray[Any] = image if isinstance(image, np.ndarray) else image.decode()
        thin = pixels[:: self._step, :: self._step]
        if isinstance(self.gathered, ImageAccumulator):
            self.gathered.update(np.ascontiguousarray(np.moveaxis(thin, -1, 0))[None])
        else:
            metres = thin.astype(np.float64) * (1.0 if thin.dtype.kind == "f" else 1e-3)
            self.gathered.update((metres * self._per_metre).reshape(-1, 1, 1, 1))


def sample_stride(fps: float) -> int:
    """Return the distance, in images, of those that enter a camera's statistics."""
    return max(1, round(fps / _SAMPLES_PER_SECOND))
