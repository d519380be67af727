"""What kind of recording a path is, by its first bytes and the names in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.files import walk

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "first_bytes",
    "is_hdf5",
    "is_mcap",
    "is_media_folder",
    "is_rlds",
    "is_ros1_bag",
    "is_ros2_bag",
    "is_zarr",
]

_HDF5 = b"\x89HDF\r\n\x1a\n"
_MCAP = b"\x89MCAP0\r\n"
_ROS1 = b"#ROSBAG V"  # 2.0 is read; of an older one, its reader says what to do
_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK\x03\x04"
_ZARR_FILES = (".zgroup", ".zarray", "zarr.json")


def first_bytes(path: Path, count: int = 16) -> bytes:
    """Return the first bytes of a file; nothing if it is not a regular file.

    Raises:
        CorruptFileError: It cannot be read.
    """
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise CorruptFileError(
            f"The file cannot be read: {error.strerror or error}: {str(path)!r}."
        ) from error


def is_hdf5(path: Path) -> bool:
    """Return whether a file is HDF5, also one behind a block of the user's own."""
    if not path.is_file():
        return False
    # The signature stands at 0, 512, 1024, 2048, …: a user block may come first.
    with path.open("rb") as file:
        for offset in (0, 512, 1024, 2048, 4096):
            file.seek(offset)
            if file.read(len(_HDF5)) == _HDF5:
                return True
    return False


def is_zarr(path: Path) -> bool:
    """Return whether a path is a Zarr store: a folder, or a zip file of one."""
    if path.is_dir():
        return any((path / name).is_file() for name in _ZARR_FILES)
    return first_bytes(path, 4) == _ZIP


def is_rlds(path: Path) -> bool:
    """Return whether a path is a folder that TensorFlow Datasets made, or a file of one."""
    if path.is_dir():
        inside = list(path.glob("*/features.json"))
        place = inside[0].parent if len(inside) == 1 else path
        return (place / "features.json").is_file() and any(place.glob("*.tfrecord*"))
    return ".tfrecord" in path.name and path.is_file()


def is_mcap(path: Path) -> bool:
    """Return whether a file is MCAP."""
    return first_bytes(path, len(_MCAP)) == _MCAP


def is_ros1_bag(path: Path) -> bool:
    """Return whether a file is a bag of ROS 1."""
    return first_bytes(path, len(_ROS1)) == _ROS1


def is_ros2_bag(path: Path) -> bool:
    """Return whether a path is a bag of ROS 2: a folder with its files, or one SQLite file."""
    if path.is_dir():
        names = ("metadata.yaml", "*.db3", "*.db3.zstd", "*.mcap", "*.mcap.zstd")
        return any(any(path.glob(name)) for name in names)
    return first_bytes(path) == _SQLITE


def is_media_folder(path: Path) -> bool:
    """Return whether a path is a folder with CSV tables beside images or videos."""
    return path.is_dir() and any(file.suffix == ".csv" for file in walk(path))
