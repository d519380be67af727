"""How a dataset lies on disk, as a Manifest: one module per version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.format import lerobot_v2, lerobot_v3
from roboreel.format.info import read_info

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.schema import Manifest

__all__ = ["read_manifest"]


def read_manifest(root: Path) -> Manifest:
    """Return all that is known of a dataset without opening its data.

    Raises:
        NotADatasetError: There is no dataset at this path.
        UnsupportedVersionError: It is of a version that we do not read.
        MetadataError: A metadata file cannot be understood.
        CorruptFileError: A metadata file is damaged.
        UnsafePathError: A path template leads out of the dataset's folder.
    """
    info = read_info(root)
    if info.version[0] == 3:
        return lerobot_v3.read_manifest(root, info)
    return lerobot_v2.read_manifest(root, info)
