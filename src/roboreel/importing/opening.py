"""From a path to an open recording: the kind is found by its contents."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import SourceError
from roboreel.importing import sniffing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from roboreel.importing.recording import Recording

__all__ = ["Reader", "find_reader", "open_recording"]


@dataclass(frozen=True, slots=True)
class Reader:
    """One format: how a recording is recognised, and the module that reads it."""

    name: str
    """For people: ``HDF5 file``."""
    accepts: Callable[[Path], bool]
    """Whether a path is of this format. It looks at few bytes and imports no extra."""
    module: str
    """Imported at first use. Its function ``open_source(path: Path) -> Recording`` opens one; where a
    library of an extra is missing, importing it raises a ModuleNotFoundError that names the extra."""
    takes_distro: bool = False
    """Whether ``open_source`` takes ``distro``, a distribution of ROS."""


_ROS = "roboreel.importing.ros.opening"

READERS = (
    Reader("HDF5 file", sniffing.is_hdf5, "roboreel.importing.hdf5_file"),
    Reader("MCAP file", sniffing.is_mcap, _ROS, takes_distro=True),
    Reader("ROS 1 bag", sniffing.is_ros1_bag, _ROS, takes_distro=True),
    Reader("ROS 2 bag", sniffing.is_ros2_bag, _ROS, takes_distro=True),
    Reader("RLDS dataset", sniffing.is_rlds, "roboreel.importing.rlds"),
    Reader("Zarr store", sniffing.is_zarr, "roboreel.importing.zarr_store"),
    Reader(
        "folder of images or videos", sniffing.is_media_folder, "roboreel.importing.media_folder"
    ),
)
"""In the order in which they are asked."""


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
    place = Path(path).expanduser().absolute()
    reader = find_reader(place)
    if reader is None:
        raise SourceError(_why_unknown(place))
    options = {} if distro is None else {"distro": distro}
    if options and not reader.takes_distro:
        raise SourceError(f"A ROS distribution does not apply to a {reader.name}: {str(place)!r}.")
    opened: Recording = importlib.import_module(reader.module).open_source(place, **options)
    return opened


def find_reader(path: Path) -> Reader | None:
    """Return the reader of a path's format; None if no format is recognised."""
    return next((reader for reader in READERS if reader.accepts(path)), None)


def _why_unknown(path: Path) -> str:
    if not path.exists():
        return f"There is nothing to import at {str(path)!r}."
    known = ", ".join(reader.name for reader in READERS)
    if path.is_file() and not path.stat().st_size:
        return f"The file is empty: {str(path)!r}."
    begins = (
        f", which begins with {sniffing.first_bytes(path, 8).hex(' ')}" if path.is_file() else ""
    )
    return f"No format is recognised{begins}. These are read: {known}: {str(path)!r}."
