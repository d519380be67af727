"""Encoded pictures of any rows, straight from the data files."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import MissingValueError
from roboreel.forking import after_fork
from roboreel.storage.extents.byte_column import ByteColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roboreel.frames.frame_files import FrameFiles
    from roboreel.memory.budget import Budget

__all__ = ["PictureColumns"]

_MAX_OPEN_COLUMNS = 64
# A pass finds so many pictures at once.
_ROWS_AT_ONCE = 16


class PictureColumns:
    """The cameras of a dataset whose images lie in its data files."""

    def __init__(self, files: FrameFiles, budget: Budget) -> None:
        self._files = files
        self._budget = budget
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, int], ByteColumn] = OrderedDict()
        after_fork(self, PictureColumns._after_fork)

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
        there = [picture for picture in pictures if picture is not None]
        if len(there) < len(rows):
            empty = pictures.index(None)
            raise self._missing(camera, files[empty], int(rows[empty]))
        return there

    def read_span(self, camera: str, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """Yield the encoded picture of each row ``[start, stop)`` of one episode.

        They are views of the file where they can be, to be used at once: see `ByteColumn.view`.

        Raises:
            MissingValueError: A row has no picture.
        """
        if start == stop:
            return
        file, place = self._files.locate_one(start)
        column, shift = self._column(camera, file), place - start
        for first in range(start, stop, _ROWS_AT_ONCE):
            rows = range(first, min(stop, first + _ROWS_AT_ONCE))
            views = column.view(range(rows.start + shift, rows.stop + shift))
            for row, picture in zip(rows, views, strict=True):
                if picture is None:
                    raise self._missing(camera, file, row)
                yield picture

    def path_of(self, row: int) -> str:
        """Return the file that a row lies in, for errors."""
        files, _ = self._files.locate(np.asarray([row]))
        return str(self._files.path(int(files[0])))

    def rung(self, camera: str) -> str:
        """Return how the pictures read so far were found: see `storage.extents.index.Rung`."""
        counts: Counter[str] = Counter()
        with self._lock:
            columns = [column for (name, _), column in self._open.items() if name == camera]
        for column in columns:
            counts.update(column.rungs())
        if not counts:
            return "pictures in Parquet, none read yet"
        total = sum(counts.values())
        shares = [f"{rung} {count / total:.0%}" for rung, count in counts.most_common()]
        return "pictures in Parquet: " + ", ".join(shares)

    def _missing(self, camera: str, file: int, row: int) -> MissingValueError:
        return MissingValueError(
            f"Row {row} has no picture of {camera!r} in {str(self._files.path(file))!r}."
        )

    def _column(self, camera: str, file: int) -> ByteColumn:
        key = (camera, file)
        with self._lock:
            held = self._open.get(key)
            if held is not None:
                self._open.move_to_end(key)
                return held
        column = ByteColumn(
            self._files.path(file),
            (camera, "bytes"),
            budget=self._budget,
            metadata=lambda: self._files.open(file).parquet.metadata,
        )
        with self._lock:
            self._open[key] = column
            while len(self._open) > _MAX_OPEN_COLUMNS:
                # Another thread may be reading: the last reference closes the file.
                self._open.popitem(last=False)
        return column

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
