"""Metadata of a Zarr store, looked at before zarr opens it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from roboreel.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["METADATA_FILES", "check_metadata", "check_zip"]

METADATA_FILES = (".zarray", ".zgroup", ".zmetadata", "zarr.json")
_MOST_BYTES = 256 * 1024**2
_PICKLES = ("pickle", "numcodecs.pickle")


def check_metadata(data: bytes, where: str) -> None:
    """Raise if arrays are stored as pickles: reading one runs whatever program it holds.

    Args:
        data: The contents of a file of metadata. Whether it is any, zarr says.
        where: The file.

    Raises:
        SourceError: They are.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    if _has_pickle(found):
        raise SourceError(
            f"An array is stored as pickles, which could run any program: write it with another "
            f"codec: {where!r}."
        )


def check_zip(path: Path) -> str:
    """Check the metadata in a zip file; return the folder inside it that is the store.

    Raises:
        SourceError: Arrays are stored as pickles, or the metadata is too large to be looked at.
    """
    tops = []
    with ZipFile(path) as file:
        for info in file.infolist():
            folder, _, name = info.filename.rpartition("/")
            if name not in METADATA_FILES:
                continue
            tops.append(folder)
            where = f"{path}/{info.filename}"
            if info.file_size > _MOST_BYTES:
                raise SourceError(
                    f"The metadata has {info.file_size:,} bytes, and at most {_MOST_BYTES:,} are "
                    f"read: {where!r}."
                )
            check_metadata(file.read(info), where)
    return min(tops, key=lambda folder: (folder.count("/") + bool(folder), folder), default="")


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
