"""Check row numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["whole_numbers"]


def whole_numbers(values: object, noun: str) -> NDArray[np.int64]:
    """Return a list of whole numbers as an array of its own, ``(N,)``.

    Args:
        values: A list, a range or an array.
        noun: What they number, for the error: ``"Rows"``.

    Raises:
        TypeError: They are something else: a single number, fractions, a mask.
    """
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"{noun} are whole numbers, in a list or an array (N,): {array.dtype} values of shape "
            f"{array.shape} were given. numpy.flatnonzero turns a mask into numbers."
        )
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(2**63 - 1))  # Otherwise they become negative.
    return array.astype(np.int64)
