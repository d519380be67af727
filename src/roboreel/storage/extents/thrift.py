"""Structs in Thrift's compact encoding, as far as Parquet uses it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from roboreel.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["BINARY", "BOOL", "INT", "CompactReader", "TruncatedError", "whole_structs"]

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 24
"""Parquet nests seven deep."""

INT: Final = (_BYTE, _I16, _I32, _I64)
BINARY: Final = (_BINARY,)
BOOL: Final = (_TRUE, _FALSE)


class TruncatedError(CorruptFileError):
    """A struct goes on past the end of the bytes at hand."""


@contextmanager
def whole_structs() -> Iterator[None]:
    """Turn the IndexError of a reader that came to the end of its bytes into a clear error."""
    try:
        yield
    except IndexError as error:
        raise TruncatedError("A struct goes on past the end of its bytes.") from error


class CompactReader:
    """Reads one value after another; use it inside `whole_structs`.

    Counts and lengths are compared with what is left before anything is made of them, so that
    the work and the memory stay in proportion to the bytes.
    """

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def fields(self, after: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the number and type of each field; read or skip its value before the next.

        Args:
            after: Number of the field just read, to go on in the middle of a struct.
        """
        number = after
        while header := self.data[self.position]:
            self.position += 1
            number = number + (header >> 4) if header > 15 else self._zigzag()
            yield number, header & 15
        self.position += 1

    def struct(self, wanted: Mapping[int, Any], after: int = 0) -> dict[int, Any]:
        """Return the wanted fields that are there.

        Args:
            wanted: By the field's number, its type or, for a struct, the wanted fields inside.
            after: As for `fields`.
        """
        found: dict[int, Any] = {}
        for number, kind in self.fields(after):
            expected = wanted.get(number)
            if expected is None:
                self.skip(kind)
            elif isinstance(expected, tuple):
                found[number] = self.value(kind, expected)
            else:
                _expect(kind, (_STRUCT,))
                found[number] = self.struct(expected)
        return found

    def value(self, kind: int, expected: tuple[int, ...]) -> int | bool | bytes:
        """Return an integer, a boolean or a byte string of the expected type."""
        _expect(kind, expected)
        if kind in BOOL:
            return kind == _TRUE
        if kind == _BINARY:
            return self._binary()
        if kind == _BYTE:
            self.position += 1
            return self.data[self.position - 1]
        return self._zigzag()

    def items(self, kind: int, expected: tuple[int, ...] | None = None) -> int:
        """Return the length of a list of structs, or of values of the expected type."""
        _expect(kind, (_LIST, _SET))
        count, item = self._list_header()
        _expect(item, expected or (_STRUCT,))
        return count

    def binaries(self, kind: int) -> tuple[bytes, ...]:
        """Return a list of byte strings."""
        return tuple(self._binary() for _ in range(self.items(kind, BINARY)))

    def skip(self, kind: int) -> None:
        """Step over a value."""
        self.position = _skip(self.data, self.position, kind, 0)

    def skip_structs(self, count: int) -> None:
        """Step over so many items of a list of structs."""
        position = self.position
        for _ in range(count):
            position = _skip(self.data, position, _STRUCT, 0)
        self.position = position

    def _binary(self) -> bytes:
        length = self._varint()
        start = self.position
        if length > len(self.data) - start:
            raise TruncatedError(f"A text of {length} bytes goes past the end of its header.")
        self.position = start + length
        return self.data[start : self.position]

    def _list_header(self) -> tuple[int, int]:
        header = self.data[self.position]
        self.position += 1
        count = header >> 4
        if count == 15:
            count = self._varint()
        if count > len(self.data) - self.position:  # every item takes at least one byte
            raise TruncatedError(f"A list of {count} items goes past the end of its header.")
        return count, header & 15

    def _varint(self) -> int:
        value, self.position = _varint(self.data, self.position)
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 63:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    # 63 bits hold every offset and count; only hostile bytes have more.
    raise CorruptFileError("A number has more than nine bytes.")


def _skip(data: bytes, position: int, kind: int, depth: int) -> int:
    if kind == _STRUCT:
        return _skip_struct(data, position, depth)
    if kind in (_LIST, _SET):
        return _skip_list(data, position, depth)
    if kind in BOOL:
        return position
    if kind in (_I16, _I32, _I64):
        return _varint(data, position)[1]
    if kind == _BINARY:
        length, position = _varint(data, position)
        return _advance(data, position, length)
    if kind == _BYTE:
        return position + 1
    if kind == _DOUBLE:
        return position + 8
    raise CorruptFileError(f"There is no type {kind}.")


def _skip_struct(data: bytes, position: int, depth: int) -> int:
    if depth > _DEEPEST:
        raise CorruptFileError("Structs are nested too deep.")
    while header := data[position]:
        position += 1
        if header < 16:
            _, position = _varint(data, position)
        kind = header & 15
        # Nearly all fields of a footer are integers and short texts, and nearly all are skipped:
        # stepping over these right here saves a call for each.
        if _I16 <= kind <= _I64:
            while data[position] > 127:
                position += 1
            position += 1
        elif kind == _BINARY and data[position] < 128:
            position += 1 + data[position]
        elif kind == _STRUCT:
            position = _skip_struct(data, position, depth + 1)
        elif kind > _FALSE:
            position = _skip(data, position, kind, depth + 1)
    return position + 1


def _skip_list(data: bytes, position: int, depth: int) -> int:
    header = data[position]
    position += 1
    count, item = header >> 4, header & 15
    if count == 15:
        count, position = _varint(data, position)
    past = _advance(data, position, count)  # every item takes at least one byte
    if item in BOOL:
        return past
    if depth > _DEEPEST:
        raise CorruptFileError("Lists are nested too deep.")
    for _ in range(count):
        position = _skip(data, position, item, depth + 1)
    return position


def _advance(data: bytes, position: int, length: int) -> int:
    if length > len(data) - position:
        raise TruncatedError(f"{length} bytes or items go past the end of their header.")
    return position + length


def _expect(kind: int, expected: tuple[int, ...]) -> None:
    if kind not in expected:
        raise CorruptFileError(f"A field is of type {kind}, not {expected[0]}.")
