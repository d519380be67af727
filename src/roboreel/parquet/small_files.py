"""Parquet files of a few kilobytes, each read whole: opening them takes longer than reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.io.reading import SpanReader
from roboreel.parquet.reader import parquet_errors
from roboreel.parquet.row_stream import Layout
from roboreel.parquet.writing import plain_leaves

if TYPE_CHECKING:
    from pathlib import Path


_MOST_STORED_BYTES, _MOST_BYTES = 2**18, 2**20
# Measured: what pyarrow allocates for an empty table of twenty columns.
_TABLE_BYTES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class SmallFile:
    """All that a small Parquet file holds."""

    table: Any
    """Its rows."""
    layout: Layout
    """How they are stored."""

    @property
    def size_bytes(self) -> int:
        """Estimate of the memory that it takes."""
        return _TABLE_BYTES + int(self.table.nbytes)


def read_small_file(path: Path) -> SmallFile | None:
    """Return a file if it is small; None if it is not.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a readable Parquet file.
    """
    with parquet_errors(path), SpanReader(path) as stored:
        if stored.size_bytes > _MOST_STORED_BYTES:
            return None
        data = stored.read(0, stored.size_bytes)
        file = pq.ParquetFile(pa.BufferReader(data))
        groups = range(file.metadata.num_row_groups)
        if sum(file.metadata.row_group(g).total_byte_size for g in groups) > _MOST_BYTES:
            return None
        layout = Layout(file.schema_arrow, tuple(plain_leaves(file)))
        return SmallFile(file.read(use_threads=False), layout)
