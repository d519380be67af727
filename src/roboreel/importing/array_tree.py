"""Files of named arrays, HDF5 and Zarr alike: what is in them, and rows of one array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from roboreel.errors import CorruptFileError, DatasetError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

LeafKind = Literal["numbers", "text", "bytes", "other"]
"""Elements of an array: numbers, texts, byte strings of any length, or something else."""

MOST_CHUNK_BYTES = 2 * 1024**3
"""A larger chunk is not decoded: it is taken for a corrupt or hostile header."""
_MOST_KEPT_BYTES = 128 * 1024**2


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of a file."""

    path: str
    """Names from the top down, with slashes between them and none in front."""
    shape: tuple[int, ...]
    kind: LeafKind
    dtype: str = ""
    """Of numbers, a NumPy name, in the byte order of this machine."""
    chunk_rows: int = 1
    """How many rows are decoded together."""
    note: str = ""
    """Why it is ``other``."""

    @property
    def rows(self) -> int:
        """The length of its first axis; 0 for a scalar."""
        return self.shape[0] if self.shape else 0


class ArrayTree(ABC):
    """A file of named arrays, open to be read."""

    path: Path

    @property
    @abstractmethod
    def leaves(self) -> Mapping[str, Leaf]:
        """All arrays, in the order of the file. None of them is read."""

    @abstractmethod
    def attributes(self, path: str) -> Mapping[str, bool | int | float | str]:
        """Return the small attributes of a group or array; those of the file for ``""``."""

    @abstractmethod
    def read(self, path: str, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``[start, stop)``: numbers, or objects that are bytes or texts.

        An array without axes has one row.

        Raises:
            CorruptFileError: They cannot be read.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Raise what goes wrong inside as a CorruptFileError that says what cannot be read."""
        try:
            yield
        except DatasetError:
            raise
        except Exception as error:  # h5py, zarr, zipfile and json have one for each kind of damage
            raise CorruptFileError(
                f"{what} cannot be read: {on_one_line(error)}: {str(self.path)!r}."
            ) from error


def on_one_line(error: Exception) -> str:
    """Return what a library says, on one line and without a full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


class Slabs:
    """Rows of arrays, read in whole chunks that are kept until others are needed.

    Args:
        tree: The file.
    """

    def __init__(self, tree: ArrayTree) -> None:
        self._tree = tree
        self._kept: dict[str, tuple[int, NDArray[Any]]] = {}

    def read(self, path: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return some rows of an array, ascending and with repeats; at most a block of them."""
        leaf = self._tree.leaves[path]
        if not len(rows):
            return self._tree.read(path, 0, 0)
        low, high = int(rows[0]), int(rows[-1]) + 1
        step = leaf.chunk_rows
        low, high = low // step * step, min(-(-high // step) * step, leaf.rows)
        start, slab = self._kept.get(path, (0, None))
        if slab is None or low < start or high > start + len(slab):
            start, slab = low, self._tree.read(path, low, high)
            if len(slab) != high - low:
                raise SourceError(
                    f"{path!r} has {start + len(slab)} rows where {high} are needed: "
                    f"{str(self._tree.path)!r}."
                )
            self._keep(path, start, slab)
        picked: NDArray[Any] = slab[rows - start]
        return picked

    def _keep(self, path: str, start: int, slab: NDArray[Any]) -> None:
        self._kept.pop(path, None)
        held = sum(kept.nbytes for _, kept in self._kept.values())
        while self._kept and held + slab.nbytes > _MOST_KEPT_BYTES:
            held -= self._kept.pop(next(iter(self._kept)))[1].nbytes
        self._kept[path] = (start, slab)
