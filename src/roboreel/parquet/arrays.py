"""Values as Arrow arrays of the type that a file has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.parquet.arrow_types import plain_numbers
from roboreel.parquet.to_arrow import from_list, from_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["arrow_array", "same_values"]


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
        return _from_list(values, kind)
    if values.type.equals(kind, check_metadata=True):
        return values
    if _is_list(values.type) == _is_list(kind):
        return values.cast(kind)
    return _from_list(values.to_pylist(), kind)


def _from_list(values: Sequence[Any], kind: Any) -> Any:  # noqa: ANN401
    nested = _nested(values, kind)
    leaf = kind
    while _is_list(leaf):
        leaf = leaf.value_type
    return from_list(_booleans(nested) if pa.types.is_boolean(leaf) else nested, kind)


def _booleans(values: Sequence[Any] | NDArray[Any]) -> list[Any]:
    """Return 0 and 1 as booleans, in lists of lists too; what is neither stays as it is."""
    return [
        _booleans(v) if isinstance(v, list | np.ndarray) else bool(v) if v in (0, 1) else v
        for v in values
    ]


def _nested(values: Sequence[Any], kind: Any) -> list[Any]:  # noqa: ANN401
    if _is_list(kind):
        return [v if v is None or isinstance(v, list | np.ndarray) else [v] for v in values]
    return [v[0] if isinstance(v, list) and len(v) == 1 else v for v in values]


def _is_list(kind: Any) -> bool:  # noqa: ANN401
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_one(kind) for is_one in kinds)


def same_values(one: Any, other: Any) -> bool:  # noqa: ANN401  # chunked arrays
    """Return whether two columns of one type hold the same values; NaN is the same as NaN."""
    # Imported here: it takes 50 ms, and who opens a dataset compares no columns.
    import pyarrow.compute as pc

    if one.equals(other):
        return True
    if len(one) != len(other) or not one.is_null().equals(other.is_null()):
        return False
    kind = one.type
    if _is_list(kind):
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
