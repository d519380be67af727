"""Read values out of the buffers of Arrow arrays: no Arrow scalars, one copy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError, MissingValueError
from roboreel.parquet.arrow_types import numpy_type
from roboreel.shards.arrow import arrow_type, as_declared
from roboreel.shards.features import (
    Array,
    ClassLabel,
    FeatureType,
    Image,
    Sequence,
    Struct,
    Value,
    VideoPath,
    is_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Sequence as Items

    from numpy.typing import NDArray

Rows = slice | np.ndarray[Any, np.dtype[np.int64]]


class Part(NamedTuple):
    """Some rows of one array, and their places in the result."""

    reader: ValueReader
    rows: Rows
    places: Rows


class ValueReader:
    """Reads the values of one Arrow array by row."""

    __slots__ = ("get", "valid")

    def __init__(self, get: Callable[[int], Any], valid: NDArray[np.bool_] | None) -> None:
        self.valid = valid
        """False where the value is null; None if there are no nulls."""
        self.get = get if valid is None else _or_none(get, valid)
        """Returns the value of a row, in memory of its own; None for a null."""

    def collect(self, parts: Items[Part], length: int) -> Any:  # noqa: ANN401  # list or array
        """Return rows of several arrays of this type as one column; none of them is null."""
        return _one_by_one(parts, length)

    def extents(self, rows: Rows) -> Iterable[tuple[int, int]]:
        """Return ``(address, length)`` of most of the rows' bytes, to prefetch them."""
        return ()


class NumberReader(ValueReader):
    """Numbers, or arrays of one shape."""

    __slots__ = ("values",)

    def __init__(self, values: NDArray[Any], valid: NDArray[np.bool_] | None) -> None:
        self.values = values
        super().__init__(
            values.__getitem__ if values.ndim == 1 else lambda row: values[row].copy(), valid
        )

    def collect(self, parts: Items[Part], length: int) -> NDArray[Any]:
        """Return the rows as one array."""
        out = np.empty((length, *self.values.shape[1:]), self.values.dtype)
        for part in parts:
            out[part.places] = part.reader.values[part.rows]  # type: ignore[attr-defined]  # same type
        return out

    def extents(self, rows: Rows) -> Iterable[tuple[int, int]]:
        """Return ``(address, length)`` of the rows' bytes."""
        start, size = self.values.ctypes.data, self.values.strides[0]
        if isinstance(rows, slice):
            return [(start + rows.start * size, (rows.stop - rows.start) * size)]
        return [(start + row * size, size) for row in rows.tolist()]


class BytesReader(ValueReader):
    """Bytes or text of any length."""

    __slots__ = ("_address", "_offsets")

    def __init__(
        self,
        data: memoryview,
        offsets: memoryview,
        valid: NDArray[np.bool_] | None,
        *,
        address: int,
        is_text: bool,
    ) -> None:
        def get_bytes(row: int) -> bytes:
            return bytes(data[offsets[row] : offsets[row + 1]])

        def get_text(row: int) -> str:
            try:
                return str(data[offsets[row] : offsets[row + 1]], "utf-8")
            except UnicodeDecodeError as error:
                raise CorruptFileError(f"Row {row} is not text: {error}.") from error

        self._address, self._offsets = address, offsets
        super().__init__(get_text if is_text else get_bytes, valid)

    def extents(self, rows: Rows) -> Iterable[tuple[int, int]]:
        """Return ``(address, length)`` of the rows' bytes."""
        spans = [(rows.start, rows.stop)] if isinstance(rows, slice) else _single(rows)
        for start, stop in spans:
            begin = self._offsets[start]
            yield self._address + begin, self._offsets[stop] - begin


class BitReader(ValueReader):
    """Booleans or arrays of booleans, packed eight to a byte."""

    __slots__ = ("_bits", "_shape", "_start")

    def __init__(
        self,
        bits: NDArray[np.uint8],
        start: int,
        shape: tuple[int, ...],
        valid: NDArray[np.bool_] | None,
    ) -> None:
        self._bits, self._start, self._shape = bits, start, shape
        size = math.prod(shape)

        def get(row: int) -> Any:  # noqa: ANN401  # a boolean or an array
            if not shape:
                bit = start + row
                return np.bool_(bits[bit >> 3] >> (bit & 7) & 1)
            return unpack_bits(bits, start + row * size, size).reshape(shape)

        super().__init__(get, valid)

    def collect(self, parts: Items[Part], length: int) -> NDArray[np.bool_]:
        """Return the rows as one array."""
        out = np.empty((length, *self._shape), bool)
        if self._shape:
            _fill(out, parts)
            return out
        for part in parts:
            out[part.places] = part.reader._scalars(part.rows)  # type: ignore[attr-defined]  # same type
        return out

    def _scalars(self, rows: Rows) -> NDArray[np.bool_]:
        if isinstance(rows, slice):
            return unpack_bits(self._bits, self._start + rows.start, rows.stop - rows.start)
        bits = rows + self._start
        return np.asarray(self._bits[bits >> 3] >> (bits & 7) & 1, bool)


class ListReader(ValueReader):
    """Lists of any length."""

    __slots__ = ()

    def __init__(
        self, offsets: memoryview, inner: ValueReader, valid: NDArray[np.bool_] | None
    ) -> None:
        def get(row: int) -> Any:  # noqa: ANN401  # list or array
            start, stop = offsets[row], offsets[row + 1]
            return gather([Part(inner, slice(start, stop), slice(0, stop - start))], stop - start)

        super().__init__(get, valid)


class StructReader(ValueReader):
    """Structs."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, ValueReader], valid: NDArray[np.bool_] | None) -> None:
        self._fields = fields
        getters = tuple((name, reader.get) for name, reader in fields.items())
        super().__init__(lambda row: {name: get(row) for name, get in getters}, valid)

    def collect(self, parts: Items[Part], length: int) -> dict[str, Any]:
        """Return the rows as a dict of columns."""
        return {
            name: gather(
                [part._replace(reader=part.reader._fields[name]) for part in parts],  # type: ignore[attr-defined]  # same type
                length,
            )
            for name in self._fields
        }

    def extents(self, rows: Rows) -> Iterable[tuple[int, int]]:
        """Return ``(address, length)`` of the rows' bytes in all fields."""
        return [extent for reader in self._fields.values() for extent in reader.extents(rows)]


def gather(parts: Items[Part], length: int) -> Any:  # noqa: ANN401  # list, array or dict
    """Return rows of several arrays of one type as one column, in memory of its own.

    Numbers and arrays of one shape come as an array, structs as a dict of columns, anything else
    as a list. A column with nulls is a list, with None for each null.
    """
    for reader, rows, _ in parts:
        if reader.valid is not None and not reader.valid[rows].all():
            return _one_by_one(parts, length)
    return parts[0].reader.collect(parts, length) if parts else []


def empty_column(feature: FeatureType) -> Any:  # noqa: ANN401  # list, array or dict
    """Return a column of a feature without rows."""
    reader = value_reader(pa.nulls(0, arrow_type(feature)), feature)
    return gather([Part(reader, slice(0, 0), slice(0, 0))], 0)


def _one_by_one(parts: Items[Part], length: int) -> list[Any]:
    out: list[Any] = [None] * length
    _fill(out, parts)
    return out


def _fill(out: list[Any] | NDArray[Any], parts: Items[Part]) -> None:
    for reader, rows, places in parts:
        get = reader.get
        for place, row in zip(_listed(places), _listed(rows), strict=True):
            out[place] = get(row)


def _single(rows: NDArray[np.int64]) -> list[tuple[int, int]]:
    return [(row, row + 1) for row in rows.tolist()]


def _listed(rows: Rows) -> Items[int]:
    return range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()


def _or_none(get: Callable[[int], Any], valid: NDArray[np.bool_]) -> Callable[[int], Any]:
    there = valid.tobytes()
    return lambda row: get(row) if there[row] else None


def unpack_bits(bits: NDArray[np.uint8], start: int, count: int) -> NDArray[np.bool_]:
    """Return ``count`` booleans of a bitmap, from the bit ``start`` on."""
    first = start >> 3
    unpacked = np.unpackbits(bits[first : (start + count + 7) >> 3], bitorder="little")
    skip = start - first * 8
    return unpacked[skip : skip + count].view(bool)


def value_reader(array: pa.Array, feature: FeatureType) -> ValueReader:
    """Return the reader of an Arrow array; its buffers are not copied.

    Args:
        array: Values of any Arrow type that can hold the feature; offsets may have 32 or 64 bits.
        feature: What the values are.

    Raises:
        CorruptFileError: An offset is out of range.
        MissingValueError: There are nulls inside arrays of a fixed shape.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if _is_unusual(array.type, feature):
        array = as_declared(array, feature)
    if isinstance(array, pa.DictionaryArray):
        return _dictionary_reader(array, feature)
    match feature:
        case Struct(fields):
            inner = {name: value_reader(array.field(name), of) for name, of in fields.items()}
            return StructReader(inner, _valid(array))
        case Array(shape, _):
            return _array_reader(array, shape)
        case Sequence(_, int(length)):
            return _array_reader(array, (length,))
        case Sequence(of, None):
            return _list_reader(array, of)
        case Image() | VideoPath() | Value("string" | "bytes"):
            return _bytes_reader(array)
        case _:
            return _number_reader(array, array.offset, len(array), (), _valid(array))


_UNUSUAL = (
    *(pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    *(pa.types.is_list_view, pa.types.is_large_list_view, pa.types.is_map, pa.types.is_date),
    pa.types.is_run_end_encoded,
)


def _is_unusual(stored: pa.DataType, feature: FeatureType) -> bool:
    """Return whether the buffers of a type have another layout than the feature's own type."""
    match feature:
        case Array():
            return not pa.types.is_fixed_size_list(stored)
        case Image():
            return pa.types.is_struct(stored) or any(check(stored) for check in _UNUSUAL)
        case ClassLabel():
            return stored != pa.int64() and not pa.types.is_dictionary(stored)
        case _:
            return any(check(stored) for check in _UNUSUAL)


def _dictionary_reader(array: pa.DictionaryArray, feature: FeatureType) -> ValueReader:
    if is_number(feature):
        return value_reader(array.dictionary_decode(), feature)
    codes = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    get = value_reader(array.dictionary, feature).get
    return ValueReader(lambda row: get(int(codes[row])), _valid(array))


def _bytes_reader(array: pa.Array) -> ValueReader:
    large = isinstance(array, (pa.LargeStringArray, pa.LargeBinaryArray))
    values = array.buffers()[2]
    data = memoryview(b"" if values is None else values).cast("B")
    offsets = _offsets(array, large, len(data))

    return BytesReader(
        data,
        offsets,
        _valid(array),
        address=0 if values is None else values.address,
        is_text=isinstance(array, (pa.StringArray, pa.LargeStringArray)),
    )


def _list_reader(array: pa.Array, of: FeatureType) -> ValueReader:
    inner = array.values
    if isinstance(array, pa.FixedSizeListArray):
        rows = array.offset + np.arange(len(array) + 1, dtype=np.int64)
        bounds = (rows * array.type.list_size).data
    else:
        bounds = _offsets(array, isinstance(array, pa.LargeListArray), len(inner))
    return ListReader(bounds, value_reader(inner, of), _valid(array))


def _array_reader(array: pa.FixedSizeListArray, shape: tuple[int, ...]) -> ValueReader:
    inner, start, each, valid = array, array.offset, 1, _valid(array)
    while isinstance(inner, pa.FixedSizeListArray):
        size, inner = inner.type.list_size, inner.values
        start, each = start * size + inner.offset, each * size
        there = _valid(inner)
        if there is not None:
            first = start - inner.offset
            _refuse_inner_nulls(there[first : first + len(array) * each], each, valid)
    return _number_reader(inner, start, len(array), shape, valid)


def _number_reader(
    array: pa.Array,
    start: int,
    length: int,
    shape: tuple[int, ...],
    valid: NDArray[np.bool_] | None,
) -> ValueReader:
    """Return the reader of numbers that start at element ``start`` of a buffer."""
    buffer = array.buffers()[1]
    data = b"" if buffer is None else buffer
    if pa.types.is_boolean(array.type):
        return BitReader(np.frombuffer(data, np.uint8), start, shape, valid)
    dtype = numpy_type(array.type)
    count = length * math.prod(shape)
    values = (
        np.frombuffer(data, dtype, count, start * dtype.itemsize) if count else np.empty(0, dtype)
    )
    return NumberReader(values.reshape(length, *shape), valid)


def _refuse_inner_nulls(
    there: NDArray[np.bool_], each: int, valid: NDArray[np.bool_] | None
) -> None:
    """Raise if values are missing in rows that are there; a null row has nulls inside, too."""
    inside = there if valid is None else there[np.repeat(valid, each)[: len(there)]]
    if not inside.all():
        raise MissingValueError(
            f"There are {int((~inside).sum())} nulls inside arrays of a fixed shape. Fill them, or "
            "declare a Sequence of any length."
        )


def _valid(array: pa.Array) -> NDArray[np.bool_] | None:
    if array.null_count == 0:
        return None
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    return unpack_bits(bits, array.offset, len(array))


def _offsets(array: pa.Array, large: bool, limit: int) -> memoryview:
    """Return the start of each row and the end of the last, once they are known to be in range."""
    dtype = np.dtype(np.int64 if large else np.int32)
    buffer = array.buffers()[1]
    if len(array) == 0:
        return np.zeros(1, np.int64).data
    bounds = np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)
    if bounds[0] < 0 or bounds[-1] > limit or (bounds[1:] < bounds[:-1]).any():
        raise CorruptFileError("An offset is out of range.")
    return bounds.data
