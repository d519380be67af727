"""Which files of a folder of Hugging Face datasets hold its rows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from roboreel.errors import DatasetError, MetadataError
from roboreel.spans.reading import read_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["of_one_split", "saved_files"]

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
