"""Arrow columns of numbers as dense NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError
from roboreel.parquet.arrow_types import is_list, is_numeric, numpy_type, plain_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.schema import Feature


@dataclass(frozen=True, slots=True, eq=False)
class ScannedColumn:
    """A column of numbers, whatever its type and shape."""

    num_rows: int
    stored: str
    """Its type, in Arrow's words."""
    values: NDArray[Any] | None
    """``(N, …)``, with zeros in place of nulls; None if it holds no numbers or is ragged."""
    nulls: NDArray[np.bool_] | None = None
    """Whether each row is null or has a null inside, ``(N,)``; None if none has."""
    lengths: tuple[int, int] | None = None
    """Of lists with different lengths: the least and the greatest."""

    def rows(self, start: int, stop: int) -> ScannedColumn:
        """Return some of the rows."""
        return ScannedColumn(
            min(stop, self.num_rows) - start,
            self.stored,
            None if self.values is None else self.values[start:stop],
            None if self.nulls is None else self.nulls[start:stop],
            self.lengths,
        )


class Numbers(NamedTuple):
    """Values of a feature of numbers in some rows."""

    values: NDArray[Any]
    """``(N, …)``, with zeros in place of nulls."""
    nulls: NDArray[np.bool_] | None = None
    """Whether each row is null or has a null inside, ``(N,)``; None if none has."""

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        return self.values.nbytes + (0 if self.nulls is None else self.nulls.nbytes)

    def at(self, rows: NDArray[np.int64]) -> Numbers:
        """Return some of the rows."""
        return Numbers(self.values[rows], None if self.nulls is None else self.nulls[rows])


def plain_array(column: Any) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return a column as one Arrow array, of the storage type if its type is an extension."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # no chunk at all
        array = pa.nulls(0, column.type)
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def scan_column(column: Any) -> ScannedColumn:  # noqa: ANN401
    """Return a column as it is: nulls, ragged lists and other types do not stop this."""
    array = plain_array(column)
    kind, count = array.type, len(array)
    nulls = _null_rows(array)
    if nulls is not None:
        array = array.filter(pa.array(~nulls))
    shape: list[int] = []
    while is_list(array.type):
        array, lengths = _items(array)
        if len(lengths) and lengths.min() != lengths.max():
            return ScannedColumn(
                count, str(kind), None, nulls, (int(lengths.min()), int(lengths.max()))
            )
        shape.append(int(lengths[0]) if len(lengths) else 0)
    if not is_numeric(array.type):
        return ScannedColumn(count, str(kind), None, nulls)
    if nulls is None:
        return ScannedColumn(count, str(kind), plain_numbers(array).reshape(count, *shape))
    values = np.zeros((count, *shape), numpy_type(array.type))
    values[~nulls] = plain_numbers(array).reshape(-1, *shape)
    return ScannedColumn(count, str(kind), values, nulls)


def numbers_of(name: str, column: Any, feature: Feature, *, place: str) -> Numbers:  # noqa: ANN401
    """Return a column of numbers, or of nested lists of numbers, as an array ``(N, …)``.

    Args:
        name: The feature's name, for errors.
        column: An Arrow column: scalars, fixed-size lists, lists or large lists, nested or not.
        feature: The feature as the metadata declares it.
        place: Where the column comes from, for errors.

    Raises:
        CorruptFileError: The values have another shape, or are not numbers.
    """
    scanned = scan_column(column)
    if scanned.lengths is not None:
        shortest, longest = scanned.lengths
        raise CorruptFileError(
            f"{name!r} has values of different lengths, {shortest} to {longest}, but shape "
            f"{feature.shape} is declared in meta/info.json, in {place}."
        )
    stored, nulls = scanned.values, scanned.nulls
    if stored is None:
        raise CorruptFileError(
            f"{name!r} holds {scanned.stored} values, but {feature.dtype} is declared, in {place}."
        )
    # A column of nulls alone has no shape.
    has_values = nulls is None or not nulls.all()
    shape = stored.shape[1:]
    if len(stored) and has_values and _without_ones(shape) != _without_ones(feature.value_shape):
        raise CorruptFileError(
            f"{name!r} has the wrong shape: {feature.shape} is declared in meta/info.json, "
            f"{shape or (1,)} is stored, in {place}."
        )
    if not keeps_values(stored, feature.numpy_dtype):
        raise CorruptFileError(
            f"{name!r} holds {stored.dtype} values from {stored.min()} to {stored.max()}, which "
            f"would lose their fractions or digits as {feature.dtype}, the dtype that "
            f"meta/info.json declares, in {place}."
        )
    if not has_values:
        stored = np.zeros((len(stored), *feature.value_shape))
    values: NDArray[Any] = np.asarray(stored, feature.numpy_dtype)
    return Numbers(values.reshape(len(values), *feature.value_shape), nulls)


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


def _null_rows(array: Any) -> NDArray[np.bool_] | None:  # noqa: ANN401
    """Return which values are null, or are lists with a null inside; None if none are."""
    nulls = plain_numbers(array.is_null()) if array.null_count else None
    if is_list(array.type) and len(array):
        items, lengths = _items(array)
        inside = _null_rows(items)
        if inside is not None:
            parents = np.repeat(np.arange(len(array)), lengths)
            nulls = np.zeros(len(array), bool) if nulls is None else nulls.copy()
            nulls[parents[inside]] = True
    return nulls


def _items(array: Any) -> tuple[Any, NDArray[np.int64]]:  # noqa: ANN401
    """Return the items of all lists of an array, flattened, and the length of each list.

    Not by `flatten`: that imports Arrow's functions, which takes longer than most reads.
    """
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        return items, np.full(len(array), size, np.int64)
    if len(array) == 0:
        return array.values.slice(0, 0), np.zeros(0, np.int64)
    offsets = plain_numbers(array.offsets).astype(np.int64)
    items = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return items, np.diff(offsets)
