"""Values of NumPy and Python as Arrow arrays.

Built from buffers: `pyarrow.array` imports pandas where it is installed, to look for its objects,
which takes longer than most edits.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.parquet.arrow_types import is_list, plain_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_PLAIN: dict[type, tuple[Any, Any]] = {
    float: (pa.float64(), np.float64),
    int: (pa.int64(), np.int64),
}


def from_numpy(values: NDArray[Any]) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return numbers, booleans or texts as an array, of lists if they have more than one axis.

    Others become what `pyarrow.array` makes of them.
    """
    if values.ndim > 1 and values.dtype.kind in "biuf":
        return _nested(values)
    if values.dtype == object and values.ndim == 1 and all(type(v) is str for v in values):
        return from_list(values.tolist())
    if values.ndim != 1 or values.dtype.kind not in "biuf" or not values.dtype.isnative:
        return pa.array(values)
    if values.dtype == np.bool_:
        return _plain(pa.bool_(), len(values), np.packbits(values, bitorder="little"))
    if values.dtype.itemsize > 8:
        return pa.array(values)
    return _plain(pa.from_numpy_dtype(values.dtype), len(values), np.ascontiguousarray(values))


def _nested(values: NDArray[Any]) -> Any:  # noqa: ANN401
    """Return numbers of several axes as an array of lists, the last axis innermost."""
    array = from_numpy(values.reshape(-1))
    for axis in range(values.ndim - 1, 0, -1):
        count = math.prod(values.shape[:axis])
        offsets = np.arange(count + 1, dtype=np.int64) * values.shape[axis]
        if offsets[-1] > np.iinfo(np.int32).max:
            raise pa.ArrowCapacityError(f"{offsets[-1]:,} items do not fit into one array.")
        buffers = [None, pa.py_buffer(offsets.astype(np.int32))]
        array = pa.Array.from_buffers(pa.list_(array.type), count, buffers, children=[array])
    return array


def from_list(values: Sequence[Any], kind: Any = None) -> Any:  # noqa: ANN401
    """Return Python's values as an array, equal to that of ``pyarrow.array``.

    Args:
        values: Numbers, booleans, texts, None, and lists of these.
        kind: The Arrow type; by default the one that fits.

    Raises:
        pyarrow.ArrowException: They cannot have this type.
    """
    built = _build(values, kind)
    return pa.array(values, kind) if built is None else built


def _build(values: Sequence[Any], kind: Any) -> Any | None:  # noqa: ANN401
    """Return an array of values that are all of one plain type, or None; None for others."""
    there = [value for value in values if value is not None]
    types = set(map(type, there))
    if not types:
        return pa.nulls(len(values), kind)
    if len(types) > 1:
        return None
    (one,) = types
    if one is list:
        return _lists(values, there, kind)
    if one is str:
        return _texts(values, there, kind)
    if one is bool and kind in (None, pa.bool_()):
        bits = np.packbits([bool(value) for value in values], bitorder="little")
        return _plain(pa.bool_(), len(values), bits, _valid(values, there))
    wanted, dtype = _PLAIN.get(one, (None, None))
    if wanted is None or kind not in (None, wanted):
        return None
    filled = there if len(there) == len(values) else [one() if v is None else v for v in values]
    try:
        numbers = np.array(filled, dtype)
    except OverflowError:
        return None
    return _plain(wanted, len(values), numbers, _valid(values, there))


def _lists(values: Sequence[Any], there: list[list[Any]], kind: Any) -> Any | None:  # noqa: ANN401
    if kind is not None and not pa.types.is_list(kind):
        return None
    items = _build(list(chain.from_iterable(there)), None if kind is None else kind.value_type)
    if items is None:
        return None
    stored = pa.list_(items.type) if kind is None else kind
    offsets = _offsets([0 if value is None else len(value) for value in values])
    buffers = [_valid(values, there), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(stored, len(values), buffers, children=[items])


def _texts(values: Sequence[Any], there: list[str], kind: Any) -> Any | None:  # noqa: ANN401
    if kind not in (None, pa.string()):
        return None
    try:
        encoded = [b"" if value is None else value.encode() for value in values]
    except UnicodeEncodeError:
        return None
    offsets = _offsets(list(map(len, encoded)))
    data = pa.py_buffer(b"".join(encoded))
    buffers = [_valid(values, there), pa.py_buffer(offsets), data]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _offsets(lengths: list[int]) -> NDArray[np.int32]:
    total = sum(lengths)
    if total > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"{total:,} items do not fit into one array.")
    return np.cumsum([0, *lengths], dtype=np.int32)


def _valid(values: Sequence[Any], there: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return the bits that say which values are not null; None if all are."""
    if len(there) == len(values):
        return None
    return pa.py_buffer(np.packbits([v is not None for v in values], bitorder="little"))


def _plain(kind: Any, length: int, data: NDArray[Any], valid: Any = None) -> Any:  # noqa: ANN401
    return pa.Array.from_buffers(kind, length, [valid, pa.py_buffer(data)])


def arrow_array(values: Any, kind: Any) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return values as an array of a type.

    Some writers store one number as such, others as a list of one: here it becomes what the type says.
    So do 0 and 1 where it says booleans, as LeRobot stores the minimum of a feature of booleans.

    Args:
        values: An array of NumPy, a chunked array, or a list.
        kind: The Arrow type.

    Raises:
        pyarrow.ArrowException: They cannot have this type.
    """
    if isinstance(values, np.ndarray):
        array = from_numpy(values)
        return array if array.type.equals(kind, check_metadata=True) else array.cast(kind)
    if not isinstance(values, pa.ChunkedArray):
        return _of_kind(values, kind)
    if values.type.equals(kind, check_metadata=True):
        return values
    if is_list(values.type) == is_list(kind):
        return values.cast(kind)
    return _of_kind(values.to_pylist(), kind)


def _of_kind(values: Sequence[Any], kind: Any) -> Any:  # noqa: ANN401
    nested = _as_declared(values, kind)
    leaf = kind
    while is_list(leaf):
        leaf = leaf.value_type
    return from_list(_booleans(nested) if pa.types.is_boolean(leaf) else nested, kind)


def _booleans(values: Sequence[Any] | NDArray[Any]) -> list[Any]:
    """Return 0 and 1 as booleans, in lists of lists too; what is neither stays as it is."""
    return [
        _booleans(v) if isinstance(v, list | np.ndarray) else bool(v) if v in (0, 1) else v
        for v in values
    ]


def _as_declared(values: Sequence[Any], kind: Any) -> list[Any]:  # noqa: ANN401
    if is_list(kind):
        return [v if v is None or isinstance(v, list | np.ndarray) else [v] for v in values]
    return [v[0] if isinstance(v, list) and len(v) == 1 else v for v in values]


def same_values(one: Any, other: Any) -> bool:  # noqa: ANN401  # chunked arrays
    """Return whether two columns of one type hold the same values; NaN is the same as NaN."""
    import pyarrow.compute as pc  # here: importing it takes longer than most reads

    if one.equals(other):
        return True
    if len(one) != len(other) or not one.is_null().equals(other.is_null()):
        return False
    kind = one.type
    if is_list(kind):
        lengths = pc.list_value_length(one).equals(pc.list_value_length(other))
        return bool(lengths) and same_values(pc.list_flatten(one), pc.list_flatten(other))
    if pa.types.is_struct(kind):
        names = [kind.field(place).name for place in range(kind.num_fields)]
        pairs = ((pc.struct_field(one, [n]), pc.struct_field(other, [n])) for n in names)
        return all(same_values(a, b) for a, b in pairs)
    if not pa.types.is_floating(kind):
        return False
    ours, theirs = (plain_numbers(column.drop_null()) for column in (one, other))
    return bool(np.array_equal(ours, theirs, equal_nan=True))
