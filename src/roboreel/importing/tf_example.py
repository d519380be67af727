"""TFRecord files and the examples in them, without TensorFlow."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.io.reading import SpanReader
from roboreel.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Cell = tuple[int, int]
    """``[start, stop)`` in a record."""

_HEAD, _FOOT = 12, 4
_MOST_RECORD_BYTES = 2 * 1024**3
_PACKED = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""How files of gzip and zlib begin."""
_BYTES, _FLOATS, _INTS = 1, 2, 3

Record = tuple[int, int]
"""Where the data of a record lies in its file: ``[start, stop)``."""


def masked_crc32c(data: bytes) -> int:
    """Return the checksum as TFRecord stores it: turned and shifted by a constant."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def list_records(path: Path) -> list[Record]:
    """Return where the records of a file lie; only the lengths between them are read, and checked.

    Raises:
        CorruptFileError: The file is cut off, or a length is not what its checksum says.
    """
    records: list[Record] = []
    with SpanReader(path, "TFRecord file") as file:
        at = 0
        while at < file.size_bytes:
            head = file.read(at, at + _HEAD)
            (length, check) = struct.unpack("<QI", head)
            if not at and head[:2] in _PACKED and masked_crc32c(head[:8]) != check:
                raise CorruptFileError(
                    f"The TFRecord file is compressed as a whole: unpack it with gzip -d or zlib "
                    f"first: {str(path)!r}."
                )
            if masked_crc32c(head[:8]) != check:
                raise CorruptFileError(
                    f"The length of record {len(records)}, at byte {at:,}, is damaged: {str(path)!r}."
                )
            stop = at + _HEAD + length
            if length > _MOST_RECORD_BYTES or stop + _FOOT > file.size_bytes:
                raise CorruptFileError(
                    f"Record {len(records)} ends at byte {stop + _FOOT:,}, and the file has "
                    f"{file.size_bytes:,}: {str(path)!r}."
                )
            records.append((at + _HEAD, stop))
            at = stop + _FOOT
    return records


def read_record(path: Path, record: Record) -> bytes:
    """Return the data of a record.

    Raises:
        CorruptFileError: It is not what its checksum says.
    """
    start, stop = record
    with SpanReader(path, "TFRecord file") as file:
        data = file.read(start, stop + _FOOT)
    (check,) = struct.unpack_from("<I", data, stop - start)
    body = data[: stop - start]
    if masked_crc32c(body) != check:
        raise CorruptFileError(f"The record at byte {start:,} is damaged: {str(path)!r}.")
    return body


class Example:
    """One example: named lists of numbers or byte strings, decoded when asked for."""

    def __init__(self, data: bytes | memoryview, cells: dict[str, Cell]) -> None:
        self._data, self._cells = data, cells

    def __contains__(self, name: object) -> bool:
        return name in self._cells

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def strings(self, name: str) -> list[bytes]:
        """Return a list of byte strings."""
        return [
            bytes(self._data[a:b])
            for cell in self._lists(name, _BYTES)
            for field, kind, a, b in _fields(self._data, cell)
            if (field, kind) == (1, 2)
        ]

    def floats(self, name: str) -> NDArray[np.float32]:
        """Return a list of floats."""
        parts = [self._data[a:b] for a, b in self._values(name, _FLOATS, (2, 5))]
        joined = b"".join(parts)
        if len(joined) % 4:
            raise CorruptFileError(f"The numbers of {name!r} are cut off.")
        return np.frombuffer(joined, "<f4").astype(np.float32)

    def ints(self, name: str) -> NDArray[np.int64]:
        """Return a list of whole numbers."""
        parts = [self._data[a:b] for a, b in self._values(name, _INTS, (2, 0))]
        return _varints(b"".join(parts), name)

    def kind(self, name: str) -> str:
        """Return what a list holds: ``bytes``, ``floats``, ``ints``, or nothing."""
        names = {_BYTES: "bytes", _FLOATS: "floats", _INTS: "ints"}
        found = [names.get(field, "") for field, _, _, _ in _fields(self._data, self._cells[name])]
        return found[0] if found else ""

    def _lists(self, name: str, wanted: int) -> list[Cell]:
        found = [f for f in _fields(self._data, self._cells[name]) if f[0] in (1, 2, 3)]
        if any(field != wanted for field, *_ in found):
            raise CorruptFileError(
                f"{name!r} holds {self.kind(name)}, which is not what it should."
            )
        return [(a, b) for _, _, a, b in found]

    def _values(self, name: str, wanted: int, kinds: tuple[int, int]) -> Iterator[Cell]:
        for cell in self._lists(name, wanted):
            for field, kind, a, b in _fields(self._data, cell):
                if field == 1 and kind in kinds:
                    yield a, b


def parse_example(data: bytes | memoryview) -> Example:
    """Return the example in a record's data; of a map, only the bytes between the lists are read.

    Raises:
        CorruptFileError: It is not one.
    """
    cells: dict[str, Cell] = {}
    try:
        for field, kind, a, b in _fields(data, (0, len(data))):
            if (field, kind) != (1, 2):
                continue
            for entry in _fields(data, (a, b)):
                parts = {f: (start, stop) for f, _, start, stop in _fields(data, entry[2:])}
                if 1 in parts:
                    start, stop = parts[1]
                    cells[bytes(data[start:stop]).decode("utf-8")] = parts.get(2, (stop, stop))
    except UnicodeDecodeError as error:
        raise CorruptFileError("A name in the example is not text.") from error
    return Example(data, cells)


def _fields(data: bytes | memoryview, cell: Cell) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, wire type and ``[start, stop)`` of each field of a protobuf message."""
    at, stop = cell
    while at < stop:
        try:
            key, at = decode_varint(data, at)
            kind = key & 7
            begin = at
            if kind == 0:
                _, at = decode_varint(data, at)
            elif kind == 2:
                length, begin = decode_varint(data, at)
                at = begin + length
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                raise CorruptFileError(f"The example has a field of type {kind}.")
        except IndexError as error:
            raise CorruptFileError("The example is cut off.") from error
        if at > stop:
            raise CorruptFileError("A field of the example is longer than the example.")
        yield key >> 3, kind, begin, at


def _varints(data: bytes, name: str) -> NDArray[np.int64]:
    """Return numbers in seven-bit groups; negative ones are two's complement of 64 bits."""
    groups = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(groups < 0x80)
    if len(ends) == len(groups):
        return groups.astype(np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts + 1
    if not len(ends) or ends[-1] != len(groups) - 1 or lengths.max() > 10:
        raise CorruptFileError(f"The whole numbers of {name!r} are cut off.")
    place = np.arange(len(groups)) - np.repeat(starts, lengths)
    parts = (groups & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(parts, starts).astype(np.uint64).view(np.int64)
