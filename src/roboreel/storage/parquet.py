"""Parquet files read as columns, and written."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError
from roboreel.files import atomic_file
from roboreel.memory.budget import process_budget
from roboreel.spans.reading import SpanReader
from roboreel.spans.whole import arrow_file
from roboreel.storage.arrow_types import is_numeric, plain_numbers
from roboreel.storage.bounded import BoundedFile
from roboreel.storage.narrow import NarrowFooter, narrow_footer, parse_footer
from roboreel.storage.parquet_errors import parquet_errors
from roboreel.storage.ragged import TextLists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "ParquetTable",
    "add_null_columns",
    "column_key",
    "join_parquet",
    "join_tables",
    "open_parquet",
    "opened_parquet",
    "plain_leaves",
    "plain_types",
    "starts_as_parquet",
    "write_columns",
    "write_parquet",
]

_ARROW_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
# Metadata may take this part of the budget as Arrow values, and as Python's, which are larger.
_ARROW_SHARE, _PYTHON_SHARE = 4, 32
_LEAST_LIMIT_BYTES = 2**21
_GROUP_ROWS = 1000
"""Rows per row group in tables of metadata."""


@contextmanager
def open_parquet(path: Path, only: Callable[[str], bool] | None = None) -> Iterator[ParquetTable]:
    """Yield a Parquet file, open for reading whole columns.

    Args:
        path: The file.
        only: Whether a column of this name may be read. Others may be missing from the table, which
            makes files with thousands of row groups faster to open.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a readable Parquet file.
    """
    with parquet_errors(path):
        source = arrow_file(path)
        footer = None if only is None else _narrowed(source, only)
        metadata = None if footer is None else parse_footer(footer.data)
        file = pq.ParquetFile(source, metadata=metadata)
        bounded = BoundedFile(path, file, source, footer)
    try:
        yield ParquetTable(path, file, bounded)
    finally:
        file.close(force=True)


def _narrowed(source: Any, only: Callable[[str], bool]) -> NarrowFooter | None:  # noqa: ANN401  # pyarrow is untyped
    size = source.size()
    tail = source.read_at(8, max(0, size - 8))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > size - 12:
        return None
    return narrow_footer(source.read_at(length, size - 8 - length), only, size)


class ParquetTable:
    """An open Parquet file, whose columns are read on demand."""

    def __init__(self, path: Path, file: Any, bounded: BoundedFile) -> None:  # noqa: ANN401  # pyarrow is untyped
        self._path = path
        self._file = file
        self._bounded = bounded
        self.column_names = bounded.names
        self.num_rows: int = file.metadata.num_rows
        self._held: dict[str, Any] = {}

    def numbers(self, names: Iterable[str], *, null: int = -1) -> dict[str, NDArray[Any]]:
        """Return columns of numbers; nulls become ``null`` among integers and NaN among floats."""
        table = self._read(list(names))
        for field in table.schema:
            if not is_numeric(field.type):
                raise CorruptFileError(
                    f"Column {field.name!r} holds {field.type}, not numbers: {str(self._path)!r}."
                )
        return {name: _numbers(table.column(name), null) for name in table.column_names}

    def texts(self, name: str) -> list[str]:
        """Return a column of strings; nulls become empty strings."""
        column = self._read([name]).column(name)
        with parquet_errors(self._path):
            return ["" if text is None else str(text) for text in column.to_pylist()]

    def text_lists(self, name: str) -> TextLists:
        """Return a column of lists of strings."""
        column = self._read([name]).column(name)
        with parquet_errors(self._path):
            return TextLists.from_arrow(column)

    def arrays(self, names: Iterable[str]) -> dict[str, list[Any]]:
        """Return columns of lists as nested Python lists; slow, for metadata only."""
        table = self._read(list(names), _PYTHON_SHARE)
        with parquet_errors(self._path):
            return {name: table.column(name).to_pylist() for name in table.column_names}

    def row(self, place: int, names: Iterable[str]) -> dict[str, Any]:
        """Return columns of one row as plain Python values; only its row group is read."""
        metadata, group = self._file.metadata, 0
        while place >= (rows := metadata.row_group(group).num_rows):
            place, group = place - rows, group + 1
        table = self._read(list(names), _PYTHON_SHARE, groups=[group])
        with parquet_errors(self._path):
            return {name: table.column(name)[place].as_py() for name in table.column_names}

    def prefetch(self, names: Iterable[str]) -> None:
        """Read columns together, before they are asked for one by one: one visit per row group."""
        wanted = [name for name in names if name in self.column_names]
        table = self._read(wanted)
        self._held = {name: table.select([name]) for name in wanted}

    def _read(
        self, names: list[str], share: int = _ARROW_SHARE, *, groups: Sequence[int] | None = None
    ) -> Any:  # noqa: ANN401  # pyarrow is untyped
        if names and all(name in self._held for name in names):
            columns = [self._held[name].column(0) for name in names]
            return pa.table(columns, names=names)
        missing = sorted(set(names) - set(self.column_names))
        if missing:
            raise CorruptFileError(
                f"Column {missing[0]!r} does not exist: there are {len(self.column_names)} "
                f"columns, {', '.join(self.column_names[:8])}, …, in {str(self._path)!r}."
            )
        twice = [name for name in names if self.column_names.count(name) > 1]
        if twice:
            raise CorruptFileError(f"There are two columns {twice[0]!r}: {str(self._path)!r}.")
        every = range(self._file.metadata.num_row_groups)
        limit_bytes = max(process_budget().limit_bytes // share, _LEAST_LIMIT_BYTES)
        return self._bounded.read(every if groups is None else groups, names, limit_bytes)


def write_parquet(
    path: Path,
    tables: Iterable[pa.Table],
    schema: pa.Schema,
    *,
    plain: Sequence[str] = (),
    metadata: Mapping[str, str] | None = None,
    sync: bool = True,
) -> int:
    """Write a Parquet file by atomic rename, one row group per table.

    Args:
        path: The file to write.
        tables: Tables of one schema. Each is written as it comes, so that memory holds one.
        schema: Their schema.
        plain: Leaf columns to store without compression and dictionary: encoded pictures, which do
            not shrink, and of which each is then one range of the file.
        metadata: Added to the metadata of the schema.
        sync: Whether to wait until the file is on the disk.

    Returns:
        How many rows were written.
    """
    schema = schema.with_metadata({**(schema.metadata or {}), **(metadata or {})})
    leaves = _leaf_names(schema.remove_metadata().serialize().to_pybytes())
    num_rows = 0
    with (
        atomic_file(path, sync=sync) as temporary,
        pq.ParquetWriter(
            temporary,
            schema,
            compression={leaf: "NONE" if leaf in plain else "SNAPPY" for leaf in leaves},
            use_dictionary=[leaf for leaf in leaves if leaf not in plain],
            # For pictures, these would store the least and the greatest picture again.
            write_statistics=[leaf for leaf in leaves if leaf not in plain],
        ) as writer,
    ):
        for table in tables:
            rows = max(1, table.num_rows)
            writer.write_table(table.cast(schema), row_group_size=rows)
            num_rows += table.num_rows
    return num_rows


def write_columns(
    path: Path,
    columns: Mapping[str, NDArray[Any] | TextLists | Sequence[Any]],
    *,
    metadata: Mapping[str, str] | None = None,
    like: Path | None = None,
    sync: bool = True,
) -> None:
    """Write a table of metadata by atomic rename.

    Args:
        path: The file to write.
        columns: Arrays of one dimension, lists of texts, or plain lists of numbers and texts.
        metadata: Metadata of the schema.
        like: A file whose columns to write: others are left out, and columns that are missing or
            cannot be cast to its types are null.
        sync: Whether to wait until the file is on the disk.
    """
    table = pa.table({name: _arrow_column(column) for name, column in columns.items()})
    if like is not None:
        with parquet_errors(like):
            table = _conform(table, pq.read_schema(arrow_file(like)).remove_metadata())
    write_parquet(path, _row_groups(table), table.schema, metadata=metadata, sync=sync)


def join_parquet(paths: Sequence[Path], out: Path) -> int:
    """Write the row groups of several files into one, without syncing it.

    Args:
        paths: Files with the same columns.
        out: The file to write.

    Returns:
        How many rows were written.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(opened_parquet(path)) for path in paths]
        schema = files[0].schema_arrow
        tables = (
            file.read_row_group(group).select(schema.names).cast(schema)
            for file in files
            for group in range(file.metadata.num_row_groups)
        )
        return write_parquet(out, tables, schema, plain=plain_leaves(files[0]), sync=False)


def join_tables(paths: Sequence[Path], out: Path, replaced: Mapping[str, NDArray[Any]]) -> None:
    """Write several small tables into one, with new values in some columns, without syncing it.

    Args:
        paths: Files with the same columns.
        out: The file to write.
        replaced: By column, a value for each row of the result.
    """
    tables = []
    for path in paths:
        with opened_parquet(path) as file:
            tables.append(file.read())
    schema = tables[0].schema
    table = pa.concat_tables([part.select(schema.names).cast(schema) for part in tables])
    for name, values in replaced.items():
        place = schema.get_field_index(name)
        column = pa.array(values).cast(schema.field(place).type)
        table = table.set_column(place, schema.field(place), column)
    write_parquet(out, _row_groups(table), schema, sync=False)


def column_key(path: Path) -> tuple[tuple[str, str], ...]:
    """Return a key that is equal for files with the same column names and types, in any order."""
    with parquet_errors(path):
        schema = pq.read_schema(arrow_file(path))
    return tuple(sorted((field.name, str(field.type)) for field in schema))


def plain_types(path: Path) -> dict[str, type]:
    """Return the Python type of each column: bool, int, float or str.

    It is the type of None for columns that hold nothing but nulls, and object for all others.
    """
    with parquet_errors(path):
        schema = pq.read_schema(arrow_file(path))
    return {field.name: _plain_type(field.type) for field in schema}


def add_null_columns(path: Path, out: Path, types: Mapping[str, type]) -> None:
    """Write a small table again with further columns of nulls, without syncing it.

    Args:
        path: The table.
        out: The file to write.
        types: By column, the Python type that it will hold: bool, int, float or str. A column that
            is there and has no type yet gets this one.
    """
    with opened_parquet(path) as file:
        table = file.read()
    for name, kind in types.items():
        nulls = pa.nulls(table.num_rows, _ARROW_TYPES[kind])
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, nulls)
        else:
            table = table.append_column(name, nulls)
    write_parquet(out, _row_groups(table), table.schema, sync=False)


def starts_as_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet files do, whatever becomes of it."""
    try:
        with SpanReader(path) as file:
            return bytes(file.read(0, min(4, file.size_bytes))) == b"PAR1"
    except (CorruptFileError, OSError):
        return False


def _plain_type(arrow_type: Any) -> type:  # noqa: ANN401  # pyarrow is untyped
    types = pa.types
    kinds: dict[type, bool] = {
        bool: types.is_boolean(arrow_type),
        int: types.is_integer(arrow_type),
        float: types.is_floating(arrow_type),
        str: types.is_string(arrow_type) or types.is_large_string(arrow_type),
        type(None): types.is_null(arrow_type),
    }
    return next((kind for kind, is_it in kinds.items() if is_it), object)


@contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    """Yield pyarrow's own view of a file, for copies of it; its errors become ours."""
    with parquet_errors(path), pq.ParquetFile(arrow_file(path)) as file:
        yield file


def _row_groups(table: pa.Table) -> Iterator[pa.Table]:
    starts = range(0, max(1, table.num_rows), _GROUP_ROWS)
    return (table.slice(start, _GROUP_ROWS) for start in starts)


def plain_leaves(file: Any) -> list[str]:  # noqa: ANN401  # pyarrow is untyped
    """Return the columns that a file stores uncompressed, so that a copy does too."""
    metadata = file.metadata
    if metadata.num_row_groups == 0:
        return []
    group = metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    return [c.path_in_schema for c in columns if c.compression == "UNCOMPRESSED"]


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        try:
            columns.append(table.column(field.name).cast(field.type))
        except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError):  # noqa: PERF203
            columns.append(pa.nulls(table.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _arrow_column(column: NDArray[Any] | TextLists | Sequence[Any]) -> Any:  # noqa: ANN401
    return column.to_arrow() if isinstance(column, TextLists) else pa.array(column)


@lru_cache(maxsize=64)
def _leaf_names(serialized: bytes) -> list[str]:
    # Only a written file has the leaf names that the writer's options take.
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, schema) as writer:
        writer.write_table(schema.empty_table())
    columns = pq.ParquetFile(pa.BufferReader(buffer.getvalue())).schema
    return [columns.column(i).path for i in range(len(columns))]


def _numbers(column: Any, null: int) -> NDArray[Any]:  # noqa: ANN401  # pyarrow is untyped
    parts = [_chunk_numbers(chunk, null) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _chunk_numbers(chunk: Any, null: int) -> NDArray[Any]:  # noqa: ANN401  # pyarrow is untyped
    if chunk.null_count:
        missing = np.nan if pa.types.is_floating(chunk.type) else null
        return np.array([missing if value is None else value for value in chunk.to_pylist()])
    return plain_numbers(chunk)
