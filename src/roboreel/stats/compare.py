"""Whether stored statistics agree with those of the values, and with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.stats.summary import FeatureStats

_COMPARED = ("min", "max", "mean", "std")
# Some store float32, and everyone sums in another order.
_TOLERANCE = 1e-3


def compare_stats(name: str, stored: FeatureStats | None, computed: FeatureStats) -> list[str]:
    """Return where stored statistics differ from those of the values, one sentence each.

    A habit of LeRobot is not an error: it summarizes features with several axes over all but the
    last axis; such statistics are compared with values summarized likewise.

    Args:
        name: The feature's name, for the sentences.
        stored: The statistics in the metadata; None if there are none.
        computed: The statistics of the values themselves.
    """
    if stored is None:
        return [f"{name!r} has no statistics."]
    size = stored.mean.size
    expected = {key: getattr(computed, key).reshape(1, -1) for key in _COMPARED}
    if size != computed.mean.size:
        if computed.mean.ndim < 2 or size != computed.shape[-1]:
            return [
                f"{name!r} has statistics of shape {stored.shape}, but values {computed.shape}."
            ]
        expected = over_rows({key: part.reshape(1, -1, size) for key, part in expected.items()})
    said = {key: getattr(stored, key).reshape(1, -1) for key in _COMPARED}
    return [
        f"{name!r}: {what} ({count} of {size} differ)."
        for _, what, count in differences(said, expected)
    ]


def differences(
    stored: Mapping[str, NDArray[np.float64]], computed: Mapping[str, NDArray[np.float64]]
) -> Iterator[tuple[int, str, int]]:
    """Yield where stored statistics ``(S, D)`` differ from computed ones.

    Returns:
        For each statistic of each row that differs: the row, what differs first, in words, and in
        how many elements.
    """
    # Rounding is judged by the range of the values.
    widest = np.fmax(np.abs(computed["min"]), np.abs(computed["max"]))
    scale = np.nanmax(widest, axis=1, keepdims=True, initial=0.0) + 1e-6
    for key, right in computed.items():
        found = stored[key]
        with np.errstate(invalid="ignore"):
            close = np.abs(found - right) <= _TOLERANCE * (scale + np.abs(right))
        close |= (found == right) | (np.isnan(found) & np.isnan(right))
        for row in np.flatnonzero(~close.all(axis=1)).tolist():
            wrong = np.flatnonzero(~close[row])
            element = int(wrong[0])
            what = (
                f"{key} is {found[row, element]:.6g} in the metadata and "
                f"{right[row, element]:.6g} in the values, at element {element}"
            )
            yield row, what, len(wrong)


def quantile_problems(name: str, stored: FeatureStats) -> list[str]:
    """Return what is wrong with stored quantiles, one sentence each.

    They are not compared with the values: LeRobot averages those of the episodes.
    """
    slack = _TOLERANCE * (np.abs(stored.max - stored.min) + 1e-6)
    last, last_key = stored.min, "the minimum"
    bounds = {**dict(sorted(stored.quantiles.items())), "the maximum": stored.max}
    for key, values in bounds.items():
        if values.shape == last.shape and (values < last - slack).any():
            return [f"{name!r}: {key} is less than {last_key}."]
        last, last_key = values, key
    return []


def over_rows(stats: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Return statistics ``(…, D)`` over the rows of matrices, from those ``(…, R, D)`` of each element.

    So LeRobot summarizes features with several axes: over all axes but the last.
    """
    mean = stats["mean"].mean(axis=-2, keepdims=True)
    variance = stats["std"] ** 2 + (stats["mean"] - mean) ** 2
    return {
        "min": stats["min"].min(axis=-2),
        "max": stats["max"].max(axis=-2),
        "mean": mean.squeeze(-2),
        "std": np.sqrt(variance.mean(axis=-2)),
    }
