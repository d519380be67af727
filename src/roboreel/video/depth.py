"""Distances ⇄ the 12-bit codes of a depth video."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import Depth

MAX_CODE = 4095


def quantise_depth(image: NDArray[Any], depth: Depth) -> NDArray[np.uint16]:
    """Return the code of every distance, in the shape of ``image``.

    Args:
        image: Distances: floating point in metres, or unsigned integers in millimetres.
        depth: The range that the codes span.

    Returns:
        Codes from 0 to 4095. Distances are clipped to the range. NaN becomes code 0, as does 0,
        which sensors return where they see nothing.
    """
    metres = image.astype(np.float64) * (1.0 if image.dtype.kind == "f" else 1e-3)
    metres = np.clip(np.nan_to_num(metres, nan=depth.min_m), depth.min_m, depth.max_m)
    if not depth.log:
        return _codes(metres, depth.min_m, depth.max_m)
    low, high = np.log(depth.min_m + depth.shift), np.log(depth.max_m + depth.shift)
    return _codes(np.log(metres + depth.shift), low, high)


def _codes(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.uint16]:
    return np.rint(MAX_CODE * (values - low) / (high - low)).astype(np.uint16)


@lru_cache(maxsize=64)
def metres_of_codes(depth: Depth) -> NDArray[np.float32]:
    """Return the distance in metres that each 12-bit code stands for, ``(4096,)``.

    Examples:
        >>> from roboreel.schema import Depth
        >>> metres = metres_of_codes(Depth(min_m=0.5, max_m=4.5, log=False))
        >>> metres[[0, -1]].tolist()
        [0.5, 4.5]
    """
    share = np.arange(MAX_CODE + 1) / MAX_CODE
    if depth.log:
        low, high = np.log(depth.min_m + depth.shift), np.log(depth.max_m + depth.shift)
        metres = np.exp(low + share * (high - low)) - depth.shift
    else:
        metres = depth.min_m + share * (depth.max_m - depth.min_m)
    rounded: NDArray[np.float32] = metres.astype(np.float32)
    return rounded
