"""Zarr stores as recordings: diffusion policy, UMI, and stores of no known layout."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import imagecodecs.numcodecs
import numpy as np
import zarr
import zarr.storage

from roboreel.errors import CorruptFileError, DatasetError, SourceError
from roboreel.files import walk
from roboreel.importing.array_layouts import (
    ENDS,
    open_plain,
    rate_of,
    read_ends,
    split_at,
    task_of,
)
from roboreel.importing.array_recording import ArrayEpisode, ArrayRecording
from roboreel.importing.array_tree import ArrayTree, Leaf, on_one_line
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
        ends = next((p for p in tree.leaves if p.rsplit("/", 1)[-1] == ENDS), None)
        return open_plain(tree, "zarr") if ends is None else _open_replay_buffer(tree, ends)
    except BaseException:
        tree.close()
        raise


def _open_replay_buffer(tree: ZarrTree, path: str) -> Recording:
    """All episodes lie one after the other in the same arrays; a list says where each ends."""
    leaf = tree.leaves[path]
    if leaf.kind != "numbers" or len(leaf.shape) != 1 or not 0 < leaf.rows <= _MOST_EPISODES:
        raise SourceError(f"{path!r} does not list the ends of episodes: {str(tree.path)!r}.")
    ends = read_ends(tree, leaf)
    parent = path.rpartition("/")[0]
    top = f"{parent.rpartition('/')[0]}/".lstrip("/") + "data/"
    arrays = {p.removeprefix(top): p for p in tree.leaves if p.startswith(top)}
    if not arrays:
        arrays = {p: p for p in tree.leaves if p != path and not (parent and p.startswith(parent))}
    episodes = split_at(ArrayEpisode("", 0, arrays, task=task_of(tree, "")), ends)
    layout = "umi" if any(name.startswith("camera0_") for name in arrays) else "diffusion_policy"
    recording = ArrayRecording(tree, layout, episodes, rate_of(tree, episodes[0]), used=[path])
    recording.remarks = tuple(_remarks(tree, arrays.values(), int(ends[-1])))
    return recording


def _remarks(tree: ZarrTree, paths: Collection[str], end: int) -> Iterator[str]:
    """Yield sentences on rows that are not imported, and on those that are not stored."""
    leaves = tree.leaves
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


# The arrays of a Zarr store, of version 2 or 3, in a folder or a zip file.

# Images of UMI are JPEG XL, which numcodecs does not know by itself.
imagecodecs.numcodecs.register_codecs(verbose=False)

_MOST_DEPTH = 16
_MOST_ATTRIBUTE = 1_000_000
_MOST_COUNTED = 200_000
"""Chunks of an array that are looked for one by one."""


_METADATA_FILES = (".zarray", ".zgroup", ".zmetadata", "zarr.json")
_MOST_BYTES = 256 * 1024**2
_PICKLES = ("pickle", "numcodecs.pickle")


class ZarrTree(ArrayTree):
    """A Zarr store, open to be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store: Any = None
        self._links: list[str] = []
        try:
            inside, self._arrays = self._list_arrays()
            if path.is_file():
                self._store = zarr.storage.ZipStore(str(path), mode="r")
            store = str(path) if self._store is None else self._store
            self._top: Any = zarr.open(store, path=inside, mode="r")
        except DatasetError:
            raise
        except Exception as error:  # zarr, zipfile and json have one for each kind of damage
            self.close()
            raise CorruptFileError(
                f"It is not a Zarr store: {on_one_line(error)}: {str(path)!r}."
            ) from error

    @cached_property
    def leaves(self) -> dict[str, Leaf]:
        """All arrays. One that zarr does not understand is ``other``, with what zarr says."""
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
            array = self._item(path)
            rows: NDArray[Any] = np.asarray(array[start:stop] if array.shape else [array[()]])
        return rows if rows.dtype.kind not in "iuf" else rows.astype(rows.dtype.newbyteorder("="))

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

    def _list_arrays(self) -> tuple[str, list[str]]:
        """Return the folder inside the file that is the store, and its arrays, by their paths in it.

        Raises:
            SourceError: An array is stored as pickles: reading one runs whatever program it holds.
        """
        tops, arrays = [], []
        files = self._files_of_zip() if self.path.is_file() else self._files_of_folder()
        for place, data in files:
            folder, _, name = place.rpartition("/")
            try:
                node = json.loads(data)
            except (ValueError, RecursionError):
                node = None  # Whether it is any metadata, zarr says.
            if _has_pickle(node):
                raise SourceError(
                    "An array is stored as pickles, which could run any program: write it with "
                    f"another codec: {f'{self.path}/{place}'!r}."
                )
            tops.append(folder)
            is_v3 = name == "zarr.json" and isinstance(node, dict)
            if name == ".zarray" or (is_v3 and node.get("node_type") == "array"):
                arrays.append(folder)
        top = min(tops, key=lambda folder: (folder.count("/") + bool(folder), folder), default="")
        inside = [folder for folder in arrays if not top or f"{folder}/".startswith(f"{top}/")]
        return top, sorted(folder.removeprefix(top).lstrip("/") for folder in inside)

    def _files_of_folder(self) -> Iterator[tuple[str, bytes]]:
        """Yield path and contents of each file of metadata; links to folders are noted."""
        for file in walk(self.path):
            place = file.relative_to(self.path).as_posix()
            if file.is_dir():
                self._links += [place] if file.is_symlink() else []
            elif not file.is_file():
                raise CorruptFileError(f"It is not a regular file: {str(file)!r}.")
            elif file.name in _METADATA_FILES:
                yield place, read_file(file, "Zarr metadata")
        self._links.sort()

    def _files_of_zip(self) -> Iterator[tuple[str, bytes]]:
        """Yield path and contents of each file of metadata, if none is too large to be looked at."""
        with ZipFile(self.path) as file:
            for info in file.infolist():
                if info.filename.rpartition("/")[2] not in _METADATA_FILES:
                    continue
                if info.file_size > _MOST_BYTES:
                    raise SourceError(
                        f"The metadata has {info.file_size:,} bytes, and at most {_MOST_BYTES:,} "
                        f"are read: {f'{self.path}/{info.filename}'!r}."
                    )
                yield info.filename, file.read(info)

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
