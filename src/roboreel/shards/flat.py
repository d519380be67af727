"""One column of numbers in all batches of mapped files, gathered in one step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.shards.buffers import NumberReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.shards.buffers import ValueReader

__all__ = ["FlatNumbers", "flatten"]


@dataclass(frozen=True, slots=True, eq=False)
class FlatNumbers:
    """Where a column of numbers lies in mapped files."""

    bounds: NDArray[np.int64]
    """Batch ``b`` holds the rows ``[bounds[b], bounds[b + 1])``."""
    offset: NDArray[np.int64]
    """By batch, where row 0 would lie in its file if the batch began there."""
    shard: NDArray[np.int64]
    """By batch, the number of its file."""
    files: list[NDArray[np.void]]
    """The value that begins at each byte of a file; no copy."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of some rows, ``(N, …)``."""
        batch = self.bounds.searchsorted(rows, side="right") - 1
        at = rows * self.files[0].itemsize + self.offset[batch]
        found: NDArray[Any]
        if len(self.files) == 1:
            found = self.files[0][at]
        else:
            found = np.empty(len(rows), self.files[0].dtype)
            shard = self.shard[batch]
            for number, file in enumerate(self.files):
                places = np.flatnonzero(shard == number)
                if len(places):
                    found[places] = file[at[places]]
        values: NDArray[Any] = found.view(self.dtype).reshape(len(rows), *self.shape)
        return values


def flatten(
    columns: Sequence[ValueReader],
    bounds: NDArray[np.int64],
    shard: Sequence[int],
    maps: Sequence[tuple[int, NDArray[np.uint8]]],
) -> FlatNumbers | None:
    """Return where a column lies, if all of it is plain numbers in the maps.

    Args:
        columns: The column in each batch.
        bounds: The rows of each batch.
        shard: The file of each batch.
        maps: Address and bytes of each file.
    """
    arrays = [column.values for column in columns if isinstance(column, NumberReader)]
    if len(arrays) < len(columns) or any(column.valid is not None for column in columns):
        return None
    shape, dtype = arrays[0].shape[1:], arrays[0].dtype
    size = math.prod(shape) * dtype.itemsize
    offset = np.zeros(len(arrays), np.int64)
    for number, values in enumerate(arrays):
        address, data = maps[shard[number]]
        begin = values.ctypes.data - address
        inside = begin >= 0 and begin + values.nbytes <= len(data)
        if not inside or not size or (values.shape[1:], values.dtype) != (shape, dtype):
            return None  # Unpacked elsewhere, or stored in another way.
        offset[number] = begin - int(bounds[number]) * size
    files = [
        np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data, strides=(1,))
        for _, data in maps
    ]
    return FlatNumbers(bounds, offset, np.asarray(shard, np.int64), files, dtype, shape)
