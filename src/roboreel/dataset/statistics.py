"""Statistics computed from the values themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import FeatureNotFoundError
from roboreel.stats import Accumulator, gather

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from roboreel.dataset.dataset import Dataset
    from roboreel.stats import FeatureStats


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
    totals = {name: Accumulator(dataset.features[name].value_shape) for name in names}
    rows = 0, len(dataset)
    gather(totals.items(), dataset.features, rows, dataset.read, on_rows=on_samples)
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
