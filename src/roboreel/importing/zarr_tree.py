"""The arrays of a Zarr store, of version 2 or 3, in a folder or a zip file."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.importing.array_tree import ArrayTree, Leaf
from roboreel.importing.zarr_metadata import check_folder, check_zip

try:
    import imagecodecs.numcodecs
    import zarr
    import zarr.storage
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Importing Zarr stores needs zarr. Install it with: pip install 'roboreel[zarr]'",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["ZarrTree"]

# Images of UMI are JPEG XL, which numcodecs does not know by itself.
imagecodecs.numcodecs.register_codecs(verbose=False)

_MOST_DEPTH = 16
_MOST_ATTRIBUTE = 1_000_000
_MOST_COUNTED = 200_000
"""Chunks of an array that are looked for one by one."""


class ZarrTree(ArrayTree):
    """A Zarr store, open to be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store: Any = None
        inside = ""
        self._arrays, self._links = ([], []) if path.is_file() else check_folder(path)
        try:
            if path.is_file():
                inside, self._arrays = check_zip(path)
                self._store = zarr.storage.ZipStore(str(path), mode="r")
            store = str(path) if self._store is None else self._store
            self._top: Any = zarr.open(store, path=inside, mode="r")
        except SourceError:
            raise
        except Exception as error:  # zarr, zipfile and json have one for each kind of damage
            self.close()
            raise CorruptFileError(
                f"It is not a Zarr store: {_said(error)}: {str(path)!r}."
            ) from error

    def leaves(self) -> dict[str, Leaf]:
        """Return all arrays. One that zarr does not understand is ``other``, with what zarr says."""
        if not hasattr(self._top, "groups"):
            return {"array": self._open_leaf("array")}
        found = {path: self._open_leaf(path) for path in self._arrays}
        linked = "It is a link to another folder, which is not followed."
        return found | {path: Leaf(path, (), "other", note=linked) for path in self._links}

    def _open_leaf(self, path: str) -> Leaf:
        if path.count("/") > _MOST_DEPTH:
            raise SourceError(
                f"Groups are nested more than {_MOST_DEPTH} deep: {str(self.path)!r}."
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about types that have no specification
                return _leaf(path, self._item(path))
        except Exception as error:
            # Types and codecs of others are valid; what is no metadata at all is damage.
            if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | OSError):
                raise self._damaged(f"The metadata of {path!r}", error) from error
            return Leaf(path, (), "other", note=f"zarr cannot read it: {_said(error)}.")

    def attributes(self, path: str) -> Mapping[str, bool | int | float | str]:
        """Return the small attributes of a group or array."""
        try:
            raw = dict((self._item(path) if path else self._top).attrs)
        except Exception as error:
            raise self._damaged(f"The attributes of {path or '/'!r}", error) from error
        return {
            str(name): value
            for name, value in raw.items()
            if isinstance(value, bool | int | float)
            or (isinstance(value, str) and len(value) <= _MOST_ATTRIBUTE)
        }

    def read(self, path: str, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``[start, stop)`` of an array."""
        try:
            rows: NDArray[Any] = np.asarray(self._item(path)[start:stop])
        except Exception as error:
            raise self._damaged(f"Rows {start} to {stop} of {path!r}", error) from error
        return rows if rows.dtype.kind not in "iuf" else rows.astype(rows.dtype.newbyteorder("="))

    def read_scalar(self, path: str) -> object:
        """Return the value of an array without axes."""
        try:
            return np.asarray(self._item(path)[()]).item()
        except Exception as error:
            raise self._damaged(f"The value of {path!r}", error) from error

    def missing_chunks(self, path: str) -> tuple[int, int]:
        """Return how many chunks of an array are not stored, and how many there should be.

        Zarr reads them as the array's fill value: they were empty, or were lost on the way.
        """
        try:
            array = self._item(path)
            count = int(array.nchunks)
            stored = int(array.nchunks_initialized) if count <= _MOST_COUNTED else count
        except Exception as error:
            raise self._damaged(f"The chunks of {path!r}", error) from error
        return max(0, count - stored), count

    def close(self) -> None:
        """Close the zip file, if it is one."""
        store, self._store = self._store, None
        if store is not None:
            with suppress(AttributeError):  # A store that could not be opened cannot be closed.
                store.close()

    def _item(self, path: str) -> Any:  # noqa: ANN401  # zarr is untyped to us
        return (
            self._top if path == "array" and not hasattr(self._top, "groups") else self._top[path]
        )

    def _damaged(self, what: str, error: Exception) -> CorruptFileError:
        return CorruptFileError(f"{what} cannot be read: {_said(error)}: {str(self.path)!r}.")


def _leaf(path: str, array: Any) -> Leaf:  # noqa: ANN401  # zarr is untyped to us
    shape, dtype = tuple(int(size) for size in array.shape), array.dtype
    chunk = array.chunks[0] if array.chunks else 1
    rows = max(1, min(int(chunk), shape[0])) if shape else 1
    if dtype.kind in "biuf":
        return Leaf(path, shape, "numbers", dtype.newbyteorder("=").name, rows)
    if dtype.kind in "UTS":
        return Leaf(path, shape, "text", chunk_rows=rows)
    if dtype.kind == "O":
        return Leaf(path, shape, "bytes" if len(shape) == 1 else "other", chunk_rows=rows)
    return Leaf(path, shape, "other", str(dtype), note=f"Values of type {dtype}.")


def _said(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
