"""Columns of numbers in which some rows are null: the others are values like any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.errors import MissingValueError
from roboreel.parquet.arrow_types import is_list, plain_numbers
from roboreel.parquet.dense import dense_numbers, plain_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import Feature

__all__ = ["PartlyNull", "null_rows", "read_around_nulls"]


@dataclass(frozen=True, slots=True, eq=False)
class PartlyNull:
    """Values of some rows, of which a few are null."""

    values: NDArray[Any]
    """``(N, …)``, with zeros in place of nulls."""
    nulls: NDArray[np.bool_]
    """Whether each row is null or has a null inside, ``(N,)``."""
    message: str
    """What to tell whoever asks for one of them."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: NDArray[np.int64]) -> PartlyNull:
        return PartlyNull(self.values[rows], self.nulls[rows], self.message)

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        return int(self.values.nbytes + self.nulls.nbytes)

    def sound(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of some rows.

        Raises:
            MissingValueError: One of them is null.
        """
        if self.nulls[rows].any():
            raise MissingValueError(self.message)
        values: NDArray[Any] = self.values[rows]
        return values


def read_around_nulls(name: str, column: Any, feature: Feature, *, place: str) -> PartlyNull:  # noqa: ANN401
    """Return a column of numbers that has nulls; the arguments are those of `dense_numbers`.

    Raises:
        CorruptFileError: The values have another shape, or are not numbers.
    """
    array = plain_array(column)
    nulls = null_rows(array)
    if nulls is None:
        nulls = np.zeros(len(array), bool)
    values = np.zeros((len(array), *feature.value_shape), feature.numpy_dtype)
    values[~nulls] = dense_numbers(name, array.filter(pa.array(~nulls)), feature, place=place)
    count = int(nulls.sum())
    message = (
        f"{name!r} is null in {count:,} {'row' if count == 1 else 'rows'}, the first of them "
        f"{int(nulls.argmax()):,}, but every frame needs a value, in {place}."
    )
    return PartlyNull(values, nulls, message)


def null_rows(array: Any) -> NDArray[np.bool_] | None:  # noqa: ANN401
    """Return which values are null, or are lists with a null inside; None if none are."""
    nulls = plain_numbers(array.is_null()) if array.null_count else None
    if is_list(array.type) and len(array):
        inside = null_rows(array.flatten())
        if inside is not None:
            parents = plain_numbers(pa.compute.list_parent_indices(array))
            nulls = np.zeros(len(array), bool) if nulls is None else nulls.copy()
            nulls[parents[inside]] = True
    return nulls
