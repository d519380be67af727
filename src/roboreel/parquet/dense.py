"""Arrow columns of numbers as dense NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError, MissingValueError
from roboreel.parquet.arrow_types import is_list, is_numeric, plain_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.schema import Feature

__all__ = ["dense_numbers", "keeps_values", "plain_array"]


def plain_array(column: Any) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return a column as one Arrow array, of the storage type if its type is an extension."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # no chunk at all
        array = pa.nulls(0, column.type)
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def dense_numbers(name: str, column: Any, feature: Feature, *, place: str) -> NDArray[Any]:  # noqa: ANN401
    """Return a column of numbers, or of nested lists of numbers, as an array ``(N, …)``.

    Args:
        name: The feature's name, for errors.
        column: An Arrow column: scalars, fixed-size lists, lists or large lists, nested or not.
        feature: The feature as the metadata declares it.
        place: Where the column comes from, for errors.

    Raises:
        MissingValueError: A value is null.
        CorruptFileError: The values have another shape, or are not numbers.
    """
    array = plain_array(column)
    count = len(array)
    shape: list[int] = []
    while is_list(array.type):
        _check_nulls(name, array, place)
        shape.append(_common_length(name, array, feature, place))
        array = _items(array)
    _check_nulls(name, array, place)
    if not is_numeric(array.type):
        raise CorruptFileError(
            f"{name!r} holds {array.type} values, but {feature.dtype} is declared, in {place}."
        )
    if count and _without_ones(shape) != _without_ones(feature.value_shape):
        raise CorruptFileError(_describe_shape(name, tuple(shape), feature, place))
    numbers = plain_numbers(array)
    if not keeps_values(numbers, feature.numpy_dtype):
        raise CorruptFileError(
            f"{name!r} holds {numbers.dtype} values from {numbers.min()} to {numbers.max()}, which "
            f"would lose their fractions or digits as {feature.dtype}, the dtype that "
            f"meta/info.json declares, in {place}."
        )
    values: NDArray[Any] = np.asarray(numbers, feature.numpy_dtype)
    return values.reshape(count, *feature.value_shape)


def keeps_values(numbers: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether numbers can be read as a dtype: integers and booleans must stay the same."""
    if dtype.kind not in "iub" or not numbers.size or np.can_cast(numbers.dtype, dtype):
        return True
    # Beyond 2**53 a double does not hold every whole number.
    if numbers.dtype.kind == "f" and not (
        ((numbers == np.floor(numbers)) & (np.abs(numbers) <= 2**53)).all()
    ):
        return False
    if dtype.kind == "b":
        return True
    bounds = np.iinfo(dtype)
    return bool(int(numbers.min()) >= bounds.min and int(numbers.max()) <= bounds.max)


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _items(array: Any) -> Any:  # noqa: ANN401
    """Return the items of all lists of an array, flattened; no list is null."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return array.values.slice(array.offset * size, len(array) * size)
    if len(array) == 0:
        return array.values.slice(0, 0)
    offsets = plain_numbers(array.offsets)
    return array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _common_length(name: str, array: Any, feature: Feature, place: str) -> int:  # noqa: ANN401
    if pa.types.is_fixed_size_list(array.type):
        return int(array.type.list_size)
    if len(array) == 0:
        return 0
    lengths = np.diff(plain_numbers(array.offsets))
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest != longest:
        raise CorruptFileError(
            f"{name!r} has values of different lengths, {shortest} to {longest}, but shape "
            f"{feature.shape} is declared in meta/info.json, in {place}."
        )
    return longest


def _check_nulls(name: str, array: Any, place: str) -> None:  # noqa: ANN401
    if array.null_count:
        first = int(plain_numbers(array.is_null()).argmax())
        raise MissingValueError(
            f"{name!r} has {array.null_count} nulls, the first at element {first}, but every frame "
            f"needs a value, in {place}."
        )


def _describe_shape(name: str, shape: tuple[int, ...], feature: Feature, place: str) -> str:
    return (
        f"{name!r} has the wrong shape: {feature.shape} is declared in meta/info.json, "
        f"{shape or (1,)} is stored, in {place}."
    )
