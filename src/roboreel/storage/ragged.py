"""Lists of texts, one list per row, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["TextLists"]


@dataclass(frozen=True, slots=True)
class TextLists:
    """Row ``i`` holds the texts ``texts[codes[j]]`` for ``j`` in ``[bounds[i], bounds[i + 1])``."""

    bounds: NDArray[np.int64]
    codes: NDArray[np.int64]
    texts: tuple[str, ...]

    @classmethod
    def from_arrow(cls, column: Any) -> TextLists:  # noqa: ANN401  # an Arrow list column
        """Take over a column of lists of strings; a null list is an empty one."""
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        flat = column.flatten()
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        encoded = flat.cast(pa.large_string()).fill_null("").dictionary_encode()
        return cls(
            bounds=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
            codes=encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
            texts=tuple(encoded.dictionary.to_pylist()),
        )

    @classmethod
    def from_lists(cls, lists: Iterable[Sequence[str]]) -> TextLists:
        """Take over ordinary lists."""
        return cls.from_arrow(pa.array([list(row) for row in lists], pa.list_(pa.string())))

    def to_arrow(self) -> Any:  # noqa: ANN401  # an Arrow list column
        """Return a column of lists of strings."""
        flat = pa.array(self.texts, pa.string()).take(pa.array(self.codes))
        return pa.ListArray.from_arrays(pa.array(self.bounds, pa.int32()), flat)

    def take(self, rows: NDArray[np.int64]) -> TextLists:
        """Return some rows, in the order asked for."""
        lengths = np.diff(self.bounds)[rows]
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
        return TextLists(
            bounds=bounds,
            codes=self.codes[np.repeat(self.bounds[:-1][rows], lengths) + within],
            texts=self.texts,
        )
