"""Where the chunks of a recording lie and what is in them: its last message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from roboreel.rerun.columns import flat_array
from roboreel.rerun.identity import IDENTITY_TYPE
from roboreel.rerun.rrd import UnknownFormError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.rerun.blocks import Kind

__all__ = ["ChunkEntry", "ChunkTable"]


class ChunkEntry(NamedTuple):
    """A chunk that was written."""

    kind: Kind
    identity: bytes
    spans: list[tuple[int, int]]
    """The first and the last moment, for each timeline."""
    num_rows: int
    offset: int
    """Where its message begins, after the frame."""
    size_bytes: int
    """Of the message."""
    stream_bytes: int
    """Of the Arrow stream in it."""


class ChunkTable:
    """Makes the tables of recordings that are made of the same kinds of chunks.

    Args:
        schema: Of the Arrow table that Rerun wrote of such kinds.
        kinds: The kinds.

    Raises:
        UnknownFormError: There are columns that we do not know.
    """

    def __init__(self, schema: Any, kinds: Sequence[Kind]) -> None:  # noqa: ANN401  # pyarrow is untyped
        self._schema = schema
        names = [line.name for kind in kinds for line in kind.timelines]
        self._timelines = list(dict.fromkeys(names))
        self._columns = [_Column.of(field, self._timelines) for field in schema]
        # Recordings of a dataset have mostly the same chunks in the same order.
        self._masks = lru_cache(maxsize=8)(self._make_masks)

    def batch(self, entries: Sequence[ChunkEntry]) -> Any:  # noqa: ANN401
        """Return the table of a recording."""
        count = len(entries)
        masks = self._masks(tuple([entry.kind for entry in entries]))
        numbers = np.array([entry[3:] for entry in entries], np.int64).T.copy()
        # What holds at all times has no moments; all else has those of the episode's timelines.
        static = [(0, 0)] * len(self._timelines)
        spans = np.array([entry.spans or static for entry in entries], np.int64)
        ticks = [pa.py_buffer(some) for some in spans.reshape(count, -1).T.copy()]
        identities = pa.py_buffer(b"".join([entry.identity for entry in entries]))
        made = dict(zip(_NUMBERS, map(_unsigned, numbers), strict=True))
        made["chunk_id"] = pa.Array.from_buffers(IDENTITY_TYPE, count, [None, identities])
        arrays = []
        for column, mask in zip(self._columns, masks, strict=True):
            if column.what in ("start", "end"):
                buffers = [mask, ticks[column.span]]
                arrays.append(pa.Array.from_buffers(column.type, count, buffers))
            elif column.what == "num_rows":
                arrays.append(_unsigned(numbers[0] * mask))
            else:
                arrays.append(made.get(column.name, mask))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _make_masks(self, kinds: tuple[Kind, ...]) -> list[Any]:
        """Return what of each column is known from the kinds of the chunks alone."""
        return [column.mask(kinds) for column in self._columns]


# In the order of the entries.
_NUMBERS = (
    "chunk_num_rows",
    "chunk_byte_offset",
    "chunk_byte_size",
    "chunk_byte_size_uncompressed",
)


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """A column of the table."""

    name: str
    type: Any
    what: str
    """What is in it: something of chunks as such, or, of what they have on a timeline or at all
    times, whether there is any, how many rows, and the first and the last moment."""
    index: str = ""
    component: str | None = None
    span: int = 0
    """Where its ticks are among the first and the last ones of all timelines."""

    @classmethod
    def of(cls, field: Any, timelines: list[str]) -> _Column:  # noqa: ANN401
        if field.name in ("chunk_entity_path", "chunk_is_static", "chunk_id", *_NUMBERS):
            return cls(field.name, field.type, "fixed")
        metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        index, component = metadata.get("rerun:index", ""), metadata.get("rerun:component")
        what = field.name.rpartition(":")[2]
        span = 0
        if what in ("start", "end") and index in timelines:
            span = 2 * timelines.index(index) + (what == "end")
        elif what not in ("has_static_data", "num_rows"):
            raise UnknownFormError(f"the table of chunks has a column {field}")
        return cls(field.name, field.type, what, index, component, span)

    def mask(self, kinds: tuple[Kind, ...]) -> Any:  # noqa: ANN401
        """Return what is known from the kinds of the chunks alone."""
        if self.name == "chunk_entity_path":
            return pa.array([kind.path for kind in kinds])
        if self.name == "chunk_is_static":
            return pa.array([kind.is_static for kind in kinds])
        holds = np.array([self._is_in(kind) for kind in kinds])
        if self.what == "has_static_data":
            return pa.array(holds)
        return (
            holds
            if self.what == "num_rows"
            else pa.py_buffer(np.packbits(holds, bitorder="little"))
        )

    def _is_in(self, kind: Kind) -> bool:
        timelines = [line.name for line in kind.timelines] or ["rerun:static"]
        names = [component.name for component in kind.components]
        return self.index in timelines and (self.component is None or self.component in names)


def _unsigned(numbers: NDArray[np.int64]) -> Any:  # noqa: ANN401
    return flat_array(pa.uint64(), numbers)
