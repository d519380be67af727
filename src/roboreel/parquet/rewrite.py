"""Parquet files written again with some rows or columns changed; all else stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.parquet.to_arrow import arrow_array
from roboreel.parquet.writing import opened_parquet, plain_leaves, write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Values = NDArray[Any] | Sequence[Any]


def rewrite_rows(
    path: Path,
    out: Path,
    *,
    columns: Mapping[str, Values] | None = None,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Write a file again, without syncing it. Row groups, types and metadata stay.

    Args:
        path: The file.
        out: The file to write.
        columns: By column, a value for each row that is written. A column of the file keeps its
            type and place; others are added behind.
        rows: The rows to write, in this order; by default all. A row should stay near its place:
            memory holds the row groups that the rows of one group come from.
    """
    with opened_parquet(path) as file:
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
        bounds = np.cumsum([0, *sizes]).astype(np.int64)
        kept = np.arange(bounds[-1]) if rows is None else np.asarray(rows, np.int64)
        schema = _schema(file.schema_arrow, columns or {})
        tables = _groups(file, bounds, kept, columns or {}, schema)
        write_parquet(out, tables, schema, plain=plain_leaves(file), sync=False)


def append_rows(path: Path, out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a small table again with further rows, without syncing it.

    Args:
        path: The table.
        out: The file to write.
        rows: Values by column; a column that is not named is null.
    """
    with opened_parquet(path) as file:
        table = file.read()
    more = pa.Table.from_pylist(list(rows), table.schema)
    write_parquet(out, [pa.concat_tables([table, more])], table.schema, sync=False)


def _groups(
    file: Any,  # noqa: ANN401  # pyarrow is untyped
    bounds: NDArray[np.int64],
    kept: NDArray[np.int64],
    columns: Mapping[str, Values],
    schema: Any,  # noqa: ANN401
) -> Iterator[Any]:
    """Yield the new row groups, each of as many rows as are kept of the old one."""
    inside = np.sort(kept)
    stops = np.searchsorted(inside, bounds)
    for start, stop in zip(stops[:-1].tolist(), stops[1:].tolist(), strict=True):
        if start == stop:
            continue
        wanted = kept[start:stop]
        first = int(np.searchsorted(bounds, wanted.min(), side="right")) - 1
        last = int(np.searchsorted(bounds, wanted.max(), side="right"))
        table = file.read_row_groups(range(first, last), use_threads=False)
        if len(table) != len(wanted) or (np.diff(wanted) != 1).any():
            table = table.take(pa.array(wanted - bounds[first]))
        yield _with_columns(
            table, {name: values[start:stop] for name, values in columns.items()}, schema
        )


def _with_columns(table: Any, columns: Mapping[str, Values], schema: Any) -> Any:  # noqa: ANN401
    for name, values in columns.items():
        field = schema.field(name)
        column = arrow_array(values, field.type)
        place = table.schema.get_field_index(name)
        table = (
            table.append_column(field, column)
            if place < 0
            else table.set_column(place, field, column)
        )
    return table


def _schema(schema: Any, columns: Mapping[str, Values]) -> Any:  # noqa: ANN401
    for name, values in columns.items():
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.array(values[:1]).type))
    return schema
