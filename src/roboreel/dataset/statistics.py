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

__all__ = ["compute_stats", "number_features"]

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
    known = number_features(dataset)
    names = known if features is None else list(features)
    wrong = [name for name in names if name not in known]
    if wrong:
        raise FeatureNotFoundError(
            f"{wrong[0]!r} is not a numeric feature: there are {', '.join(known)}, in "
            f"{str(dataset.path)!r}."
        )
    totals = {name: Accumulator(dataset.features[name].value_shape) for name in names}
    sizes = [int(np.prod(dataset.features[name].value_shape, dtype=np.int64)) * 8 for name in names]
    step = max(1, _BYTES_AT_ONCE // max(sum(sizes), 1))
    for start in range(0, len(dataset), step):
        stop = min(start + step, len(dataset))
        values = dataset.read(np.arange(start, stop, dtype=np.int64), names)
        for name in names:
            totals[name].update(values[name])
        on_samples(stop)
    return {name: total.finish() for name, total in totals.items()}
