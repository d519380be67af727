"""What a mixture or a loader may be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

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


class Member(Source, Protocol):
    """Samples with statistics: a `Dataset`, a view, or the source of a store or a replay buffer."""

    @property
    def path(self) -> Path | None:
        """Where the samples are stored; None for a table in memory."""

    @property
    def robot_type(self) -> str | None:
        """What the robot is called, if that is known."""

    @property
    def stats(self) -> Mapping[str, Any]:
        """Statistics of the features that have any."""

    @property
    def _text_names(self) -> tuple[str, ...]:
        """Texts that are read beside the features."""


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


def source_of(given: Any) -> Any:  # noqa: ANN401  # a source, or what has one
    """Return the source of a `roboreel.shards.Store` or a `ReplayBuffer`; others as they are."""
    as_source = getattr(given, "as_source", None)
    return given if as_source is None else as_source()
