"""A column of one row group, read by pyarrow, for encodings that we do not parse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from roboreel.errors import CorruptFileError, DatasetError, TooLargeError
from roboreel.parquet.reader import ParquetReader

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.io.budget import Budget


_BATCH_ROWS = 64
"""Rows that are read before their size is compared with the limit, unless they may be large."""
_PARTS = 32
"""A part that is read at a time takes at most this share of the budget, …"""
_COPIES = 4
"""… and is there several times: as pages, in pyarrow's decoder and builder, and as values."""
_VALUE_BYTES = 41
"""What Python needs beside the bytes of a value."""
_LEAST_BYTES = 2**21
"""However small the budget is: a page takes about a megabyte."""


class WholeColumn:
    """The byte strings of one row group, in memory."""

    __slots__ = ("_values", "size_bytes")

    def __init__(self, values: list[bytes | None]) -> None:
        self._values = values
        self.size_bytes = _size(values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, row: int) -> bytes | None:
        return self._values[row]


def read_whole_column(
    path: Path, column: tuple[str, ...], row_group: int, budget: Budget
) -> WholeColumn:
    """Return one column of a row group.

    While it is read, the budget counts it, and the parts in which it is read.

    Raises:
        CorruptFileError: pyarrow cannot read it either.
        TooLargeError: It does not fit in the memory budget.
    """
    # Not as Arrow arrays, which keep up to twice the memory that they need.
    values: list[bytes | None] = []
    name, held_bytes = ".".join(column), 0
    limit_bytes = max(budget.limit_bytes, _LEAST_BYTES)
    most_bytes, part_bytes = limit_bytes // 2, limit_bytes // _PARTS
    try:
        reader = ParquetReader(path)
        rows = min(_BATCH_ROWS, reader.rows_at_once([row_group], [name], part_bytes))
        whole_bytes = min(reader.bound([row_group], [name]).whole, most_bytes)
        with budget.lent(whole_bytes + _COPIES * part_bytes, owner="row groups"):
            for batch in reader.batches([row_group], [name], rows):
                part = _leaf(batch, column).to_pylist()
                values += part
                held_bytes += _size(part)
                if held_bytes > most_bytes:
                    raise TooLargeError(
                        f"A row group of the column takes more than half of the memory budget of "
                        f"{limit_bytes:,} bytes. Open the dataset with a larger memory=."
                    )
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        if isinstance(error, DatasetError):
            raise
        raise CorruptFileError(f"pyarrow cannot read the column: {error}.") from error
    return WholeColumn(values)


def _size(values: list[bytes | None]) -> int:
    return sum(_VALUE_BYTES + len(value or b"") for value in values)


def _leaf(batch: pa.RecordBatch, column: tuple[str, ...]) -> pa.Array:
    values = batch.column(column[0])
    for name in column[1:]:
        place = values.type.get_field_index(name)
        if place < 0:
            raise KeyError(name)
        values = values.flatten()[place]  # unlike field(), null where the struct is null
    return values.cast(pa.large_binary())
