"""Every corruption that ``roboreel check`` must find, by name.

The first 16 are those that other linters were measured with: see `THE_SIXTEEN`.
"""

from __future__ import annotations

from tests import corrupt_structure, corrupt_tables, corrupt_values, corrupt_videos
from tests.corruption import Corruption, Place

__all__ = ["CORRUPTIONS", "THE_SIXTEEN", "Corruption", "Place"]

CORRUPTIONS: tuple[Corruption, ...] = tuple(
    found
    for module in (corrupt_structure, corrupt_tables, corrupt_values, corrupt_videos)
    for found in vars(module).values()
    if isinstance(found, Corruption)
)

THE_SIXTEEN = (
    "parquet-without-footer",
    "counts-differ",
    "video-short",
    "video-cut-in-half",
    "video-missing",
    "clip-starts-half-a-second-late",
    "length-wrong",
    "nan",
    "timestamp-jump",
    "episodes-swapped",
    "dangling-task-index",
    "stats-wrong",
    "frozen-camera",
    "orphan-data-file",
    "shape-differs",
    "clip-starts-one-frame-late",
)
"""In the order of the table that compares the linters."""
