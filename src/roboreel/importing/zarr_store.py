"""Zarr stores as recordings: diffusion policy, UMI, and stores of no known layout."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import imagecodecs.numcodecs
import numpy as np
import zarr
import zarr.storage

from roboreel.errors import CorruptFileError, SourceError
from roboreel.files import walk
from roboreel.importing.array_recording import ArrayEpisode, ArrayRecording, describe_columns
from roboreel.importing.array_tree import ArrayTree, Leaf, on_one_line
from roboreel.importing.plain_tree import open_plain, rate_of, task_of
from roboreel.importing.tree_layouts import find_episode_ends
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.importing.recording import Recording


_MOST_EPISODES = 10_000_000


def open_source(path: Path) -> Recording:
    """Open a Zarr store of version 2 or 3: a folder, or a zip file of one.

    Raises:
        CorruptFileError: It is damaged.
        SourceError: There is nothing in it that has steps.
    """
    tree = ZarrTree(path)
    try:
        leaves = tree.leaves()
        ends = find_episode_ends(leaves)
        if ends is not None:
            return _open_replay_buffer(tree, leaves, ends)
        return open_plain(tree, leaves, "zarr")
    except BaseException:
        tree.close()
        raise


def _open_replay_buffer(tree: ZarrTree, leaves: Mapping[str, Leaf], path: str) -> Recording:
    """All episodes lie one after the other in the same arrays; a list says where each ends."""
    ends = _ends(tree, leaves[path])
    parent = path.rpartition("/")[0]
    top = f"{parent.rpartition('/')[0]}/".lstrip("/") + "data/"
    arrays = {p.removeprefix(top): p for p in leaves if p.startswith(top)}
    if not arrays:
        arrays = {p: p for p in leaves if p != path and not (parent and p.startswith(parent))}
    starts = np.concatenate([[0], ends[:-1]])
    task = task_of(tree, leaves, "")
    episodes = [
        ArrayEpisode(str(number), int(end - start), arrays, int(start), is_part=True, task=task)
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    columns = describe_columns(tree, leaves, episodes)
    layout = "umi" if any(name.startswith("camera0_") for name in arrays) else "diffusion_policy"
    rate = rate_of(tree, leaves, episodes[0])
    recording = ArrayRecording(tree, leaves, layout, episodes, columns, rate, used=[path])
    recording.remarks = tuple(_remarks(tree, leaves, arrays.values(), int(ends[-1])))
    return recording


def _remarks(
    tree: ZarrTree, leaves: Mapping[str, Leaf], paths: Collection[str], end: int
) -> Iterator[str]:
    """Yield sentences on rows that are not imported, and on those that are not stored."""
    extra = max((leaves[path].rows for path in paths), default=0) - end
    if extra > 0:
        yield f"{extra} rows after the end of the last episode are left out."
    for path in (path for path in paths if leaves[path].kind != "other"):
        missing, count = tree.missing_chunks(path)
        if missing:
            yield (
                f"{missing} of the {count} chunks of {path} are not stored, and are read as the "
                "array's fill value."
            )


def _ends(tree: ZarrTree, leaf: Leaf) -> NDArray[np.int64]:
    if leaf.kind != "numbers" or len(leaf.shape) != 1 or not 0 < leaf.rows <= _MOST_EPISODES:
        raise SourceError(f"{leaf.path!r} does not list the ends of episodes: {str(tree.path)!r}.")
    ends = tree.read(leaf.path, 0, leaf.rows).astype(np.int64)
    if ends[0] < 0 or (np.diff(ends) < 0).any():
        raise SourceError(f"The episode ends in {leaf.path!r} do not ascend: {str(tree.path)!r}.")
    return ends


# The arrays of a Zarr store, of version 2 or 3, in a folder or a zip file.

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
                f"It is not a Zarr store: {on_one_line(error)}: {str(path)!r}."
            ) from error

    def leaves(self) -> dict[str, Leaf]:
        """Return all arrays. One that zarr does not understand is ``other``, with what zarr says."""
        if not hasattr(self._top, "groups"):
            return {"array": self._open_leaf("array")}
        found = {}
        for path in self._arrays:
            with self.reading(f"The metadata of {path!r}"):
                found[path] = self._open_leaf(path)
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
                raise
            return Leaf(path, (), "other", note=f"zarr cannot read it: {on_one_line(error)}.")

    def attributes(self, path: str) -> Mapping[str, bool | int | float | str]:
        """Return the small attributes of a group or array."""
        with self.reading(f"The attributes of {path or '/'!r}"):
            raw = dict((self._item(path) if path else self._top).attrs)
        return {
            str(name): value
            for name, value in raw.items()
            if isinstance(value, bool | int | float)
            or (isinstance(value, str) and len(value) <= _MOST_ATTRIBUTE)
        }

    def read(self, path: str, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``[start, stop)`` of an array."""
        with self.reading(f"Rows {start} to {stop} of {path!r}"):
            rows: NDArray[Any] = np.asarray(self._item(path)[start:stop])
        return rows if rows.dtype.kind not in "iuf" else rows.astype(rows.dtype.newbyteorder("="))

    def read_scalar(self, path: str) -> object:
        """Return the value of an array without axes."""
        with self.reading(f"The value of {path!r}"):
            return np.asarray(self._item(path)[()]).item()

    def missing_chunks(self, path: str) -> tuple[int, int]:
        """Return how many chunks of an array are not stored, and how many there should be.

        Zarr reads them as the array's fill value: they were empty, or were lost on the way.
        """
        with self.reading(f"The chunks of {path!r}"):
            array = self._item(path)
            count = int(array.nchunks)
            stored = int(array.nchunks_initialized) if count <= _MOST_COUNTED else count
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


# Metadata of a Zarr store, looked at before zarr opens it.

_METADATA_FILES = (".zarray", ".zgroup", ".zmetadata", "zarr.json")
_MOST_BYTES = 256 * 1024**2
_PICKLES = ("pickle", "numcodecs.pickle")


def check_folder(path: Path) -> tuple[list[str], list[str]]:
    """Return the arrays of a store in a folder, and links to folders, by their paths in it.

    Raises:
        CorruptFileError: Something is neither a file nor a folder: zarr would wait for a pipe.
        SourceError: An array is stored as pickles.
    """
    arrays, links = [], []
    for file in walk(path):
        if file.is_dir():
            links += [file.relative_to(path).as_posix()] if file.is_symlink() else []
            continue
        if not file.is_file():
            raise CorruptFileError(f"It is not a regular file: {str(file)!r}.")
        if file.name in _METADATA_FILES and _is_array(
            file.name, read_file(file, "Zarr metadata"), str(file)
        ):
            arrays.append(file.parent.relative_to(path).as_posix().removeprefix("."))
    return sorted(arrays), sorted(links)


def _is_array(name: str, data: bytes, where: str) -> bool:
    """Return whether metadata is that of an array.

    Args:
        name: Of the file.
        data: Its contents. Whether it is any metadata, zarr says.
        where: The file.

    Raises:
        SourceError: The array is stored as pickles: reading one runs whatever program it holds.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return name == ".zarray"
    if _has_pickle(found):
        raise SourceError(
            f"An array is stored as pickles, which could run any program: write it with another "
            f"codec: {where!r}."
        )
    is_node = name == "zarr.json" and isinstance(found, dict)
    return name == ".zarray" or (is_node and found.get("node_type") == "array")


def check_zip(path: Path) -> tuple[str, list[str]]:
    """Return the folder inside a zip file that is the store, and the arrays, by their paths in it.

    Raises:
        SourceError: Arrays are stored as pickles, or the metadata is too large to be looked at.
    """
    tops, arrays = [], []
    with ZipFile(path) as file:
        for info in file.infolist():
            folder, _, name = info.filename.rpartition("/")
            if name not in _METADATA_FILES:
                continue
            tops.append(folder)
            where = f"{path}/{info.filename}"
            if info.file_size > _MOST_BYTES:
                raise SourceError(
                    f"The metadata has {info.file_size:,} bytes, and at most {_MOST_BYTES:,} are "
                    f"read: {where!r}."
                )
            if _is_array(name, file.read(info), where):
                arrays.append(folder)
    top = min(tops, key=lambda folder: (folder.count("/") + bool(folder), folder), default="")
    inside = [folder for folder in arrays if not top or f"{folder}/".startswith(f"{top}/")]
    return top, sorted(folder.removeprefix(top).lstrip("/") for folder in inside)


def _has_pickle(found: Any) -> bool:  # noqa: ANN401  # JSON
    waiting = [found]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("id") in _PICKLES or value.get("name") in _PICKLES:
                return True
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return False
