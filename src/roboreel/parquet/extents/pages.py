"""The pages of a Parquet file: their headers and their unpacked bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roboreel.errors import CorruptFileError, TooLargeError
from roboreel.parquet.extents.thrift import BOOL, INT, TruncatedError, read_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.io.mapped import MappedFile
    from roboreel.parquet.extents.chunks import Chunk


UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW = 0, 1, 2, 4, 6, 7
CODECS = (UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW)
"""The compressions that `unpack` knows."""
_CODEC_NAMES = {SNAPPY: "snappy", GZIP: "gzip", BROTLI: "brotli", ZSTD: "zstd", LZ4_RAW: "lz4_raw"}
HIGHEST_RATIO = {UNCOMPRESSED: 1, SNAPPY: 22, GZIP: 1040, LZ4_RAW: 256}
"""The most unpacked bytes per packed byte; Brotli and Zstandard have no such limit."""

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
_ENCODINGS = (PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY)
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3

_FIRST_HEADER_BYTES = 256
_LAST_HEADER_BYTES = 16 * 1024**2

# What we read of Parquet's PageHeader, by the field numbers of its specification.
_TYPE, _UNPACKED, _PACKED, _CRC = 1, 2, 3, 4
_DETAILS = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
_PAGE_HEADER = {
    **dict.fromkeys((_TYPE, _UNPACKED, _PACKED, _CRC), INT),
    _DETAILS[_DATA]: dict.fromkeys((1, 2, 3, 4), INT),
    _DETAILS[_DICTIONARY]: {1: INT, 2: INT},
    _DETAILS[_DATA_V2]: {**dict.fromkeys((1, 2, 3, 4, 5, 6), INT), 7: BOOL},
}


class UnfamiliarError(Exception):
    """A chunk is written in a way that we leave to pyarrow."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page, as its header describes it."""

    start: int
    """Offset of the header in the file."""
    body: int
    """Offset of the bytes after the header."""
    stop: int
    """Offset right after the page."""
    body_bytes: int
    """Size of the body when it is unpacked, levels included."""
    is_dictionary: bool
    num_values: int
    """Nulls included."""
    encoding: int
    """Parquet's number of how the values are encoded."""
    codec: int = UNCOMPRESSED
    """Parquet's number of the compression."""
    crc: int | None = None
    """Checksum of the body."""
    level_encodings: tuple[int, int] = (RLE, RLE)
    """Of the definition levels, and of the repetition levels."""
    is_packed: bool = True
    """Whether the values of a version 2 page are compressed at all."""
    num_rows: int | None = None
    """Rows that the header declares; None in version 1, where headers do not."""
    repetition_bytes: int = 0
    definition_bytes: int = 0
    """Before the packed bytes, in version 2; in version 1 the levels are among them."""

    @property
    def has_positions(self) -> bool:
        """Whether the values are positions in the chunk's dictionary."""
        return not self.is_dictionary and self.encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY)

    @property
    def is_version_2(self) -> bool:
        """Whether the levels lie before the packed bytes, rather than among them."""
        return self.num_rows is not None

    @property
    def offset(self) -> int:
        """Offset of the packed bytes in the file."""
        return self.body + self.repetition_bytes + self.definition_bytes

    @property
    def packed_bytes(self) -> int:
        """Size of the packed bytes."""
        return self.stop - self.offset

    @property
    def unpacked_bytes(self) -> int:
        """What they unpack to."""
        return self.body_bytes - self.repetition_bytes - self.definition_bytes


def page_sizes(file: MappedFile, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the values and the unpacked bytes of the pages of a chunk, whatever they hold.

    Raises:
        CorruptFileError: A header is damaged.
    """
    while start < stop:
        header, body = _read_header(file, start, stop)
        details = header.get(_DETAILS[_DATA]) or header.get(_DETAILS[_DATA_V2]) or {}
        yield max(details.get(1, 0), 0), header.get(_UNPACKED, 0)
        start = body + max(header.get(_PACKED, 0), 0)


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
        page = read_page(file, offset, chunk.stop, chunk.codec)
        offset = page.stop
        if page.encoding not in _ENCODINGS or page.level_encodings[0] != RLE:
            raise UnfamiliarError
        if page.codec == UNCOMPRESSED and page.unpacked_bytes > page.packed_bytes:
            raise CorruptFileError("An uncompressed page is truncated.")
        if not page.is_dictionary:
            values_left -= page.num_values
        if values_left < 0:
            raise CorruptFileError(
                f"A page holds {page.num_values} values, more than rows are left."
            )
        yield page


def read_page(file: MappedFile, offset: int, stop: int, codec: int = UNCOMPRESSED) -> Page:
    """Return the page at an offset.

    Raises:
        TruncatedError: The page goes past ``stop``.
        CorruptFileError: There is no page here, or its header is damaged.
    """
    header, body = _read_header(file, offset, stop)
    packed_bytes, body_bytes = header.get(_PACKED, -1), header.get(_UNPACKED, -1)
    details = header.get(_DETAILS.get(header.get(_TYPE, -1), -1))
    if details is None or packed_bytes < 0 or not 0 <= body_bytes < 2**31:
        raise CorruptFileError(f"byte {offset:,} does not start a page header")
    if body + packed_bytes > stop:
        raise TruncatedError(f"the page at byte {offset:,} goes past the end")
    is_version_2 = header[_TYPE] == _DATA_V2
    is_packed = details.get(7, True) if is_version_2 else True
    page = Page(
        offset,
        body,
        body + packed_bytes,
        body_bytes,
        is_dictionary=header[_TYPE] == _DICTIONARY,
        num_values=details.get(1, -1),
        encoding=details.get(4 if is_version_2 else 2, -1),
        codec=codec if is_packed else UNCOMPRESSED,
        crc=header.get(_CRC),
        level_encodings=(RLE, RLE) if is_version_2 else (details.get(3, RLE), details.get(4, RLE)),
        is_packed=is_packed,
        num_rows=details.get(3, -1) if is_version_2 else None,
        repetition_bytes=details.get(6, 0) if is_version_2 else 0,
        definition_bytes=details.get(5, 0) if is_version_2 else 0,
    )
    counts = (page.num_values, page.num_rows or 0, page.repetition_bytes, page.definition_bytes)
    if min(counts) < 0 or page.offset > page.stop or page.unpacked_bytes < 0:
        raise CorruptFileError(f"the header of the page at byte {offset:,} contradicts itself")
    return page


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


def _read_header(file: MappedFile, offset: int, stop: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a page header, and where the page's bytes start.

    Raises:
        CorruptFileError: There is no header here, or it goes past ``stop``.
    """
    # Statistics can make a header long, but they rarely do.
    size = _FIRST_HEADER_BYTES
    while True:
        size = min(size, stop - offset)
        try:
            header, length = read_struct(file.read(offset, size), 0, _PAGE_HEADER)
        except TruncatedError:
            if size in (stop - offset, _LAST_HEADER_BYTES):
                raise
            size *= 16
        else:
            return header, offset + length
