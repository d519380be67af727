"""The arrays of an HDF5 file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.importing.array_tree import ArrayTree, Leaf

try:
    import h5py
    import hdf5plugin  # noqa: F401  # registers the filters that datasets of others need
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Importing HDF5 files needs h5py. Install it with: pip install 'roboreel[hdf5]'",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.importing.array_tree import LeafKind

__all__ = ["HDF5Tree"]

_MOST_ATTRIBUTE_BYTES = 16 * 1024**2
_MOST_ARRAYS = 2_000_000
_MOST_DEPTH = 64
_MOST_NAMES = 16
"""Under so many names a group is listed: links to groups can multiply without end."""


class HDF5Tree(ArrayTree):
    """An HDF5 file, open to be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise CorruptFileError(f"{_said(error)}: {str(path)!r}.") from error

    def leaves(self) -> dict[str, Leaf]:
        """Return all arrays, under each of their names; links to other files are not followed."""
        found: dict[str, Leaf] = {}
        try:
            self._walk(self._file["/"].id, b"", (), Counter(), found)
        except (OSError, RuntimeError, ValueError, KeyError, UnicodeError, TypeError) as error:
            raise self._damaged("The table of contents", error) from error
        return found

    def _walk(
        self,
        group: h5py.h5g.GroupID,
        prefix: bytes,
        above: tuple[int, ...],
        visits: Counter[int],
        found: dict[str, Leaf],
    ) -> None:
        """Note the arrays below a group. h5py's own walk names an object once, by any of its links."""
        address = h5py.h5o.get_info(group).addr
        visits[address] += 1
        if address in above or visits[address] > _MOST_NAMES:
            return
        if len(above) >= _MOST_DEPTH:
            raise ValueError(f"groups are nested more than {_MOST_DEPTH} deep")
        for name in group:
            if len(found) >= _MOST_ARRAYS:
                return
            item, path = self._child(group, name), prefix + name
            if isinstance(item, h5py.h5g.GroupID):
                self._walk(item, path + b"/", (*above, address), visits, found)
                continue
            shown = path.decode("utf-8", "backslashreplace")
            if item is None:
                found[shown] = Leaf(shown, (), "other", note=_link_note(group, name))
            elif isinstance(item, h5py.h5d.DatasetID):
                found[shown] = self._leaf(path, shown, h5py.Dataset(item))

    def _leaf(self, path: bytes, shown: str, dataset: h5py.Dataset) -> Leaf:
        if path != shown.encode():
            return Leaf(shown, (), "other", note="Its name is not text.")
        if dataset.is_virtual and not all(
            source.file_name == "." and self._resolve(self._file["/"].id, source.dset_name.encode())
            for source in dataset.virtual_sources()
        ):
            return Leaf(shown, dataset.shape, "other", note="Its values lie in another file.")
        return _leaf(shown, dataset)

    def _child(self, group: h5py.h5g.GroupID, name: bytes, depth: int = 0) -> Any:  # noqa: ANN401
        """Return what a link of a group leads to; None where that is not in this file."""
        if not isinstance(group, h5py.h5g.GroupID) or not group.links.exists(name):
            return None
        kind = group.links.get_info(name).type
        if kind == h5py.h5l.TYPE_HARD:
            return h5py.h5o.open(group, name)
        if kind == h5py.h5l.TYPE_SOFT and depth < _MOST_NAMES:
            return self._resolve(group, group.links.get_val(name), depth + 1)
        return None

    def _resolve(self, group: h5py.h5g.GroupID, path: bytes, depth: int = 0) -> Any:  # noqa: ANN401
        """Return what lies at a path. Step by step, as any step may be a link to another file."""
        at = self._file["/"].id if path.startswith(b"/") else group
        for part in path.split(b"/"):
            at = at if part in (b"", b".") else self._child(at, part, depth)
        return at

    def attributes(self, path: str) -> Mapping[str, bool | int | float | str]:
        """Return the small attributes of a group or array."""
        found: dict[str, bool | int | float | str] = {}
        try:
            attributes = (self._file[path] if path else self._file).attrs
            for name in attributes:
                held = attributes.get_id(name)
                if held.get_space().get_simple_extent_type() == h5py.h5s.NULL:
                    continue  # HDF5 has no size of what is empty.
                if held.get_storage_size() > _MOST_ATTRIBUTE_BYTES:
                    raise SourceError(
                        f"The attribute {name!r} of {path or '/'!r} has more than "
                        f"{_MOST_ATTRIBUTE_BYTES:,} bytes: {str(self.path)!r}."
                    )
                value = _plain(attributes[name])
                if value is not None:
                    found[name] = value
        except (OSError, RuntimeError, ValueError, KeyError, UnicodeError, TypeError) as error:
            if isinstance(error, SourceError):
                raise
            raise self._damaged(f"An attribute of {path or '/'!r}", error) from error
        return found

    def read(self, path: str, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``[start, stop)`` of an array."""
        try:
            rows: NDArray[Any] = self._file[path][start:stop]
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError) as error:
            raise self._damaged(f"Rows {start} to {stop} of {path!r}", error) from error
        return rows if rows.dtype == object else rows.astype(rows.dtype.newbyteorder("="))

    def read_scalar(self, path: str) -> object:
        """Return the value of an array without axes."""
        try:
            return _plain(self._file[path][()])
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError) as error:
            raise self._damaged(f"The value of {path!r}", error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _damaged(self, what: str, error: Exception) -> CorruptFileError:
        return CorruptFileError(f"{what} cannot be read: {_said(error)}: {str(self.path)!r}.")


def _link_note(group: h5py.h5g.GroupID, name: bytes) -> str:
    target = group.links.get_val(name)
    if isinstance(target, tuple):
        where = target[0].decode("utf-8", "backslashreplace")
        return f"It is a link to the file {where!r}, which is not followed."
    return (
        f"It is a link to {target.decode('utf-8', 'backslashreplace')!r}, where nothing is found."
    )


def _leaf(name: str, dataset: h5py.Dataset) -> Leaf:
    shape, dtype = dataset.shape, dataset.dtype
    if shape is None:
        return Leaf(name, (), "other", note="It is empty.")
    if dataset.external:
        return Leaf(name, shape, "other", note="Its values lie in another file.")
    rows = dataset.chunks[0] if dataset.chunks else 1
    chunk_rows = max(1, min(rows, shape[0])) if shape else 1
    vlen, text = h5py.check_vlen_dtype(dtype), h5py.check_string_dtype(dtype)
    if text is not None:
        kind: LeafKind = "text" if len(shape) < 2 else "other"
        return Leaf(name, shape, kind, chunk_rows=chunk_rows, note="Texts in a table.")
    if dtype.names is not None:
        columns = ", ".join(dtype.names[:8])
        return Leaf(name, shape, "other", note=f"A table with the columns {columns}.")
    if vlen is not None or dtype.kind == "V":
        is_bytes = len(shape) == 1 and (vlen is None or vlen == np.uint8)
        kind = "bytes" if is_bytes else "other"
        return Leaf(name, shape, kind, chunk_rows=chunk_rows, note="Values of varying length.")
    if dtype.kind not in "biuf":
        return Leaf(name, shape, "other", str(dtype), note=f"Values of type {dtype}.")
    return Leaf(name, shape, "numbers", dtype.newbyteorder("=").name, chunk_rows)


def _plain(value: object) -> bool | int | float | str | None:
    """Return an attribute as a plain value; None for arrays and the like."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, bool | int | float | str) else None


def _said(error: Exception) -> str:
    """Return what HDF5 says, on one line and without a full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
