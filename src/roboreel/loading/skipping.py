"""Samples that cannot be read, left out and counted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from roboreel.errors import (
    DatasetError,
    RemoteError,
    SampleError,
    StaleDatasetError,
    UnfinishedChangeError,
)
from roboreel.numbers import check_at_least

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray


OF_THE_DATASET = (StaleDatasetError, UnfinishedChangeError)
"""Errors that all samples have alike. Each look for an unfinished change waits for it."""
OF_NO_SAMPLE = (*OF_THE_DATASET, RemoteError)
"""Errors that say nothing of a sample: reading others one by one would wait as long again."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave out samples that cannot be read, as long as there are few."""

    limit: int = 100
    """Different samples that may be left out; one more is an error."""

    def __post_init__(self) -> None:
        check_at_least(1, limit=self.limit)


OnError: TypeAlias = "Literal['raise', 'skip'] | Skip"
"""What to do about a sample that cannot be read; ``"skip"`` is ``Skip()``."""


def skip_of(on_error: OnError) -> Skip | None:
    """Return how samples are skipped; None if they are not.

    Raises:
        ValueError: It is neither ``"raise"``, ``"skip"`` nor a `Skip`.
    """
    if isinstance(on_error, Skip):
        return on_error
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is {on_error!r}: give 'raise', 'skip' or Skip(limit=…).")
    return Skip() if on_error == "skip" else None


class Skipped:
    """The samples that a loader has left out, each with its error."""

    def __init__(self) -> None:
        self.errors: dict[int, str] = {}

    def add(self, failing: Mapping[int, DatasetError], limit: int) -> None:
        """Count samples, and warn of each that is new.

        Raises:
            SampleError: They are more than the limit.
        """
        for sample, error in failing.items():
            if sample in self.errors:
                continue
            if len(self.errors) == limit:
                raise SampleError(
                    f"More than {limit} samples cannot be read; the latest: {error} "
                    "Run `roboreel check`, or raise the limit: on_error=Skip(limit=…)."
                ) from error
            self.errors[sample] = str(error)
            warnings.warn(f"A sample is left out. {error}", RuntimeWarning, stacklevel=3)


def find_failing(
    read: Callable[[NDArray[np.int64]], object], places: NDArray[np.int64]
) -> dict[int, DatasetError]:
    """Return the places that cannot be read, with their errors, by halving.

    Args:
        read: Reads some of the places at once.
        places: Those that were asked for, ``(N,)``.
    """
    if not len(places):
        return {}
    try:
        read(places)
    except DatasetError as error:
        if len(places) == 1:
            return {int(places[0]): error}
        middle = len(places) // 2
        return find_failing(read, places[:middle]) | find_failing(read, places[middle:])
    return {}
