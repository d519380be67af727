"""Encoded pictures of any rows, read from the data files."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import MissingFileError, MissingValueError, UnsafePathError
from roboreel.format.templates import leaves_folder
from roboreel.io.kept_open import KeptOpen
from roboreel.io.reading import read_file
from roboreel.io.sources import exists
from roboreel.parquet.extents.byte_column import ByteColumn
from roboreel.parquet.reader import parquet_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.frames.frame_files import FrameFiles
    from roboreel.io.budget import Budget


_MAX_OPEN_COLUMNS = 64
# A pass locates this many pictures at a time.
_ROWS_AT_ONCE = 16


class PictureColumns:
    """The cameras of a dataset whose images are pictures in its data files."""

    def __init__(self, root: Path, files: FrameFiles, budget: Budget) -> None:
        self._root = root
        self._files = files
        self._budget = budget
        self._open: KeptOpen[tuple[str, int], ByteColumn] = KeptOpen(
            limit=_MAX_OPEN_COLUMNS, survives_fork=True
        )

    def read(self, camera: str, rows: NDArray[np.int64]) -> list[bytes]:
        """Return the encoded picture of each row, ``(N,)``.

        Raises:
            MissingValueError: A row has no picture.
        """
        files, file_rows = (places.tolist() for places in self._files.locate(rows))
        pictures: list[bytes | None] = [None] * len(rows)
        slots: defaultdict[int, list[int]] = defaultdict(list)
        for slot, file in enumerate(files):
            slots[file].append(slot)
        for file, places in slots.items():
            values = self._column(camera, file).read([file_rows[slot] for slot in places])
            for slot, value in zip(places, values, strict=True):
                pictures[slot] = value
                if value is None:
                    pictures[slot] = self._beside(camera, file, file_rows[slot])
        there = [picture for picture in pictures if picture is not None]
        if len(there) < len(rows):
            empty = pictures.index(None)
            raise self._missing(camera, files[empty], int(rows[empty]))
        return there

    def read_one(self, camera: str, row: int) -> bytes:
        """Return the encoded picture of one row, as `read` does: a third of its time."""
        file, place = self._files.locate_one(row)
        picture = self._column(camera, file).read((place,))[0]
        if picture is None:
            picture = self._beside(camera, file, place)
        if picture is None:
            raise self._missing(camera, file, row)
        return picture

    def read_span(self, camera: str, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """Yield the encoded picture of each row ``[start, stop)`` of one episode.

        Where possible they are views of the file, valid until the next one: see `ByteColumn.view`.

        Raises:
            MissingValueError: A row has no picture.
        """
        if start == stop:
            return
        for file, place, count in self._files.parts(start, stop):
            column, shift = self._column(camera, file), place - start
            for first in range(start, start + count, _ROWS_AT_ONCE):
                rows = range(first, min(start + count, first + _ROWS_AT_ONCE))
                views = column.view(range(rows.start + shift, rows.stop + shift))
                for row, picture in zip(rows, views, strict=True):
                    found = self._beside(camera, file, row + shift) if picture is None else picture
                    if found is None:
                        raise self._missing(camera, file, row)
                    yield found
            start += count

    def spans(self, camera: str, file: int, file_rows: list[int]) -> list[tuple[int, int]]:
        """Return the spans of a data file that the pictures of some rows need."""
        return self._column(camera, file).spans(file_rows)

    def path_of(self, row: int) -> str:
        """Return the data file of a row, for error messages."""
        files, _ = self._files.locate(np.asarray([row]))
        return str(self._files.path(int(files[0])))

    def rung(self, camera: str) -> str:
        """Return in words how pictures were found so far: see `parquet.extents.index.Rung`."""
        counts: Counter[str] = Counter()
        for (name, _), column in self._open.items():
            if name == camera:
                counts.update(column.rungs())
        if not counts:
            return "pictures in Parquet, none read yet"
        total = sum(counts.values())
        shares = [f"{rung} {count / total:.0%}" for rung, count in counts.most_common()]
        return "pictures in Parquet: " + ", ".join(shares)

    def _beside(self, camera: str, file: int, file_row: int) -> bytes | None:
        """Return the picture of a row that stores a path in place of bytes; None if it has neither."""
        opened = self._files.open(file)
        if f"{camera}.path" not in opened.leaves:
            return None
        group = int(np.searchsorted(opened.bounds, file_row, side="right")) - 1
        stored = self._budget.load(
            (self._files.token, camera, "paths", file, group),
            lambda: opened.read_field(group, camera, "path", self._budget.limit_bytes // 16),
            lambda paths: int(paths.nbytes),
            owner="row groups",
        )
        with parquet_errors(opened.path):  # The bytes may be no text.
            name = stored[file_row - int(opened.bounds[group])].as_py()
        return None if not name else self._read_beside(camera, file, str(name))

    def _read_beside(self, camera: str, file: int, name: str) -> bytes:
        """Return a picture whose path counts from the data file's folder, or from the dataset's."""
        data_file = self._files.path(file)
        if leaves_folder(name):
            raise UnsafePathError(
                f"A picture of {camera!r} would lie outside of the dataset, at {name!r}: paths must "
                f"stay below its folder, in {str(data_file)!r}."
            )
        places = [data_file.parent / name, self._root / name]
        there = next((place for place in places if exists(place)), None)
        if there is None:
            raise MissingFileError(
                f"The picture {name!r} of {camera!r} is missing: it is neither next to the data file "
                f"nor below the dataset, in {str(data_file)!r}."
            )
        return read_file(there, "picture")

    def _missing(self, camera: str, file: int, row: int) -> MissingValueError:
        return MissingValueError(
            f"Row {row} has no picture of {camera!r} in {str(self._files.path(file))!r}."
        )

    def _column(self, camera: str, file: int) -> ByteColumn:
        return self._open.get((camera, file), lambda: self._open_column(camera, file))

    def _open_column(self, camera: str, file: int) -> ByteColumn:
        # Some writers store the bytes alone, without a path beside them.
        is_plain = camera in self._files.open(file).leaves
        return ByteColumn(
            self._files.path(file),
            (camera,) if is_plain else (camera, "bytes"),
            budget=self._budget,
            metadata=lambda: self._files.open(file).reader.metadata,
        )
