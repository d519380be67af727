"""Files of a dataset's folders that belong to no episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roboreel.schema import Manifest

_PATTERNS = ("data/*/*.parquet", "videos/*/*/*.mp4")


def find_strays(manifest: Manifest) -> list[str]:
    """Return the data and video files in which no episode lies, as sorted paths below the folder."""
    root, sets = manifest.root, [manifest.data_files, *manifest.video_files.values()]
    known = {(root / files[i]).as_posix() for files in sets for i in range(len(files))}
    there = (path for pattern in _PATTERNS for path in root.glob(pattern))
    return sorted(p.relative_to(root).as_posix() for p in there if p.as_posix() not in known)
