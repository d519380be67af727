"""Rows of Parquet files read from front to back, and written to new files with some columns changed."""

from __future__ import annotations

import base64
import json
import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roboreel.errors import CorruptFileError
from roboreel.parquet.reader import parquet_errors
from roboreel.parquet.to_arrow import arrow_array
from roboreel.parquet.writing import opened_parquet, plain_leaves, write_parquet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


_BATCH_BYTES = 32 * 1024**2


class RowStream:
    """A Parquet file whose rows are asked for in ascending order. Memory holds what was asked for.

    Args:
        path: The file.
        file: pyarrow's view of it.
        names: The columns to read; all by default.
    """

    def __init__(self, path: Path, file: Any, names: Sequence[str] | None = None) -> None:  # noqa: ANN401  # pyarrow is untyped
        self._path = path
        schema = file.schema_arrow
        fields = [field for field in schema if names is None or field.name in names]
        self._schema = pa.schema(fields, schema.metadata)
        self.num_rows: int = file.metadata.num_rows
        groups = file.metadata.num_row_groups
        size = sum(file.metadata.row_group(g).total_byte_size for g in range(groups))
        rows = max(1, _BATCH_BYTES * self.num_rows // max(size, 1))
        self._batches = file.iter_batches(
            batch_size=min(rows, 65_536),
            columns=None if names is None else self._schema.names,
            use_threads=False,
        )
        self._held: list[Any] = []
        self._first, self._stop = 0, 0

    def take(self, start: int, stop: int) -> Any:  # noqa: ANN401  # pyarrow is untyped
        """Return the rows ``[start, stop)`` as a table; rows before them are forgotten.

        Raises:
            CorruptFileError: The file has fewer rows, or they cannot be read.
        """
        while self._stop < stop:
            with parquet_errors(self._path):
                batch = next(self._batches, None)
            if batch is None:
                raise CorruptFileError(
                    f"Rows {start} to {stop} were expected, and there are {self.num_rows}: "
                    f"{str(self._path)!r}."
                )
            self._held.append(batch)
            self._stop += len(batch)
            self._forget(start)
        self._forget(start)
        if start < self._first:
            raise ValueError(f"Row {start} is behind: rows are asked for in ascending order.")
        table = pa.Table.from_batches(
            [b.select(self._schema.names) for b in self._held], self._schema
        )
        return table.slice(start - self._first, stop - start)

    def _forget(self, start: int) -> None:
        while self._held and self._first + len(self._held[0]) <= start:
            self._first += len(self._held.pop(0))


class RowReader:
    """Rows of one file after another; a file is opened again only where rows are behind.

    A context manager.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._path: Path | None = None
        self._rows: RowStream | None = None
        self._row = 0

    def take(self, path: Path, start: int, stop: int, names: Sequence[str] | None = None) -> Any:  # noqa: ANN401  # pyarrow is untyped
        """Return the rows ``[start, stop)`` of a file as a table.

        Args:
            path: The file.
            start: The first row.
            stop: The row after the last.
            names: The columns to read, the same for all rows of a file; all by default.
        """
        if path != self._path or self._rows is None or start < self._row:
            self._stack.close()
            self._rows = self._stack.enter_context(open_rows(path, names))
            self._path = path
        self._row = start
        return self._rows.take(start, stop)

    def __enter__(self) -> RowReader:  # noqa: PYI034  # Self is in Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@contextmanager
def open_rows(path: Path, names: Sequence[str] | None = None) -> Iterator[RowStream]:
    """Yield the rows of a file.

    Args:
        path: The file.
        names: The columns to read; all by default.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a readable Parquet file.
    """
    with opened_parquet(path) as file:
        yield RowStream(path, file, names)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How a Parquet file is written: its columns, and which of them are stored as they are."""

    schema: Any
    plain: tuple[str, ...] = ()

    def renamed(self, names: Mapping[str, str | None]) -> Layout:
        """Return the layout with other names of columns; a column of the name None goes.

        What Hugging Face and pandas wrote about the columns follows.
        """
        if not any(old != new for old, new in names.items()):
            return self
        kept = [field for field in self.schema if names.get(field.name, field.name) is not None]
        fields = [field.with_name(names.get(field.name, field.name)) for field in kept]
        metadata = _renamed_metadata(self.schema.metadata or {}, names)
        return Layout(pa.schema(fields, metadata), tuple(_renamed_leaves(self.plain, names)))

    def added(self, columns: Mapping[str, str]) -> Layout:
        """Return the layout with further columns, by Arrow's names of their types.

        A column that has held nothing but nulls so far gets its type.
        """
        more = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
        return self.joined(Layout(more))

    def joined(self, other: Layout) -> Layout:
        """Return the layout with the columns of another one behind its own."""
        schema = self.schema
        for column in other.schema:
            place = schema.get_field_index(column.name)
            if place < 0:
                schema = schema.append(column)
            elif pa.types.is_null(schema.field(place).type):
                schema = schema.set(place, column)
        return Layout(schema, self.plain)

    def with_sequences(self) -> Layout:
        """Return the layout in the words of ``datasets`` before 4, which later ones read too.

        These call a list of values ``Sequence``; ``List`` is unknown to them.
        """
        metadata = dict(self.schema.metadata or {})
        if b"huggingface" in metadata:
            words = metadata[b"huggingface"]
            metadata[b"huggingface"] = re.sub(rb'("_type":\s*)"List"', rb'\1"Sequence"', words)
        return Layout(self.schema.with_metadata(metadata), self.plain)

    def only(self, names: Collection[str]) -> Layout:
        """Return the layout with some of its columns."""
        return Layout(pa.schema([column for column in self.schema if column.name in names]))

    def to_text(self) -> str:
        """Return the layout as a text, from which `from_text` makes it again."""
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        return json.dumps([schema, list(self.plain)])

    @classmethod
    def from_text(cls, text: str) -> Layout:
        """Return the layout that `to_text` described."""
        schema, plain = json.loads(text)
        buffer = pa.py_buffer(base64.b64decode(schema))
        return cls(pa.ipc.read_schema(buffer), tuple(plain))

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)


@dataclass(frozen=True, slots=True, eq=False)
class TablePart:
    """Some rows of a table, with values that replace those of columns."""

    table: Any
    columns: Mapping[str, Any] = field(default_factory=dict)
    """By column of the new file, a value for each row."""
    names: Mapping[str, str | None] = field(default_factory=dict)
    """New names of columns, by old name; None for one that goes."""


def read_layout(path: Path) -> Layout:
    """Return how a file is laid out. Only its footer is read."""
    with opened_parquet(path) as file:
        return Layout(file.schema_arrow, tuple(plain_leaves(file)))


def write_parts(out: Path, parts: Iterable[TablePart], layout: Layout) -> int:
    """Write a file, a row group for each part that has rows, and return its rows; nothing is synced.

    Args:
        out: The file to write.
        parts: The rows. Each part is asked for when those before it are written.
        layout: The columns. Those of a part are cast to their types; what a part lacks is null.

    Raises:
        CorruptFileError: The values of a column cannot have its type.
    """
    tables = (_conformed(part, layout, out) for part in parts)
    filled = (table for table in tables if table.num_rows)
    return write_parquet(out, filled, layout.schema, plain=layout.plain, sync=False)


def _conformed(part: TablePart, layout: Layout, out: Path) -> Any:  # noqa: ANN401
    there = {part.names.get(name, name): name for name in part.table.column_names}
    arrays = []
    for field_ in layout.schema:
        values = part.columns.get(field_.name)
        try:
            if values is not None:
                arrays.append(arrow_array(values, field_.type))
            elif field_.name in there:
                arrays.append(arrow_array(part.table.column(there[field_.name]), field_.type))
            else:
                arrays.append(pa.nulls(part.table.num_rows, field_.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise CorruptFileError(
                f"The values of {field_.name!r} cannot become {field_.type}, which the other files "
                f"of the new dataset hold ({error}): {str(out)!r}."
            ) from error
    return pa.Table.from_arrays(arrays, schema=layout.schema)


def _renamed_metadata(
    metadata: Mapping[bytes, bytes], names: Mapping[str, str | None]
) -> dict[bytes, bytes]:
    new = dict(metadata)
    for key, rename in ((b"huggingface", _rename_features), (b"pandas", _rename_pandas)):
        try:
            said = json.loads(new[key])
            rename(said, names)
        except (KeyError, ValueError, TypeError, AttributeError):
            continue  # not there, or not as those two write it
        new[key] = json.dumps(said).encode()
    return new


def _rename_features(said: dict[str, Any], names: Mapping[str, str | None]) -> None:
    features = said["info"]["features"]
    named = ((names.get(name, name), entry) for name, entry in features.items())
    said["info"]["features"] = {name: entry for name, entry in named if name is not None}


def _rename_pandas(said: dict[str, Any], names: Mapping[str, str | None]) -> None:
    columns = []
    for entry in said["columns"]:
        new = names.get(entry["field_name"], entry["field_name"])
        if new is not None:
            columns.append({**entry, "field_name": new, "name": new if entry["name"] else None})
    said["columns"] = columns


def _renamed_leaves(leaves: Iterable[str], names: Mapping[str, str | None]) -> Iterator[str]:
    for leaf in leaves:
        # A column's name may itself have dots: the longest that fits is it.
        fitting = [name for name in names if leaf == name or leaf.startswith(f"{name}.")]
        old = max(fitting, key=len, default=None)
        new = leaf if old is None else names[old]
        if new is not None:
            yield leaf if old is None else new + leaf[len(old) :]
