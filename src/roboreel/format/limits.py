"""How many files a folder takes, and how large a file may become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Manifest

__all__ = ["FILES_PER_CHUNK", "FILE_SIZES_MB", "FileLimits", "file_limits"]

FILES_PER_CHUNK = 1000
FILE_SIZES_MB = {"data_files_size_in_mb": 100, "video_files_size_in_mb": 200}
"""What info.json says of a new dataset: LeRobot's own defaults."""

_MEGABYTE = 1024**2
_EPISODES_FILE_BYTES = 16 * _MEGABYTE


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How large the files of a dataset may become when small ones are joined."""

    data_bytes: int
    video_bytes: int
    episodes_bytes: int
    """A file of the episode table; LeRobot names no limit."""


def file_limits(manifest: Manifest) -> FileLimits:
    """Return the limits that a dataset's metadata names, or the defaults."""
    data_mb, video_mb = (_megabytes(manifest.extra, key) for key in FILE_SIZES_MB)
    return FileLimits(data_mb * _MEGABYTE, video_mb * _MEGABYTE, _EPISODES_FILE_BYTES)


def _megabytes(extra: Mapping[str, Any], key: str) -> int:
    given = extra.get(key)
    # Files may come from anywhere: what is not a size says nothing.
    return int(given) if isinstance(given, int | float) and given > 0 else FILE_SIZES_MB[key]
