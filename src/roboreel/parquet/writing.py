"""Parquet files written, joined and copied."""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError
from roboreel.files import atomic_file
from roboreel.io.reading import SpanReader, arrow_file
from roboreel.parquet.ragged import TextLists
from roboreel.parquet.reader import parquet_errors
from roboreel.parquet.to_arrow import from_list, from_numpy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


_ARROW_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_GROUP_ROWS = 1000
"""Rows per row group in tables of metadata."""


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
            fits = table.schema.equals(schema, check_metadata=True)
            writer.write_table(table if fits else table.cast(schema), row_group_size=rows)
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
        columns: Arrays, whose further axes become lists, lists of texts, or plain lists of numbers and texts.
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
    with opened_parquet(paths[0]) as file:
        schema, plain = file.schema_arrow, plain_leaves(file)
    return write_parquet(out, _groups_of(paths, schema), schema, plain=plain, sync=False)


def _groups_of(paths: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the row groups of several files; one is open at a time, since pyarrow keeps what it read."""
    for path in paths:
        with opened_parquet(path) as file:
            for group in range(file.metadata.num_row_groups):
                yield file.read_row_group(group).select(schema.names).cast(schema)


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
        column = from_numpy(values).cast(schema.field(place).type)
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
    if isinstance(column, TextLists):
        return column.to_arrow()
    return from_numpy(column) if isinstance(column, np.ndarray) else from_list(column)


@lru_cache(maxsize=64)
def _leaf_names(serialized: bytes) -> list[str]:
    # Only a written file has the leaf names that the writer's options take.
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, schema):
        pass  # an empty table would be made by way of pandas
    columns = pq.ParquetFile(pa.BufferReader(buffer.getvalue())).schema
    return [columns.column(i).path for i in range(len(columns))]
