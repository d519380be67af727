"""The pages of a column chunk: their headers and their unpacked bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from roboreel.errors import CorruptFileError, TooLargeError
from roboreel.parquet.extents.thrift import BOOL, INT, TruncatedError, read_struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roboreel.io.mapped import MappedFile
    from roboreel.parquet.extents.chunks import Chunk

__all__ = [
    "CODECS",
    "HIGHEST_RATIO",
    "PAGE_HEADER",
    "SNAPPY",
    "UNCOMPRESSED",
    "ByteSource",
    "Page",
    "UnfamiliarError",
    "read_header",
    "read_pages",
    "unpack",
    "unpack_bytes",
]

UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW = 0, 1, 2, 4, 6, 7
CODECS = (UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW)
"""The compressions that `unpack` knows."""
_CODEC_NAMES = {SNAPPY: "snappy", GZIP: "gzip", BROTLI: "brotli", ZSTD: "zstd", LZ4_RAW: "lz4_raw"}
HIGHEST_RATIO = {UNCOMPRESSED: 1, SNAPPY: 22, GZIP: 1040, LZ4_RAW: 256}
"""The most unpacked bytes per packed byte; Brotli and Zstandard have no such limit."""

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8

_FIRST_HEADER_BYTES = 256
_LAST_HEADER_BYTES = 16 * 1024**2

# What we read of Parquet's PageHeader, by the field numbers of its specification.
PAGE_HEADER = {
    1: INT,
    2: INT,
    3: INT,
    5: {1: INT, 2: INT, 3: INT},
    7: {1: INT, 2: INT},
    8: {1: INT, 4: INT, 5: INT, 6: INT, 7: BOOL},
}


class ByteSource(Protocol):
    """A file that is read by offset."""

    def read(self, offset: int, length: int, /) -> bytes:
        """Return bytes of the file."""


class UnfamiliarError(Exception):
    """A chunk is written in a way that we leave to pyarrow."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a column chunk."""

    is_dictionary: bool
    num_values: int
    """Nulls included."""
    has_positions: bool
    """Whether the values are positions in the dictionary, not byte strings."""
    level_offset: int | None
    """Offset of the definition levels in the file; None if they are inside the page."""
    level_bytes: int
    offset: int
    """Offset of the packed bytes in the file."""
    packed_bytes: int
    unpacked_bytes: int
    codec: int

    @property
    def stop(self) -> int:
        """Offset right after the packed bytes."""
        return self.offset + self.packed_bytes


def read_pages(file: MappedFile, chunk: Chunk) -> Iterator[Page]:
    """Yield the pages of a chunk in order, until all its rows have a value.

    Raises:
        CorruptFileError: A header is damaged.
        UnfamiliarError: A page has an encoding or a compression that we leave to pyarrow.
    """
    if chunk.codec not in CODECS:
        raise UnfamiliarError
    offset = chunk.start
    values_left = chunk.num_rows
    pages_left = chunk.num_rows + 64  # empty pages are allowed, but not endlessly many
    while values_left:
        pages_left -= 1
        if offset >= chunk.stop or pages_left < 0:
            raise CorruptFileError(f"The pages of a chunk lack {values_left} values.")
        header, body = read_header(file, offset, chunk.stop, PAGE_HEADER)
        packed_bytes, unpacked_bytes = header.get(3, -1), header.get(2, -1)
        offset = body + packed_bytes
        if packed_bytes < 0 or not 0 <= unpacked_bytes < 2**31 or offset > chunk.stop:
            raise CorruptFileError(
                f"A page at offset {body} does not fit in its chunk: {packed_bytes} bytes, "
                f"{unpacked_bytes} unpacked."
            )
        page = _page_of(header, body, chunk.codec)
        if page is None:
            continue
        if page.codec == UNCOMPRESSED and page.unpacked_bytes > page.packed_bytes:
            raise CorruptFileError("An uncompressed page is truncated.")
        if not page.is_dictionary:
            values_left -= page.num_values
        if page.num_values < 0 or values_left < 0:
            raise CorruptFileError(
                f"A page holds {page.num_values} values, more than rows are left."
            )
        yield page


def unpack(file: MappedFile, page: Page, limit_bytes: int) -> bytes:
    """Return all unpacked bytes of a page.

    Raises:
        CorruptFileError: The page is damaged, or its header is wrong.
        TooLargeError: They do not fit in the memory budget.
    """
    if page.unpacked_bytes == 0:
        return b""
    highest = page.packed_bytes * HIGHEST_RATIO.get(page.codec, page.unpacked_bytes)
    if page.unpacked_bytes > highest:
        raise CorruptFileError(
            f"A page of {page.packed_bytes} bytes cannot unpack to {page.unpacked_bytes} bytes."
        )
    if page.unpacked_bytes > limit_bytes:
        raise TooLargeError(
            f"A page unpacks to {page.unpacked_bytes} bytes, but the memory budget is "
            f"{limit_bytes} bytes. Open the dataset with a larger memory=."
        )
    if page.codec == UNCOMPRESSED:
        return file.read(page.offset, page.unpacked_bytes)
    packed = file.view(page.offset, page.packed_bytes)
    return unpack_bytes(packed, page.unpacked_bytes, page.codec)


def unpack_bytes(packed: memoryview | bytes, unpacked_bytes: int, codec: int) -> bytes:
    """Return packed bytes unpacked; the caller has checked that the size is reasonable."""
    name = _CODEC_NAMES[codec]
    try:
        unpacked = _unpack_exactly(packed, unpacked_bytes, codec)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"A page cannot be unpacked with {name}: {error}.") from error
    if unpacked is None:
        raise CorruptFileError(f"A {name} page does not unpack to {unpacked_bytes} bytes.")
    return unpacked


def _unpack_exactly(packed: memoryview | bytes, unpacked_bytes: int, codec: int) -> bytes | None:
    # If the stream is shorter, pa.decompress leaves uninitialized memory at the end. Snappy and
    # Zstandard check the length themselves; the other codecs are checked here.
    name = _CODEC_NAMES[codec]
    unpacked: bytes
    if codec in (GZIP, BROTLI):
        with pa.CompressedInputStream(pa.py_buffer(packed), name) as stream:
            unpacked = stream.read(unpacked_bytes + 1)
        return unpacked if len(unpacked) == unpacked_bytes else None
    unpacked = pa.decompress(packed, unpacked_bytes, name, asbytes=True)
    return None if codec == LZ4_RAW and _lz4_fits(packed, unpacked_bytes - 1) else unpacked


def _lz4_fits(packed: memoryview | bytes, size: int) -> bool:
    try:
        pa.decompress(packed, size, _CODEC_NAMES[LZ4_RAW])
    except (pa.ArrowException, OSError):
        return False
    return True


def read_header(
    file: ByteSource, offset: int, stop: int, wanted: Mapping[int, Any]
) -> tuple[dict[int, Any], int]:
    """Return the wanted fields of a page header, and where the page's bytes start.

    Args:
        file: The file.
        offset: Where the header starts.
        stop: Where it ends at the latest.
        wanted: Fields as `read_struct` takes them.

    Raises:
        CorruptFileError: There is no header here, or it goes past ``stop``.
    """
    # Statistics can make a header long, but they rarely do.
    size = _FIRST_HEADER_BYTES
    while True:
        size = min(size, stop - offset)
        try:
            header, length = read_struct(file.read(offset, size), 0, wanted)
        except TruncatedError:
            if size in (stop - offset, _LAST_HEADER_BYTES):
                raise
            size *= 16
        else:
            return header, offset + length


def _page_of(header: dict[int, Any], body: int, codec: int) -> Page | None:
    page_type, unpacked_bytes, packed_bytes = header.get(1), header[2], header[3]
    level_offset, level_bytes = None, 0
    if page_type == _DICTIONARY and 7 in header:
        details = header[7]
        if details.get(2) not in (_PLAIN, _PLAIN_DICTIONARY):
            raise UnfamiliarError
        encoding = _PLAIN
    elif page_type == _DATA and 5 in header:
        details = header[5]
        encoding = details.get(2)
        if details.get(3) != _RLE:
            raise UnfamiliarError
    elif page_type == _DATA_V2 and 8 in header:
        details = header[8]
        encoding = details.get(4)
        level_offset, level_bytes = body, details.get(5, 0)
        if level_bytes < 0 or details.get(6, 0) != 0 or level_bytes > packed_bytes:
            raise CorruptFileError("The levels of a page do not fit in it.")
        body, packed_bytes = body + level_bytes, packed_bytes - level_bytes
        unpacked_bytes = max(unpacked_bytes - level_bytes, 0)
        codec = codec if details.get(7, True) else UNCOMPRESSED
    else:
        return None
    if encoding not in (_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY):
        raise UnfamiliarError
    return Page(
        is_dictionary=page_type == _DICTIONARY,
        num_values=details.get(1, -1),
        has_positions=encoding != _PLAIN,
        level_offset=level_offset,
        level_bytes=level_bytes,
        offset=body,
        packed_bytes=packed_bytes,
        unpacked_bytes=unpacked_bytes,
        codec=codec,
    )
