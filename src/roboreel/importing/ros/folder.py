"""Folders of ROS 2 bags: what metadata.yaml says, and its files as one container."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import zstandard
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from roboreel.errors import CorruptFileError, MissingFileError
from roboreel.importing.ros.container import Container, Message, unpack_message
from roboreel.importing.ros.db3 import SqliteFile
from roboreel.importing.ros.mcap_file import McapFile
from roboreel.io.reading import open_to_read, read_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_METADATA = "metadata.yaml"
_MOST_METADATA_BYTES = 16 * 1024**2
_COPIED_BYTES = 1024**2
_STORAGES = (".mcap", ".db3")


class JoinedFiles(Container):
    """Files of one recording, one after the other.

    Args:
        path: Their folder.
        files: In their order. They are closed with this.
        stack: What else is closed with it.
        packed: Whether each message is compressed by itself.
    """

    def __init__(
        self, path: Path, files: Sequence[Container], stack: ExitStack, *, packed: bool
    ) -> None:
        super().__init__(path)
        self._stack = stack
        self._packed = packed
        self._chunks = [(file, chunk) for file in files for chunk in range(file.chunk_count)]
        self.chunk_count = len(self._chunks)
        self._numbers: dict[int, dict[int, int]] = {}
        for file in files:
            self._number(file)
            self.remarks += [f"{file.path.name}: {remark}" for remark in file.remarks]
            self.distro = self.distro or file.distro

    def chunk_channels(self, chunk: int) -> Collection[int]:
        """Return which channels have messages in a chunk."""
        file, inner = self._chunks[chunk]
        numbers = self._numbers[id(file)]
        return [numbers[c] for c in file.chunk_channels(inner) if c in numbers]

    def messages(self, chunk: int, channels: Collection[int] | None = None) -> Iterator[Message]:
        """Yield the messages of a chunk: see `Container.messages`."""
        file, inner = self._chunks[chunk]
        numbers = self._numbers[id(file)]
        if channels is not None:
            channels = [number for number, outer in numbers.items() if outer in channels]
        for message in file.messages(inner, channels):
            data = self._unpacked(message.data)
            yield Message(numbers[message.channel], message.log_ns, message.offset, data)

    def read(self, chunk: int, offset: int) -> memoryview:
        """Return the message at an offset that `messages` gave."""
        file, inner = self._chunks[chunk]
        return self._unpacked(file.read(inner, offset))

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._stack.close()

    def _unpacked(self, data: memoryview) -> memoryview:
        return memoryview(unpack_message(bytes(data), self.path)) if self._packed else data

    def _number(self, file: Container) -> None:
        """Give each channel a number of its own; equal ones of several files share it."""
        known = {channel: number for number, channel in self.channels.items()}
        self._numbers[id(file)] = numbers = {}
        for inner, channel in file.channels.items():
            numbers[inner] = known.setdefault(channel, len(known))
            self.channels[numbers[inner]] = channel


def open_folder(path: Path) -> Container:
    """Open the folder of a ROS 2 bag.

    Raises:
        CorruptFileError: Its metadata or one of its files is damaged.
        MissingFileError: A file that the metadata names is not there.
    """
    described = (path / _METADATA).is_file()
    names, compression, distro = _read_metadata(path) if described else (_found_files(path), "", "")
    stack = ExitStack()
    try:
        files = [_open_file(path / name, stack) for name in names]
        joined = JoinedFiles(path, files, stack, packed=compression == "message")
    except BaseException:
        stack.close()
        raise
    if not described:
        joined.remarks.append("The folder has no metadata.yaml: its files are taken by name.")
    joined.distro = distro or joined.distro
    return joined


def _open_file(path: Path, stack: ExitStack) -> Container:
    if not path.is_file():
        raise MissingFileError(f"{_METADATA} names a file that is not there: {str(path)!r}.")
    if path.suffix in (".zstd", ".zst"):
        folder = stack.enter_context(TemporaryDirectory(prefix="roboreel-"))
        path = _unpack_file(path, Path(folder))
    file = McapFile(path) if path.suffix == ".mcap" else SqliteFile(path)
    stack.callback(file.close)
    return file


def _unpack_file(path: Path, folder: Path) -> Path:
    """Unpack a compressed file to a temporary one, in pieces."""
    unpacked = folder / path.stem
    most_bytes = shutil.disk_usage(folder).free * 9 // 10
    written = 0
    handle, _ = open_to_read(path, "ROS 2 bag")
    try:
        with (
            open(handle, "rb") as packed,  # noqa: PTH123  # a handle, not a path
            zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader,
            unpacked.open("wb") as file,
        ):
            while piece := reader.read(_COPIED_BYTES):
                written += len(piece)
                if written > most_bytes:
                    raise CorruptFileError(
                        f"Unpacked, the file needs more than the {most_bytes:,} bytes that are "
                        f"free for temporary files: {str(path)!r}."
                    )
                file.write(piece)
    except zstandard.ZstdError as error:
        raise CorruptFileError(f"The file is not whole zstd ({error}): {str(path)!r}.") from error
    return unpacked


def _found_files(path: Path) -> list[str]:
    return sorted(
        entry.name
        for entry in path.iterdir()
        if entry.suffix in _STORAGES or "".join(entry.suffixes[-2:-1]) in _STORAGES
    )


def _read_metadata(folder: Path) -> tuple[list[str], str, str]:
    """Return the files of a bag, whether ``file`` or ``message`` is compressed, and the distribution."""
    path = folder / _METADATA
    data = read_file(path, "metadata of the bag", most_bytes=_MOST_METADATA_BYTES)
    try:
        bag: dict[str, Any] = YAML(typ="safe").load(data)["rosbag2_bagfile_information"]
        names = [PurePosixPath(name).name for name in bag["relative_file_paths"]]
        packed = str(bag.get("compression_mode") or "").lower()
        compression = "" if packed in ("", "none") else packed
        codec = bag.get("compression_format") or "zstd"
        distro = str(bag.get("ros_distro") or "")
    except (YAMLError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"The metadata of the bag cannot be understood ({type(error).__name__}): {str(path)!r}."
        ) from error
    if compression and codec != "zstd":
        raise CorruptFileError(
            f"The bag is compressed with {str(codec)[:40]!r}: zstd is read: {str(path)!r}."
        )
    if not names or not all(names):
        raise CorruptFileError(f"The metadata of the bag names no files: {str(path)!r}.")
    return names, compression, distro
