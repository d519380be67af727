"""From the path of a ROS bag or an MCAP file to a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.importing.ros.bag1 import BagFile
from roboreel.importing.ros.db3 import SqliteFile
from roboreel.importing.ros.folder import open_folder
from roboreel.importing.ros.mcap_file import McapFile
from roboreel.importing.ros.recording import MessageRecording
from roboreel.importing.sniffing import is_mcap, is_ros1_bag

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.importing.ros.container import Container

__all__ = ["open_source"]


def open_source(path: Path, *, distro: str | None = None) -> MessageRecording:
    """Open a ROS bag or an MCAP file to be read.

    Args:
        path: A file, or the folder of a ROS 2 bag.
        distro: The distribution of ROS that recorded it, for files without definitions of types.

    Raises:
        CorruptFileError: It is damaged.
        SourceError: The distribution is not known.
    """
    container, layout = _open_container(path)
    try:
        return MessageRecording(container, layout, distro)
    except BaseException:
        container.close()
        raise


def _open_container(path: Path) -> tuple[Container, str]:
    if path.is_dir():
        return open_folder(path), "ros2"
    if is_mcap(path):
        return McapFile(path), "mcap"
    if is_ros1_bag(path):
        return BagFile(path), "ros1"
    return SqliteFile(path), "ros2"
