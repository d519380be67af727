"""From paths to open recordings: the kind of each is found by its contents."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError, SourceError
from roboreel.files import walk
from roboreel.importing.recording import natural_key

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from roboreel.importing.recording import Recording

_HDF5 = b"\x89HDF\r\n\x1a\n"
_MCAP = b"\x89MCAP0\r\n"
_ROS1 = b"#ROSBAG V"  # 2.0 is read; of an older one, its reader says what to do
_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK\x03\x04"
_ZARR_FILES = (".zgroup", ".zarray", "zarr.json")
_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Reader:
    """One format: how a recording is recognised, and the module that reads it."""

    name: str
    """For people: ``HDF5 file``."""
    accepts: Callable[[Path], bool]
    """Whether a path is of this format. It looks at few bytes and imports no extra."""
    module: str
    """Its function ``open_source(path: Path) -> Recording`` opens one. Imported at first use."""
    extra: str = ""
    """The extra whose libraries the module needs."""

    def open(self, path: Path, distro: str | None) -> Recording:
        """Open a recording of this format.

        Raises:
            ModuleNotFoundError: A library of the extra is missing.
        """
        options = {} if distro is None else {"distro": distro}
        if options and self.extra != "ros":
            raise SourceError(f"A ROS distribution does not apply to a {self.name}: {str(path)!r}.")
        try:
            module = importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"Importing a {self.name} needs {error.name}. Install it with: "
                f"pip install 'roboreel[{self.extra}]'",
                name=error.name,
            ) from error
        recording: Recording = module.open_source(path, **options)
        return recording


def open_recording(path: str | os.PathLike[str], *, distro: str | None = None) -> Recording:
    """Open a recording of another format to be read.

    Args:
        path: A file, or a folder that is one recording.
        distro: The distribution of ROS that recorded it, such as ``humble``, for files that do not
            define the types of their messages.

    Returns:
        A context manager; close it.

    Raises:
        SourceError: There is nothing, or something of a kind that is not read.
        CorruptFileError: It is damaged.
        ModuleNotFoundError: Its format needs a library of an extra, which is named.
    """
    source = Path(path).expanduser().absolute()
    reader = find_reader(source)
    if reader is None:
        raise SourceError(_why_unknown(source))
    return reader.open(source, distro)


def find_reader(path: Path) -> Reader | None:
    """Return the reader of a path's format; None if no format is recognised."""
    return next((reader for reader in READERS if reader.accepts(path)), None)


def find_sources(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the recordings that paths hold, in order.

    Args:
        paths: Recordings, or folders of recordings of one kind.

    Raises:
        SourceError: A path holds none, or the recordings are of several kinds.
    """
    sources: list[Path] = []
    for path in paths:
        sources += _sources_at(Path(path).expanduser().absolute())
    kinds = {reader.name for path in sources if (reader := find_reader(path)) is not None}
    if len(kinds) > 1:
        raise SourceError(
            f"There are recordings of several kinds, {', '.join(sorted(kinds))}: import one kind at a "
            "time."
        )
    if len(set(sources)) < len(sources):
        raise SourceError("A recording is named twice: name each of them once.")
    return sources


def _sources_at(path: Path) -> list[Path]:
    if not path.exists():
        raise SourceError(_why_unknown(path))
    if path.is_file() or _is_recording(path):
        return [path]
    inside = sorted(
        (p for p in path.iterdir() if not p.name.startswith(".") and _is_recording(p)),
        key=lambda p: natural_key(p.name),
    )
    if len(inside) > 1 and all(_VERSION.fullmatch(p.name) for p in inside):
        listed = ", ".join(p.name for p in inside)
        raise SourceError(f"There are several versions, {listed}: name one of them: {str(path)!r}.")
    if not inside and find_reader(path) is None:
        raise SourceError(f"This folder has no recording that can be read: {str(path)!r}.")
    return inside or [path]


def _is_recording(path: Path) -> bool:
    """Whether a path is one recording; a folder with CSV tables may hold several."""
    reader = find_reader(path)
    return reader is not None and reader.accepts is not is_media_folder


def _why_unknown(path: Path) -> str:
    if not path.exists():
        return f"There is nothing to import at {str(path)!r}."
    if path.is_file() and not path.stat().st_size:
        return f"The file is empty: {str(path)!r}."
    begins = f", which begins with {_first_bytes(path, 8).hex(' ')}" if path.is_file() else ""
    known = ", ".join(reader.name for reader in READERS)
    return f"No format is recognised{begins}. These are read: {known}: {str(path)!r}."


def _first_bytes(path: Path, count: int = 16) -> bytes:
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
    begin = _first_bytes(path, 4096 + len(_HDF5))
    # The signature stands at 0, 512, 1024, 2048, …: a user block may come first.
    return any(begin.startswith(_HDF5, offset) for offset in (0, 512, 1024, 2048, 4096))


def is_zarr(path: Path) -> bool:
    """Return whether a path is a Zarr store: a folder, or a zip file of one."""
    if path.is_dir():
        return any((path / name).is_file() for name in _ZARR_FILES)
    return _first_bytes(path, 4) == _ZIP


def is_rlds(path: Path) -> bool:
    """Return whether a path is a folder that TensorFlow Datasets made, or a file of one."""
    if path.is_dir():
        inside = list(path.glob("*/features.json"))
        folder = inside[0].parent if len(inside) == 1 else path
        return (folder / "features.json").is_file() and any(folder.glob("*.tfrecord*"))
    return ".tfrecord" in path.name and path.is_file()


def is_mcap(path: Path) -> bool:
    """Return whether a file is MCAP."""
    return _first_bytes(path, len(_MCAP)) == _MCAP


def is_ros1_bag(path: Path) -> bool:
    """Return whether a file is a bag of ROS 1."""
    return _first_bytes(path, len(_ROS1)) == _ROS1


def is_ros2_bag(path: Path) -> bool:
    """Return whether a path is a bag of ROS 2: a folder with its files, or one SQLite file."""
    if path.is_dir():
        names = ("metadata.yaml", "*.db3", "*.db3.zstd", "*.mcap", "*.mcap.zstd")
        return any(any(path.glob(name)) for name in names)
    return _first_bytes(path) == _SQLITE


def is_media_folder(path: Path) -> bool:
    """Return whether a path is a folder with CSV tables beside images or videos."""
    return path.is_dir() and any(file.suffix == ".csv" for file in walk(path))


_ROS = "roboreel.importing.ros.recording"

READERS = (
    Reader("HDF5 file", is_hdf5, "roboreel.importing.hdf5_file", "hdf5"),
    Reader("MCAP file", is_mcap, _ROS, "ros"),
    Reader("ROS 1 bag", is_ros1_bag, _ROS, "ros"),
    Reader("ROS 2 bag", is_ros2_bag, _ROS, "ros"),
    Reader("RLDS dataset", is_rlds, "roboreel.importing.rlds"),
    Reader("Zarr store", is_zarr, "roboreel.importing.zarr_store", "zarr"),
    Reader("folder of images or videos", is_media_folder, "roboreel.importing.media_folder"),
)
"""In the order in which they are asked."""
