"""The frames of an .rrd file, as Rerun's documentation tells of them.

A header; messages, each with its kind and its size before it; the last of them says where the
chunks lie, and at the very end stands where that one lies.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CHUNK",
    "END",
    "HEADER_BYTES",
    "LZ4",
    "PLAIN",
    "STORE",
    "UnknownFormError",
    "ending",
    "frame",
    "frames",
]

END, STORE, CHUNK = 0, 1, 2
"""Kinds of messages."""
PLAIN, LZ4 = 1, 2
"""Whether what is in them is compressed."""
HEADER_BYTES = 12

_FOURCC = b"RRF2"
_FRAME = Struct("<QQ")
_ENDING = Struct("<QQI4s4sI")
_CHECKSUM_SEED = 7850921


class UnknownFormError(Exception):
    """Rerun writes something that we do not know."""


def frame(kind: int, size_bytes: int) -> bytes:
    """Return what stands before a message."""
    return _FRAME.pack(kind, size_bytes)


def ending(offset: int, message: bytes) -> bytes:
    """Return what stands at the very end of a file.

    Args:
        offset: Where the last message begins, after its frame.
        message: That message.
    """
    checksum = xxhash.xxh32_intdigest(message, _CHECKSUM_SEED)
    return _ENDING.pack(offset, len(message), checksum, _FOURCC, b"FOOT", 1)


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the messages of a file with their kinds.

    Raises:
        UnknownFormError: The file is no .rrd file, or of another version of the format.
    """
    if data[:4] != _FOURCC:
        raise UnknownFormError(f"the file begins with {data[:4]!r}")
    at, kind, message = HEADER_BYTES, STORE, b""
    while kind != END:
        if at + _FRAME.size > len(data):
            raise UnknownFormError("the file has no last message")
        kind, size_bytes = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        message = data[at : at + size_bytes]
        yield kind, message
        at += size_bytes
    if data[at:] != ending(at - len(message), message):
        raise UnknownFormError("the file ends in another way")
