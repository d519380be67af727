"""Metadata of a Zarr store, looked at before zarr opens it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from roboreel.errors import CorruptFileError, SourceError
from roboreel.files import walk
from roboreel.spans.reading import read_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_folder", "check_zip"]

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
