"""Folders of Arrow files that other tools wrote."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    MetadataError,
    MissingFileError,
    UnsafePathError,
    UnsupportedVersionError,
)
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence as Items
    from pathlib import Path


_SUFFIXES = (".arrow", ".feather", ".ipc")
_METADATA = "_metadata.json"
"""Where stable-datasets lists the shards of a cache."""


@dataclass(frozen=True, slots=True)
class ForeignFiles:
    """Arrow files in their order."""

    paths: tuple[Path, ...]
    row_counts: tuple[int, ...] | None = None
    """Rows of each, where the tool that wrote them says so."""

    def check(self, found: Items[int], root: Path) -> None:
        """Raise `CorruptFileError` if a file has other rows than its tool wrote."""
        for path, there, said in zip(self.paths, found, self.row_counts or found, strict=True):
            if there != said:
                raise CorruptFileError(
                    f"{path.name} has {there} rows, {_METADATA} says {said}. "
                    f"Write the cache again: {str(root)!r}"
                )


def find_foreign(root: Path) -> ForeignFiles | None:
    """Return the Arrow files of a path; None if there are none.

    The path is one file (IPC file, IPC stream or Feather), a folder with the ``_metadata.json`` of
    stable-datasets, one that Hugging Face datasets saved or has as a cache, or a folder of
    ``.arrow``, ``.feather`` or ``.ipc`` files, which are read in the order of their names.

    Raises:
        MetadataError: ``_metadata.json`` does not describe a cache, or there are several splits.
        MissingFileError: A file that it names is missing.
        UnsupportedVersionError: It has another version.
        UnsafePathError: It names a file elsewhere.
    """
    if root.is_file():
        return ForeignFiles((root,))
    if (root / _METADATA).is_file():
        return _listed(root)
    names = saved_files(root)
    if names is not None:
        _check_names(root, names, "state.json")
        return ForeignFiles(tuple(root / name for name in names))
    paths = sorted(path for path in root.glob("*") if path.suffix in _SUFFIXES)
    paths = of_one_split(root, paths)
    return ForeignFiles(tuple(paths)) if paths else None


def _listed(root: Path) -> ForeignFiles:
    meta = root / _METADATA
    version, kind, names, counts = _read_metadata(meta)
    if version != 1:
        raise UnsupportedVersionError(
            f"The cache has version {version!r}; version 1 can be read: {str(meta)!r}"
        )
    if kind != "arrow":
        raise UnsupportedVersionError(
            f"The cache holds {kind!r} files; Arrow files can be read. Write it again with the "
            f"Arrow backend: {str(meta)!r}"
        )
    if len(counts) != len(names):
        raise MetadataError(f"{len(counts)} row counts for {len(names)} files: {str(meta)!r}")
    _check_names(root, names, _METADATA)
    return ForeignFiles(tuple(root / name for name in names), counts)


def _check_names(root: Path, names: Items[str], listed_in: str) -> None:
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\\" in name:
            raise UnsafePathError(
                f"{name!r} is not the name of a file in the folder: {str(root / listed_in)!r}"
            )
        if not (root / name).is_file():
            raise MissingFileError(f"{name} is missing, which {listed_in} names: {str(root)!r}")


def _read_metadata(meta: Path) -> tuple[object, object, list[str], tuple[int, ...]]:
    """Return the version, the format, and the names and rows of the files."""
    try:
        plain = json.loads(read_file(meta, "metadata"))
        version, kind = plain["cache_format_version"], plain.get("format", "arrow")
        listed = plain if kind == "arrow" else {"shard_filenames": [], "shard_row_counts": []}
        names = [str(name) for name in listed["shard_filenames"]]
        return version, kind, names, tuple(int(count) for count in listed["shard_row_counts"])
    except (
        ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise MetadataError(f"Not the metadata of a cache ({error!r}): {str(meta)!r}") from error


# Which files of a folder of Hugging Face datasets hold its rows.

_STATE, _INFO, _DICT = "state.json", "dataset_info.json", "dataset_dict.json"


def saved_files(root: Path) -> list[str] | None:
    """Return the names of the files that ``save_to_disk`` wrote; None if it did not.

    A dataset that is saved to the same folder again, in fewer files, leaves old ones behind.

    Raises:
        MetadataError: The folder is a ``DatasetDict``: each of its splits is a folder of its own.
    """
    splits = _read(root / _DICT).get("splits")
    if isinstance(splits, list) and splits:
        known = ", ".join(map(repr, splits))
        raise MetadataError(
            f"There are several splits: {known}. Open the folder of one: {str(root / str(splits[0]))!r}."
        )
    listed = _read(root / _STATE).get("_data_files")
    if not isinstance(listed, list):
        return None
    names = [entry.get("filename") for entry in listed if isinstance(entry, dict)]
    return [str(name) for name in names]


def of_one_split(root: Path, paths: list[Path]) -> list[Path]:
    """Return the files of a cache without results of ``map`` and ``filter``, which lie beside them.

    Other folders are returned as they are.

    Raises:
        MetadataError: There are files of several splits.
    """
    splits = _read(root / _INFO).get("splits")
    if not isinstance(splits, dict):
        return paths
    ends = {name: re.compile(rf"-{re.escape(name)}(-\d+-of-\d+)?\.arrow$") for name in splits}
    found = {name: [path for path in paths if end.search(path.name)] for name, end in ends.items()}
    found = {name: files for name, files in found.items() if files}
    if len(found) > 1:
        known = ", ".join(map(repr, found))
        files = next(iter(found.values()))
        raise MetadataError(
            f"This cache holds several splits: {known}. Open one file, or write a split with "
            f"save_to_disk and open its folder: {str(files[0])!r}."
        )
    return next(iter(found.values()), paths)


def _read(path: Path) -> dict[str, Any]:
    """Return what a JSON file says; nothing if it is missing, or another tool's."""
    if not path.is_file():
        return {}
    try:
        plain = json.loads(read_file(path, "metadata"))
    except (DatasetError, ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}
