"""What is told of one entity at once: values of components, and when they hold."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from rerun.chunk import Chunk

from roboreel.rerun.columns import Column, Component, flat_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

__all__ = [
    "Block",
    "Kind",
    "Moments",
    "Timeline",
    "Times",
    "lend_chunks",
    "make_blocks",
    "make_moments",
    "to_chunk",
]

_TIMELINE_TYPES = {"frame_index": pa.int64(), "timestamp": pa.duration("ns")}
# Beyond, nanoseconds do not fit in 64 bits.
_MOST_SECONDS = 9e9


class Timeline(NamedTuple):
    """A timeline of a block."""

    name: str
    is_sorted: bool
    """Whether no moment of the block comes before the one of the row above."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What blocks of one form have in common."""

    path: str
    timelines: tuple[Timeline, ...]
    """Empty for what holds at all times."""
    components: tuple[Component, ...]

    @property
    def is_static(self) -> bool:
        """Whether it holds at all times."""
        return not self.timelines


class Moments(NamedTuple):
    """When the rows of a block are: a column of each timeline."""

    lines: tuple[Timeline, ...]
    columns: list[Any]
    """Arrow arrays."""
    spans: list[tuple[int, int]]
    """The first and the last tick."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows of one entity: a chunk, in Rerun's words, that has no identity yet."""

    kind: Kind
    moments: Moments
    values: list[Any]
    """Arrow lists, one for each component and row."""

    @property
    def num_rows(self) -> int:
        """How many rows there are; at least one."""
        return len(self.values[0])

    @property
    def columns(self) -> list[Any]:
        """Timelines and components as Arrow arrays."""
        return self.moments.columns + self.values


class Times:
    """The timelines of an episode.

    Args:
        frame_index: Numbers of the frames, ``(T,)``.
        timestamp: Seconds, ``(T,)``. Left out where one of them is no number, or no time.
    """

    def __init__(self, frame_index: NDArray[np.int64], timestamp: NDArray[Any]) -> None:
        self._ticks = {"frame_index": np.ascontiguousarray(frame_index, np.int64)}
        seconds = timestamp.astype(np.float64)
        if (np.abs(seconds) < _MOST_SECONDS).all():
            self._ticks["timestamp"] = np.rint(seconds * 1e9).astype(np.int64)
        self._all = make_moments(self._ticks)

    def at(self, frames: NDArray[np.int64] | None = None) -> Moments:
        """Return the moments of some frames, ascending, or of all."""
        if frames is None or len(frames) == len(self._ticks["frame_index"]):
            return self._all
        return make_moments({name: ticks[frames] for name, ticks in self._ticks.items()})


def make_moments(ticks: Mapping[str, NDArray[np.int64]]) -> Moments:
    """Return moments, given the ticks of each timeline."""
    lines, columns, spans = [], [], []
    for name, some in ticks.items():
        is_sorted = bool((some[1:] >= some[:-1]).all())
        lines.append(Timeline(name, is_sorted))
        columns.append(flat_array(_TIMELINE_TYPES[name], some))
        if is_sorted and len(some):
            spans.append((int(some[0]), int(some[-1])))
        elif len(some):
            spans.append((int(some.min()), int(some.max())))
    return Moments(tuple(lines), columns, spans)


_ALWAYS = Moments((), [], [])
"""What holds at all times."""


def make_blocks(columns: Iterable[Column], moments: Moments = _ALWAYS) -> list[Block]:
    """Return columns as blocks, one for each entity; none where there are no rows.

    Args:
        columns: What to show; several of one entity have as many rows.
        moments: When.
    """
    by_path: dict[str, list[Column]] = {}
    for column in columns:
        by_path.setdefault(column.path, []).append(column)
    return [
        Block(
            Kind(path, moments.lines, tuple(column.component for column in some)),
            moments,
            [column.rows for column in some],
        )
        for path, some in by_path.items()
        if len(some[0].rows)
    ]


def to_chunk(block: Block) -> Chunk:
    """Return a block as Rerun takes it, with an identity of its own."""
    batch = pa.RecordBatch.from_arrays(block.columns, schema=_schema(block.kind))
    # Without times a batch must say that it has none on purpose.
    static = {"index": None} if block.kind.is_static else {}
    (chunk,) = Chunk.from_record_batch(batch, **static)
    return chunk


@lru_cache(maxsize=256)
def _schema(kind: Kind) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return the Arrow schema of a block; the same ones come with every episode."""
    fields = [
        pa.field(
            name, _TIMELINE_TYPES[name], metadata={"rerun:kind": "index", "rerun:index_name": name}
        )
        for name, _ in kind.timelines
    ]
    return pa.schema([*fields, *(_field(kind.path, component) for component in kind.components)])


def _field(path: str, component: Component) -> Any:  # noqa: ANN401
    metadata = {
        "rerun:kind": "data",
        "rerun:entity_path": path,
        "rerun:component": component.name,
        "rerun:archetype": component.archetype,
        "rerun:component_type": component.kind,
    }
    return pa.field(
        f"{path}:{component.name}",
        pa.list_(component.type),
        metadata={key: value for key, value in metadata.items() if value is not None},
    )


@contextmanager
def lend_chunks(blocks: Iterable[Block]) -> Iterator[Iterator[Chunk]]:
    """Lend blocks to Rerun, which makes a RuntimeError of whatever is raised between them."""
    raised: list[Exception] = []

    def lent() -> Iterator[Chunk]:
        try:
            yield from map(to_chunk, blocks)
        except Exception as error:
            raised.append(error)
            raise

    try:
        yield lent()
    except RuntimeError:
        if raised:
            raise raised[0] from None
        raise
