"""How many files a folder takes, and how large a file may become."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roboreel.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Manifest

FILES_PER_CHUNK = 1000
FILE_SIZES_MB: dict[str, float] = {"data_files_size_in_mb": 100, "video_files_size_in_mb": 200}
"""What info.json says of a new dataset: LeRobot's own defaults."""

_MEGABYTE = 1024**2
_EPISODES_FILE_BYTES = 16 * _MEGABYTE


@dataclass(frozen=True, slots=True)
class FileSizes:
    """How large the files of a dataset may become, and how many a folder takes.

    None keeps what the dataset says; a new one has LeRobot's defaults.

    Examples:
        >>> FileSizes(video_mb=50).in_json()
        {'video_files_size_in_mb': 50}

    Raises:
        MetadataError: A size is not positive, or the files of a folder are not a whole number.
    """

    data_mb: float | None = None
    """Megabytes of a data file. Default: 100."""
    video_mb: float | None = None
    """Megabytes of a video file. Default: 200."""
    files_per_chunk: int | None = None
    """Files of a folder. Default: 1000."""

    def __post_init__(self) -> None:
        if self.files_per_chunk is not None:
            if not self.files_per_chunk > 0:
                raise MetadataError(f"chunks_size must be positive, and is {self.files_per_chunk}.")
            if not isinstance(self.files_per_chunk, int):
                raise MetadataError(f"chunks_size is a whole number, not {self.files_per_chunk}.")
        for name, size_mb in self.in_json().items():
            if not (size_mb > 0 and math.isfinite(size_mb)):
                raise MetadataError(f"{name} must be positive, and is {size_mb}.")

    def in_json(self) -> dict[str, float]:
        """Return the sizes that are given, by their keys in info.json."""
        sizes_mb = zip(FILE_SIZES_MB, (self.data_mb, self.video_mb), strict=True)
        return {name: size_mb for name, size_mb in sizes_mb if size_mb is not None}


def with_file_sizes(manifest: Manifest, sizes: FileSizes) -> Manifest:
    """Return a dataset whose files become as large as asked; those that are there stay."""
    return replace(
        manifest,
        files_per_chunk=sizes.files_per_chunk or manifest.files_per_chunk,
        extra={**manifest.extra, **sizes.in_json()},
    )


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
    sizes = int(data_mb * _MEGABYTE), int(video_mb * _MEGABYTE)
    return FileLimits(*sizes, _EPISODES_FILE_BYTES)


def _megabytes(extra: Mapping[str, Any], key: str) -> float:
    given = extra.get(key)
    # Files may come from anywhere: what is not a size says nothing.
    if isinstance(given, int | float) and math.isfinite(given) and given > 0:
        return given
    return FILE_SIZES_MB[key]
