"""Byte strings that lie one after the other in memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["PackedBytes"]


@dataclass(frozen=True, slots=True, eq=False)
class PackedBytes:
    """String ``i`` is ``data[bounds[i]:bounds[i + 1]]``."""

    bounds: NDArray[np.int64]
    data: bytes

    @classmethod
    def join(cls, items: Sequence[bytes | memoryview]) -> PackedBytes:
        """Return byte strings one after the other."""
        bounds = np.fromiter(accumulate(map(len, items), initial=0), np.int64, len(items) + 1)
        return cls(bounds, b"".join(items))

    def __len__(self) -> int:
        return len(self.bounds) - 1
