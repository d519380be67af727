"""What looks odd in a dataset beside the findings of `roboreel check`, in one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.report.distribution import Distribution

_MOST_NAMED = 5


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


def doubt_outliers(
    name: str,
    elements: list[Distribution],
    values: NDArray[Any],
    episodes: NDArray[np.int64],
) -> Iterator[str]:
    """Yield the elements of a feature that have outliers, each with the episode of its farthest.

    Args:
        name: The feature.
        elements: How the values of each element are distributed.
        values: The values ``(N, D)``.
        episodes: The number of each row's episode, ``(N,)``.
    """
    for place, shown in enumerate(elements):
        if shown.has_outliers:
            called = f"{name} · {shown.label}" if shown.label else name
            above = shown.maximum - shown.high >= shown.low - shown.minimum
            farthest = values[:, place] == (shown.maximum if above else shown.minimum)
            yield (
                f"{called} has outliers, the farthest in episode {episodes[farthest][0]}: it ranges "
                f"from {shown.minimum:.4g} to {shown.maximum:.4g}, but 98 % of its values lie "
                f"between {shown.low:.4g} and {shown.high:.4g}."
            )


def _name(numbers: NDArray[np.int64]) -> str:
    """Return the start of a sentence about some episodes."""
    if len(numbers) == 1:
        return f"Episode {numbers[0]} has"
    named = ", ".join(map(str, numbers[:_MOST_NAMED].tolist()))
    return f"{len(numbers)} episodes ({named}{', …' if len(numbers) > _MOST_NAMED else ''}) have"
