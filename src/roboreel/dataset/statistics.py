"""Statistics computed from the values themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import FeatureNotFoundError
from roboreel.stats import Accumulator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from roboreel.dataset.dataset import Dataset
    from roboreel.stats import FeatureStats

_BYTES_AT_ONCE = 1 << 24


def number_features(dataset: Dataset) -> list[str]:
    """Return the names of the numeric features."""
    return [name for name, feature in dataset.features.items() if feature.kind == "number"]


def compute_stats(
    dataset: Dataset,
    features: Sequence[str] | None = None,
    *,
    on_samples: Callable[[int], object] = lambda _: None,
) -> Mapping[str, FeatureStats]:
    """Return the statistics of all samples of a dataset or view, in bounded memory.

    Counts, extremes, mean and deviation are exact; quantiles are those of the values, within the
    error bound of the sketch. Cameras are left out: theirs would take decoding the whole dataset.

    Args:
        dataset: The dataset or view.
        features: Names of the features; by default all numeric ones.
        on_samples: Called now and then with the number of samples done.

    Raises:
        FeatureNotFoundError: A feature does not exist, or is not numeric.
    """
    names = known_numbers(dataset, features)
    totals = accumulate_numbers(dataset, names, 0, len(dataset), on_samples=on_samples)
    return {name: total.finish() for name, total in totals.items()}


def known_numbers(dataset: Dataset, features: Sequence[str] | None) -> list[str]:
    """Return the names of numeric features that were asked for; all of them if none were.

    Raises:
        FeatureNotFoundError: A feature does not exist, or is not numeric.
    """
    known = number_features(dataset)
    names = known if features is None else list(features)
    wrong = [name for name in names if name not in known]
    if wrong:
        raise FeatureNotFoundError(
            f"{wrong[0]!r} is not a numeric feature: there are {', '.join(known)}, in "
            f"{str(dataset.path)!r}."
        )
    return names


def accumulate_numbers(
    dataset: Dataset,
    names: Sequence[str],
    start: int,
    stop: int,
    *,
    on_samples: Callable[[int], object] = lambda _: None,
) -> dict[str, Accumulator]:
    """Return the statistics of some features over the samples ``[start, stop)``, unfinished."""
    totals = {name: Accumulator(dataset.features[name].value_shape) for name in names}
    sizes = [int(np.prod(dataset.features[name].value_shape, dtype=np.int64)) * 8 for name in names]
    step = max(1, _BYTES_AT_ONCE // max(sum(sizes), 1))
    for first in range(start, stop, step):
        last = min(first + step, stop)
        values = dataset.read(np.arange(first, last, dtype=np.int64), names)
        for name in names:
            totals[name].update(values[name])
        on_samples(last)
    return totals
