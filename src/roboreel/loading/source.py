"""Where training samples come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.sample_spec import SampleSpec
    from roboreel.schema import Feature


class Source(Protocol):
    """Where samples come from: a `Dataset`, a view of one, or a `Mixture` of several."""

    def __len__(self) -> int: ...

    @property
    def features(self) -> Mapping[str, Feature]:
        """What every sample has, by name."""

    @property
    def episode_bounds(self) -> NDArray[np.int64]:
        """Samples of the i-th episode are ``[bounds[i], bounds[i + 1])``, ``(E + 1,)``."""

    def read(self, samples: NDArray[np.int64], spec: SampleSpec, /) -> dict[str, Any]:
        """Return a batch of samples as a dict of arrays."""


@runtime_checkable
class ReadsBatches(Protocol):
    """A source whose batches share decoding, and no memory, when several are read at once."""

    def read_batches(
        self, batches: Sequence[NDArray[np.int64]], spec: SampleSpec, /
    ) -> list[dict[str, Any]]:
        """Return several batches, each a dict of arrays."""


class HasSource(Protocol):
    """What can give samples: a `roboreel.shards.Store`, a `roboreel.ReplayBuffer`."""

    def as_source(self) -> Source:
        """Return where its samples come from."""
