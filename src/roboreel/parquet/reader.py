"""Columns of an open Parquet file, read whole where they fit in a limit, else in parts that do."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.errors import CorruptFileError, DatasetError, MissingFileError, TooLargeError
from roboreel.io.mapped import MappedFile
from roboreel.io.reading import arrow_file, too_many_files
from roboreel.io.sources import version_of
from roboreel.parquet.extents.chunks import ChunkSpans, find_spans
from roboreel.parquet.extents.pages import HIGHEST_RATIO, page_sizes
from roboreel.parquet.narrow import narrow_footer, parse_footer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
# Beside each value of a list, and each text.
_LEVEL_BYTES = 8
_MOST_ROWS = 65_536
_BUFFER_BYTES = 2**16
# Common writers end pages at one megabyte: what may be larger is looked at.
_USUAL_BYTES = 2**22
# Measured: 1.2 to 2 KB for the description of a column in a row group, however short it is, and
# 0.3 KB for what is known of where it lies.
_FILE_BYTES, _CHUNK_BYTES = 50_000, 1900


class Bound(NamedTuple):
    """The most memory that columns of some row groups can take, in bytes."""

    whole: int
    """All values, while they are read in one go."""
    one: int
    """The values of one row."""
    pages: int
    """What is unpacked at a time, however few rows are read."""


class ParquetReader:
    """A Parquet file as pyarrow opened it. For one thread at a time, except for `batches`.

    What a read takes is known from the footer. Of parts of columns that may unpack to much, and of
    all that does not fit, the headers of the pages are compared with it: one page can unpack to
    gigabytes, and is unpacked whole for a single row.

    Args:
        path: The file.
        only: Whether a column of this name may be read. Others may be missing, which makes files
            with thousands of row groups faster to open.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a readable Parquet file.
    """

    def __init__(self, path: Path, only: Callable[[str], bool] | None = None) -> None:
        self.path = path
        with parquet_errors(path):
            self.version = version_of(path)
            """What changes when the file is replaced."""
            self._source = arrow_file(path)
            # Of a large footer, pyarrow parses only what describes the wanted columns.
            narrow = only and narrow_footer(self._footer, only, self._source.size())
            self._file = pq.ParquetFile(
                self._source, metadata=parse_footer(narrow.data) if narrow else None
            )
            self.metadata: Any = self._file.metadata
            """The footer as pyarrow parsed it."""
            # Not `file.schema`: that refers to the footer, which then refers to it, and a footer of
            # megabytes would stay until the collector comes by.
            schema = pq.ParquetSchema(self.metadata)
            self._leaves = [schema.column(leaf) for leaf in range(len(schema))]
            self.names: list[str] = self._file.schema_arrow.names
            """Names of the columns."""
        self.leaves: list[str] = [leaf.path for leaf in self._leaves]
        """Paths of the leaves, such as ``"camera.bytes"``."""
        self._columns = _columns_of(self.leaves, self.names)
        self._spans: dict[str, ChunkSpans] = narrow.spans if narrow else {}

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """Row group ``g`` holds the rows ``[bounds[g], bounds[g + 1])`` of the file."""
        groups = range(self.metadata.num_row_groups)
        sizes = [self.metadata.row_group(group).num_rows for group in groups]
        if min(sizes, default=0) < 0 or sum(sizes) != self.metadata.num_rows:
            raise CorruptFileError(
                f"The file has {self.metadata.num_rows:,} rows, but its row groups have "
                f"{sum(sizes):,}: {str(self.path)!r}."
            )
        return np.cumsum([0, *sizes], dtype=np.int64)

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.diff(self.bounds)

    def _num_rows(self, groups: Sequence[int]) -> int:
        return int(self._sizes[np.asarray(groups, np.int64)].sum())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close(force=True)

    @property
    def size_bytes(self) -> int:
        """Estimate of the memory that the footer takes."""
        chunks = int(self.metadata.num_row_groups * self.metadata.num_columns)
        return _FILE_BYTES + _CHUNK_BYTES * chunks + int(self.metadata.serialized_size)

    def check_names(self, names: Sequence[str], why: str = "is needed") -> None:
        """Raise if a column is missing, or there twice.

        Raises:
            CorruptFileError: One is.
        """
        for name in names:
            count = self.names.count(name)
            if count != 1:
                listed = ", ".join(self.names[:20]) + (", …" if len(self.names) > 20 else "")
                raise CorruptFileError(
                    f"{name!r} {why}, but has {'two columns' if count else 'no column'}: there are "
                    f"{listed}, in {str(self.path)!r}."
                )

    def bound(self, groups: Sequence[int], names: Sequence[str], usual_bytes: int = 0) -> Bound:
        """Return the most memory that columns of some row groups can take.

        Args:
            groups: The row groups.
            names: The columns, or their leaves.
            usual_bytes: The headers of pages are read where a column's part may unpack to more.

        Raises:
            CorruptFileError: The footer or a page header is damaged.
        """
        places = [place for name in names for place in self._places_of(name)]
        if not places or not len(groups):
            return Bound(0, 0, 0)
        leaves = [self._leaves[place] for place in places]
        chosen = np.asarray(groups, np.int64)
        # By leaf and row group, in floating point: a damaged footer may say any number.
        stacked = np.array([self._spans_of(place) for place in places])[:, :, chosen]
        spans = ChunkSpans(*stacked.transpose(1, 0, 2))
        width = np.array([_width(leaf) for leaf in leaves])
        lists = np.array([leaf.max_repetition_level > 0 for leaf in leaves])
        largest = self._largest_pages(spans, usual_bytes, width).astype(np.float64)
        # Lists have levels and an offset beside each value. With a dictionary or prefixes, each text
        # may be as long as all that is stored.
        each = np.where(width > 0, width + _LEVEL_BYTES * lists, largest + _LEVEL_BYTES)
        rows = np.maximum(self._sizes[chosen], 1)
        # Lists of a feature are equally long.
        in_a_row = np.where(width > 0, (-(-spans.num_values // rows)).max(axis=1), 1)
        values = np.maximum(spans.num_values, rows).astype(np.float64).sum(axis=1)
        packed = (spans.stop - spans.start).sum(axis=1)
        return Bound(
            int((each * values + packed + 2 * largest).sum()),
            int((each * np.maximum(in_a_row, 1)).sum()),
            int(2 * largest.sum()),
        )

    def _largest_pages(
        self, spans: ChunkSpans, usual_bytes: int, width: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the most that a page takes, for each leaf; ``spans`` are by leaf and row group."""
        ratios = np.full(spans.codec.shape, usual_bytes + 1)
        for codec, ratio in HIGHEST_RATIO.items():
            ratios[spans.codec == codec] = ratio
        most = np.maximum(spans.unpacked, (spans.stop - spans.start) * ratios)
        usual = most <= usual_bytes
        # A text is repeated for each row: what the footer says of its size is not enough.
        sizes = np.where(width[:, None] > 0, spans.unpacked, most)
        largest: NDArray[np.int64] = np.where(usual, sizes, 0).max(axis=1)
        if usual.all():
            return largest
        file = MappedFile(self.path)
        for leaf, group in zip(*np.nonzero(~usual), strict=True):
            start, stop, left = (part.item(leaf, group) for part in spans[:3])
            for num_values, page_bytes in page_sizes(file, start, stop):
                largest[leaf] = max(largest[leaf], page_bytes)
                left -= num_values
                if left <= 0:
                    break
            if left < 0:
                raise CorruptFileError("A page holds more values than the footer says")
        return largest

    def rows_at_once(self, groups: Sequence[int], names: Sequence[str], limit_bytes: int) -> int:
        """Return how many rows of columns fit in a limit; all of some row groups, if they do.

        Raises:
            TooLargeError: Not even one does.
        """
        rows = max(1, self._num_rows(groups))
        try:
            if self.bound(groups, names, _USUAL_BYTES).whole <= limit_bytes:
                return rows
            bound = self.bound(groups, names)
        except CorruptFileError as error:
            raise CorruptFileError(f"{str(error).rstrip('.')}: {str(self.path)!r}.") from error
        # A page or a value larger than a part's share may still fit in what the parts leave free.
        most = 4 * limit_bytes
        if bound.one + bound.pages > most:
            what = f"may take {bound.one + bound.pages:,} bytes in one row"
            raise self._too_large(what, names, most)
        fitting = (limit_bytes - min(bound.pages, limit_bytes)) // max(bound.one, 1)
        return max(1, min(rows, _MOST_ROWS, fitting))

    def read(self, groups: Sequence[int], names: Sequence[str], limit_bytes: int) -> Any:  # noqa: ANN401
        """Return columns of some row groups as a table.

        Raises:
            CorruptFileError: The file is damaged.
            TooLargeError: They take more than the limit.
        """
        held, tables = 0, []
        for table in self.parts(groups, names, self.rows_at_once(groups, names, limit_bytes)):
            tables.append(table)
            held += table.nbytes
            # A whole table may take more: what is shared or empty is counted as often as it occurs.
            if held > limit_bytes and len(tables) > 1:
                raise self._too_large(f"take more than {held:,} bytes", names, limit_bytes)
        return pa.concat_tables(tables)

    def parts(self, groups: Sequence[int], names: Sequence[str], num_rows: int) -> Iterator[Any]:
        """Yield columns of some row groups as tables of some rows; in one, if it takes all rows.

        Raises:
            CorruptFileError: The file is damaged, or has fewer rows than it says.
        """
        left = self._num_rows(groups)
        with parquet_errors(self.path):
            if num_rows < left:
                for batch in self.batches(groups, names, num_rows):
                    left -= len(batch)
                    yield pa.Table.from_batches([batch])
            elif self._file.num_row_groups:
                table = self._file.read_row_groups(groups, columns=list(names), use_threads=False)
                left -= len(table)
                yield table
            else:
                # pyarrow 18 fails on a file without row groups, even if none is asked for.
                yield self._file.schema_arrow.empty_table().select(list(names))
        if left:
            raise CorruptFileError(
                f"Row group {groups[0]} lacks {left:,} rows of {', '.join(names)}: "
                f"{str(self.path)!r}."
            )

    def batches(self, groups: Sequence[int], names: Sequence[str], num_rows: int) -> Iterator[Any]:
        """Yield columns of some row groups as record batches of some rows, page by page.

        Thread-safe: each pass has a reader of its own. It takes a page of the file at a time, where
        pyarrow would take a whole column of a row group.
        """
        reader = pq.ParquetFile(self._source, metadata=self.metadata, buffer_size=_BUFFER_BYTES)
        try:
            yield from reader.iter_batches(
                num_rows, row_groups=list(groups), columns=list(names), use_threads=False
            )
        finally:
            # Arrow's allocator keeps what was freed, which nobody would count.
            pa.default_memory_pool().release_unused()

    def byte_spans(self, group: int, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return where columns of a row group lie in the file."""
        places = [place for name in names for place in self._places_of(name)]
        spans = [self._spans_of(place) for place in places]
        return [(part.start.item(group), part.stop.item(group)) for part in spans]

    def extremes(self, group: int, name: str) -> tuple[Any, Any] | None:
        """Return the smallest and the largest value of a column; None if they are not stored."""
        statistics = self.metadata.row_group(group).column(self.leaves.index(name)).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        try:
            return statistics.min, statistics.max
        except (ValueError, OverflowError):  # no text, or no date that Python knows
            return None

    def _places_of(self, name: str) -> Sequence[int]:
        """Return where the leaves of a column are among all leaves; a name may also be a leaf's."""
        return self._columns.get(name) or [self.leaves.index(name)]

    def _spans_of(self, leaf: int) -> ChunkSpans:
        path = self.leaves[leaf]
        spans = self._spans.get(path)
        if spans is None:
            # Names of features have dots themselves.
            name = next((name for name, inside in self._columns.items() if leaf in inside), path)
            below = path[len(name) + 1 :].split(".") if path != name else []
            count, size = self.metadata.num_row_groups, self._source.size()
            with parquet_errors(self.path):
                spans = find_spans(self._footer, [name, *below], count, size)
            self._spans[path] = spans
        return spans

    @cached_property
    def _footer(self) -> bytes:
        """The footer as it is in the file; nothing if there is none."""
        size = self._source.size()
        tail = self._source.read_at(8, max(0, size - 8))
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length > size - 12:
            return b""
        footer: bytes = self._source.read_at(length, size - 8 - length)
        return footer

    def _too_large(self, what: str, names: Sequence[str], limit_bytes: int) -> TooLargeError:
        listed = ", ".join(map(repr, names[:4])) + (", …" if len(names) > 4 else "")
        return TooLargeError(
            f"The values of {listed} {what}, and {limit_bytes:,} bytes of the memory budget are "
            f"left for them. Open the dataset with a larger memory=, if the file is sound: "
            f"{str(self.path)!r}."
        )


def _columns_of(leaves: Sequence[str], names: Sequence[str]) -> dict[str, range]:
    """Return the leaves of each column, which lie one after another."""
    columns, stop = {}, 0
    for name in names:
        start, inside = stop, f"{name}."
        while stop < len(leaves) and (leaves[stop] == name or leaves[stop].startswith(inside)):
            stop += 1
        columns[name] = range(start, stop)
    return columns


def _width(leaf: Any) -> int:  # noqa: ANN401  # pyarrow is untyped
    """Return the bytes of a value; 0 for byte strings."""
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return int(leaf.length)
    return _WIDTHS.get(leaf.physical_type, 0)


@contextmanager
def parquet_errors(path: Path, *, episodes: str = "") -> Iterator[None]:
    """Turn the errors of pyarrow while it reads a file into ours.

    Args:
        path: The file.
        episodes: The episodes in it, such as ``"episode 3"``, to name if the file is missing.

    Raises:
        MissingFileError: The file does not exist.
        CorruptFileError: It is not a readable Parquet file.
        TooManyFilesError: The limit of open files is reached.
    """
    try:
        yield
    except DatasetError as error:
        if isinstance(error, MissingFileError) and episodes:
            raise MissingFileError(
                f"The data file of {episodes} is missing: {str(path)!r}."
            ) from error
        raise  # Ours already, though it may be an OSError too.
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = f"The data file of {episodes} is missing:" if episodes else "There is no file"
        raise MissingFileError(f"{missing} {str(path)!r}.") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files(path) from error
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CorruptFileError(f"Not a readable Parquet file ({reason}): {str(path)!r}.") from error
