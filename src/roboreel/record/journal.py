"""The journal of an open episode, which survives a crash: files that grow record by record."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.io.reading import MOST_METADATA_BYTES, SpanReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Feature

_HEADER = struct.Struct("<II")


class RecordFile:
    """A file that grows by one record at a time, each with its length and checksum.

    A record is handed to the system before `append` returns: it survives the death of the process,
    but not necessarily a power failure.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self._handle: int | None = os.open(path, flags, 0o644)
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Where the last record ends."""
        return self._size_bytes

    def append(self, payload: bytes) -> None:
        """Add a record of at least one byte: entirely, or not at all if this raises."""
        if self._handle is None:
            raise ValueError("The file is closed.")
        if not payload:
            raise ValueError("An empty record cannot be told from a disk that was never written.")
        data = memoryview(_HEADER.pack(len(payload), zlib.crc32(payload)) + payload)
        size_bytes = self._size_bytes + len(data)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
        except BaseException:
            # Half a record must not stay, after a full disk or Ctrl-C: all that follow are lost
            # with it.
            os.ftruncate(self._handle, self._size_bytes)
            os.lseek(self._handle, self._size_bytes, os.SEEK_SET)
            raise
        self._size_bytes = size_bytes

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def read_records(path: Path) -> tuple[list[bytes], int]:
    """Return the records of a file up to the first damaged one, and how many bytes are left over."""
    records, place = [], 0
    for start, payload in _each_record(path):
        records.append(payload)
        place = start + len(payload)
    return records, path.stat().st_size - place


def _each_record(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield where each record starts, and the record, up to the first damaged one."""
    place = 0
    with SpanReader(path, "journal") as file:
        while place + _HEADER.size <= file.size_bytes:
            start = place + _HEADER.size
            length, checksum = _HEADER.unpack(file.read(place, start))
            # After a power cut there may be zeros, which look like an empty record and its checksum.
            if not 0 < length <= min(file.size_bytes - start, MOST_METADATA_BYTES):
                break
            payload = file.read(start, start + length)
            if zlib.crc32(payload) != checksum:
                break
            yield start, payload
            place = start + length


class Records(Sequence[bytes]):
    """The records of a file, read when they are asked for: an episode of pictures may be large.

    Args:
        path: The file. Records behind the first damaged one do not count.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        places = [(start, start + len(data)) for start, data in _each_record(path)]
        self._places = np.array(places, np.int64).reshape(-1, 2)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many bytes each has, ``(N,)``."""
        return self._places[:, 1] - self._places[:, 0]

    def moved(self, folder: Path) -> Records:
        """Return the same records, of the file in another folder."""
        there = copy(self)
        there._path = folder / self._path.name
        return there

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, key: int) -> bytes: ...

    @overload
    def __getitem__(self, key: slice) -> list[bytes]: ...

    def __getitem__(self, key: int | slice) -> bytes | list[bytes]:
        with SpanReader(self._path, "journal") as file:
            if isinstance(key, slice):
                return [file.read(a, b) for a, b in self._places[key].tolist()]
            start, stop = self._places[key].tolist()
            return file.read(start, stop)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The frames of an episode without their images."""

    columns: dict[str, NDArray[Any] | list[str]]
    """Numbers ``(T, …)`` and texts by feature."""
    tasks: list[str]
    """The task of each frame."""

    def __len__(self) -> int:
        return len(self.tasks)

    def first(self, count: int) -> Rows:
        """Return only the first frames."""
        return Rows({n: c[:count] for n, c in self.columns.items()}, self.tasks[:count])


class RowFormat:
    """How a frame without its images becomes a record.

    Args:
        features: What a caller gives for each frame; cameras are left out.
    """

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self._numbers = {n: f for n, f in features.items() if f.kind == "number"}
        self._texts = [name for name, f in features.items() if f.kind == "text"]
        # Numbered, since NumPy does not accept every name of a feature as that of a field.
        self._dtype = np.dtype(
            [(str(i), f.numpy_dtype, f.value_shape) for i, f in enumerate(self._numbers.values())]
        )

    def describe(self) -> dict[str, Any]:
        """Return a description; records can be read only if theirs is equal."""
        return {
            "numbers": {n: [f.dtype, list(f.value_shape)] for n, f in self._numbers.items()},
            "texts": self._texts,
        }

    def pack(self, values: Mapping[str, Any], task: str) -> bytes:
        """Return the record of a frame."""
        row = np.zeros((), self._dtype)
        for i, name in enumerate(self._numbers):
            row[str(i)] = values[name]
        texts = [task, *(values[name] for name in self._texts)]
        return row.tobytes() + json.dumps(texts).encode()

    def unpack(self, records: Sequence[bytes]) -> Rows:
        """Return the frames of some records.

        Raises:
            CorruptFileError: The records are not of these features.
        """
        size = self._dtype.itemsize
        try:
            # Without numbers a row has no bytes, and NumPy could not count the rows.
            packed = b"".join(record[:size] for record in records)
            numbers: NDArray[Any] = (
                np.frombuffer(packed, self._dtype) if size else np.empty(len(records), self._dtype)
            )
            texts = [json.loads(record[size:]) for record in records]
            tasks = [str(row[0]) for row in texts]
            given = {n: [str(row[i]) for row in texts] for i, n in enumerate(self._texts, 1)}
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise CorruptFileError(
                "The records of the journal do not fit the dataset's features."
            ) from error
        columns = {name: numbers[str(i)] for i, name in enumerate(self._numbers)}
        return Rows({**columns, **given}, tasks)
