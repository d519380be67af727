"""Compressed chunks → bytes, never more than the file declares."""

from __future__ import annotations

import bz2
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError, TooLargeError

try:
    import lz4.frame
    import zstandard
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Reading MCAP files and ROS bags needs mcap, rosbags, lz4 and zstandard. "
        "Install them with: pip install 'roboreel[ros]'",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MOST_CHUNK_BYTES", "check_chunk_size", "unpack", "unpack_message"]

MOST_CHUNK_BYTES = 1024**3
"""The largest chunk that is read: recorders write some megabytes each."""


def unpack(packed: bytes, compression: str, size_bytes: int, path: Path) -> bytes:
    """Return the contents of a chunk.

    Args:
        packed: The chunk's bytes.
        compression: ``lz4``, ``zstd``, ``bz2``; empty or ``none`` if there is none.
        size_bytes: How many bytes they unpack to, as the file declares.
        path: The file, for errors.

    Raises:
        TooLargeError: They would be more than is ever read at once.
        CorruptFileError: They are other bytes than were packed, or more or fewer than declared.
    """
    check_chunk_size(size_bytes, path)
    contents = _contents(packed, compression, size_bytes, path)
    if len(contents) != size_bytes:
        more = "more" if len(contents) > size_bytes else f"{len(contents):,}"
        raise CorruptFileError(
            f"A chunk declares {size_bytes:,} bytes and has {more}: {str(path)!r}."
        )
    return contents


def unpack_message(packed: bytes, path: Path) -> bytes:
    """Return a message that was compressed with zstd by itself.

    Raises:
        TooLargeError: It would be larger than is ever read at once.
        CorruptFileError: It cannot be unpacked.
    """
    try:
        size_bytes = zstandard.get_frame_parameters(packed).content_size
    except zstandard.ZstdError as error:
        raise CorruptFileError(f"A message is not zstd ({error}): {str(path)!r}.") from error
    if size_bytes == zstandard.CONTENTSIZE_UNKNOWN:
        return _contents(packed, "zstd", MOST_CHUNK_BYTES, path)
    return unpack(packed, "zstd", size_bytes, path)


def check_chunk_size(size_bytes: int, path: Path) -> None:
    """Raise if a chunk is larger than is ever read at once."""
    if size_bytes > MOST_CHUNK_BYTES:
        raise TooLargeError(
            f"A chunk has {size_bytes:,} bytes: at most {MOST_CHUNK_BYTES:,} are read at once. "
            f"Write the file again with smaller chunks: {str(path)!r}."
        )


def _contents(packed: bytes, compression: str, size_bytes: int, path: Path) -> bytes:
    most = size_bytes + 1  # One more than declared shows that there is more.
    try:
        match compression:
            case "" | "none":
                return packed
            case "lz4":
                unpacker = lz4.frame.LZ4FrameDecompressor()
                lz4_contents: bytes = unpacker.decompress(packed, max_length=most)
                return lz4_contents
            case "zstd":
                with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                    return reader.read(most)
            case "bz2":
                return bz2.BZ2Decompressor().decompress(packed, max_length=most)
    except (RuntimeError, zstandard.ZstdError, OSError, EOFError, ValueError) as error:
        raise CorruptFileError(
            f"A chunk cannot be unpacked ({compression}: {error}): {str(path)!r}."
        ) from error
    raise CorruptFileError(
        f"The chunks are packed with {compression[:40]!r}: lz4, zstd and bz2 are read: {str(path)!r}."
    )
