"""What looks wrong in a dataset, in one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import DatasetError
from roboreel.format.statistics import read_stats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.report.distribution import Distribution
    from roboreel.stats import FeatureStats

__all__ = ["doubt_episodes", "doubt_feature", "doubt_outliers", "doubt_statistics"]

_MOST_NAMED = 5
# Often constant in sound datasets.
_MAY_BE_CONSTANT = ("task_index", "subtask_index")


def doubt_episodes(dataset: Dataset) -> Iterator[str]:
    """Yield what looks wrong about the episodes, from metadata alone."""
    numbers, lengths = dataset.episodes.numbers, dataset.episodes.lengths
    if not len(lengths):
        yield "There are no episodes."
        return
    if (lengths == 0).any():
        yield f"{_name(numbers[lengths == 0])} no frames."
    typical = float(np.median(lengths))
    short, long = (lengths > 0) & (lengths < typical / 5), lengths > typical * 5
    if short.any():
        yield f"{_name(numbers[short])} less than a fifth of the typical {typical:g} frames."
    if long.any():
        yield f"{_name(numbers[long])} more than five times the typical {typical:g} frames."
    positions = dataset.manifest.episodes.positions_of(numbers)
    for camera, clips in dataset.manifest.episodes.clips.items():
        seconds = clips.stop_s[positions] - clips.start_s[positions]
        differ = np.isfinite(seconds) & (np.abs(seconds * dataset.fps - lengths) > 0.5)
        if differ.any():
            first = int(np.flatnonzero(differ)[0])
            yield (
                f"{_name(numbers[differ])} a different length in the video of {camera}: episode "
                f"{numbers[first]} has {lengths[first]} frames, and its clip lasts for "
                f"{seconds[first] * dataset.fps:.1f}."
            )


def doubt_feature(name: str, values: NDArray[Any], fps: float) -> Iterator[str]:
    """Yield what looks wrong about a feature's values ``(N, D)``."""
    if name == "timestamp":
        steps = np.diff(values[:, 0].astype(np.float64)) * fps
        # Time jumps between episodes and stretches; within one, a step is one frame.
        odd = (steps > 0) & (np.abs(steps - 1) > 0.5) & (steps < 100)
        if odd.any():
            yield f"timestamp is uneven: {odd.sum()} steps are not 1/{fps:g} s long."
        return
    if values.dtype.kind == "f":
        broken = ~np.isfinite(values)
        if broken.any():
            yield f"{name} has {int(broken.sum()):,} values that are NaN or infinite."
    if len(values) > 1 and name not in _MAY_BE_CONSTANT:
        constant = (values == values[0]).all(axis=0)
        if constant.all():
            yield f"{name} is constant: {_show(values[0, 0])} in every frame that was read."
        elif constant.any():
            places = ", ".join(map(str, np.flatnonzero(constant)[:_MOST_NAMED].tolist()))
            more = ", …" if constant.sum() > _MOST_NAMED else ""
            yield f"{name} has {constant.sum()} constant elements: {places}{more}."


def doubt_outliers(name: str, elements: list[Distribution]) -> Iterator[str]:
    """Yield the elements of a feature that have outliers."""
    for shown in elements:
        if shown.has_outliers:
            called = f"{name} · {shown.label}" if shown.label else name
            yield (
                f"{called} has outliers: it ranges from {shown.minimum:.4g} to "
                f"{shown.maximum:.4g}, but 98 % of its values lie between {shown.low:.4g} and "
                f"{shown.high:.4g}."
            )


def doubt_statistics(dataset: Dataset, numbers: Mapping[str, list[Distribution]]) -> Iterator[str]:
    """Yield what looks wrong about the dataset's stored statistics."""
    try:
        stored = read_stats(dataset.manifest)
    except DatasetError as error:
        yield f"The stored statistics cannot be read: {error}"
        return
    if not stored:
        yield "There are no stored statistics, which training usually needs for normalization."
    for name, stats in stored.items():
        if name not in dataset.features:
            yield f"There are stored statistics of {name}, which is not a feature."
            continue
        yield from _doubt_stored(name, stats, numbers.get(name, []))


def _doubt_stored(name: str, stats: FeatureStats, shown: list[Distribution]) -> Iterator[str]:
    if not all(np.isfinite(part).all() for part in (stats.min, stats.max, stats.mean, stats.std)):
        yield f"The stored statistics of {name} have values that are NaN or infinite."
        return
    flat = {part: getattr(stats, part).reshape(-1) for part in ("min", "max", "std")}
    if not shown or len(flat["min"]) < len(shown):
        return
    zero = [s.label or name for i, s in enumerate(shown) if flat["std"][i] == 0 and s.std > 0]
    if zero:
        yield f"The stored std of {name} is 0 for {', '.join(zero[:_MOST_NAMED])}, whose values vary."
    # Values are 32-bit floats: equal up to their precision.
    outside = [
        s.label or name
        for i, s in enumerate(shown)
        if s.minimum < flat["min"][i] - _grain(s) or s.maximum > flat["max"][i] + _grain(s)
    ]
    if outside:
        yield (
            f"Values of {name} lie outside its stored minimum and maximum: "
            f"{', '.join(outside[:_MOST_NAMED])}. The statistics describe other data."
        )


def _grain(shown: Distribution) -> float:
    return 1e-4 * max(abs(shown.minimum), abs(shown.maximum), 1e-6)


def _show(value: Any) -> str:  # noqa: ANN401  # a number of any kind
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def _name(numbers: NDArray[np.int64]) -> str:
    """Return the start of a sentence about some episodes."""
    if len(numbers) == 1:
        return f"Episode {numbers[0]} has"
    named = ", ".join(map(str, numbers[:_MOST_NAMED].tolist()))
    return f"{len(numbers)} episodes ({named}{', …' if len(numbers) > _MOST_NAMED else ''}) have"
