"""A column of one row group, read by pyarrow, for encodings that we do not parse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError, DatasetError, TooLargeError
from roboreel.spans.whole import arrow_file
from roboreel.storage.bounded import BoundedFile

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["WholeColumn", "read_whole_column"]

_BATCH_ROWS = 64
"""Rows that are read before their size is compared with the limit, unless they may be large."""


class WholeColumn:
    """The byte strings of one row group, in memory."""

    __slots__ = ("_values", "size_bytes")

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._values = values
        self.size_bytes = int(values.nbytes)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, row: int) -> bytes | None:
        value: bytes | None = self._values[row].as_py()
        return value


def read_whole_column(
    path: Path, column: tuple[str, ...], row_group: int, limit_bytes: int
) -> WholeColumn:
    """Return one column of a row group.

    Raises:
        CorruptFileError: pyarrow cannot read it either.
        TooLargeError: It does not fit in the memory budget.
    """
    chunks: list[pa.Array] = []
    held_bytes = 0
    try:
        source = arrow_file(path)
        with pq.ParquetFile(source) as file:
            rows = BoundedFile(path, file, source).piece_rows(
                row_group, column[0], limit_bytes // 8
            )
            for batch in file.iter_batches(
                min(rows, _BATCH_ROWS),
                row_groups=[row_group],
                columns=[".".join(column)],
                use_threads=False,
            ):
                chunks.append(_leaf(batch, column))
                held_bytes += chunks[-1].nbytes
                if held_bytes > limit_bytes // 4:
                    raise TooLargeError(
                        f"A row group of the column takes more than a quarter of the memory budget of "
                        f"{limit_bytes:,} bytes. Open the dataset with a larger memory=."
                    )
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        if isinstance(error, DatasetError):
            raise
        raise CorruptFileError(f"pyarrow cannot read the column: {error}.") from error
    return WholeColumn(pa.chunked_array(chunks, pa.large_binary()))


def _leaf(batch: pa.RecordBatch, column: tuple[str, ...]) -> pa.Array:
    values = batch.column(column[0])
    for name in column[1:]:
        place = values.type.get_field_index(name)
        if place < 0:
            raise KeyError(name)
        values = values.flatten()[place]  # unlike field(), null where the struct is null
    return values.cast(pa.large_binary())
