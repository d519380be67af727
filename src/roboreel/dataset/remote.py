"""What a dataset whose files are elsewhere can do beside being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.dataset.described import Described
from roboreel.mirror.opening import mirror_of
from roboreel.numbers import whole_numbers
from roboreel.sample_spec import SampleSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.plan import Selection
    from roboreel.dataset.reader import Reader
    from roboreel.mirror.counts import Fetched

_ROWS_AT_ONCE = 2000


class Fetchable(Described):
    """A dataset that may be remote: see docs/remote.md."""

    @property
    def _reader(self) -> Reader:
        raise NotImplementedError

    @property
    def selection(self) -> Selection:
        """Which episodes these are, and how their frames are numbered."""
        raise NotImplementedError

    @property
    def url(self) -> str | None:
        """Where a remote dataset lies, without any secret; None for one on this machine."""
        mirror = mirror_of(self.manifest.root)
        return None if mirror is None else mirror.url

    @property
    def is_remote(self) -> bool:
        """Whether the files are elsewhere, and are fetched when they are needed."""
        return self.url is not None

    @property
    def fetched(self) -> Fetched | None:
        """What this process has fetched of a remote dataset; None for one on this machine."""
        mirror = mirror_of(self.manifest.root)
        return None if mirror is None else mirror.fetched()

    def fetch(self, samples: NDArray[np.int64], spec: SampleSpec) -> int:
        """Have what a batch needs of a remote dataset at hand, without reading it.

        Returns:
            How many bytes were missing.
        """
        return self._reader.fetch(self.selection.rows(whole_numbers(samples, "sample")), spec)

    def prefetch(
        self,
        features: Sequence[str] | None = None,
        *,
        on_rows: Callable[[int, int], object] = lambda done, total: None,
    ) -> int:
        """Fetch all that the samples of this dataset or view need into its mirror.

        What does not fit in ``mirror_limit`` pushes out what was fetched first.

        Args:
            features: Names of the features that will be read. Default: all.
            on_rows: Called now and then with the rows done and the rows in total.

        Returns:
            How many bytes were missing; 0 for a dataset on this machine.
        """
        total, missing = len(self.selection), 0
        spec = SampleSpec(features=None if features is None else tuple(features))
        for first in range(0, total, _ROWS_AT_ONCE):
            stop = min(first + _ROWS_AT_ONCE, total)
            missing += self.fetch(np.arange(first, stop), spec)
            on_rows(stop, total)
        return missing
