"""The pages of a Parquet file, found by walking from header to header without a footer."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.pages import read_header
from roboreel.parquet.extents.thrift import BOOL, INT, TruncatedError

if TYPE_CHECKING:
    from roboreel.io.mapped import MappedFile

__all__ = ["MAX_PAGES", "PLAIN", "StoredPage", "Walk", "read_page", "walk_pages"]

MAX_PAGES = 2**19
"""A file with more pages is not walked. LeRobot's files of 100 MB have some thousands."""

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_TYPE, _UNPACKED, _PACKED, _CRC = 1, 2, 3, 4
_DETAILS = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
# What we read of Parquet's PageHeader, by the field numbers of its specification.
_PAGE_HEADER = {
    **dict.fromkeys((_TYPE, _UNPACKED, _PACKED, _CRC), INT),
    _DETAILS[_DATA]: dict.fromkeys((1, 2, 3, 4), INT),
    _DETAILS[_DICTIONARY]: {1: INT, 2: INT},
    _DETAILS[_DATA_V2]: {**dict.fromkeys((1, 2, 3, 4, 5, 6), INT), 7: BOOL},
}


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One page, as its header describes it."""

    start: int
    """Offset of the header in the file."""
    body: int
    """Offset of the bytes after the header."""
    stop: int
    unpacked_bytes: int
    """Size of the body when it is unpacked."""
    is_dictionary: bool
    num_values: int
    """Nulls included."""
    encoding: int
    """Parquet's number of how the values are encoded."""
    num_rows: int | None = None
    """Rows that the header declares; None in version 1, where headers do not."""
    repetition_bytes: int = 0
    definition_bytes: int = 0
    is_packed: bool = True
    """Whether the values of a version 2 page are compressed at all."""

    @property
    def has_positions(self) -> bool:
        """Whether the values are positions in the chunk's dictionary."""
        return not self.is_dictionary and self.encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY)

    @property
    def is_version_2(self) -> bool:
        """Whether the levels lie before the packed bytes, rather than among them."""
        return self.num_rows is not None


@dataclass(frozen=True, slots=True)
class Walk:
    """The whole pages at the start of a file."""

    pages: tuple[StoredPage, ...]
    stop: int
    """Offset right after the last whole page."""
    reason: str
    """Why there are no more pages, as a clause: ``"the file ends inside a page"``."""


def walk_pages(file: MappedFile, start: int) -> Walk:
    """Return the pages from an offset on, up to the first bytes that are not a whole page.

    Raises:
        CorruptFileError: There are more than `MAX_PAGES` pages.
    """
    pages: list[StoredPage] = []
    offset, reason = start, "the file ends after a page"
    while offset < file.size_bytes:
        if len(pages) == MAX_PAGES:
            raise CorruptFileError(
                f"The file has more than {MAX_PAGES:,} pages and is not rebuilt: {str(file.path)!r}."
            )
        try:
            page = read_page(file, offset, file.size_bytes)
        except TruncatedError:
            reason = "the file ends inside a page"
            break
        except CorruptFileError as error:
            reason = f"no page follows ({str(error).rstrip('.')})"
            break
        pages.append(page)
        offset = page.stop
    return Walk(tuple(pages), offset, reason)


def read_page(file: MappedFile, offset: int, stop: int) -> StoredPage:
    """Return the page at an offset, after comparing its checksum if it has one.

    Raises:
        TruncatedError: The page goes past ``stop``.
        CorruptFileError: There is no page here, or it is damaged.
    """
    header, body = read_header(file, offset, stop, _PAGE_HEADER)
    packed_bytes, unpacked_bytes = header.get(_PACKED, -1), header.get(_UNPACKED, -1)
    details = header.get(_DETAILS.get(header.get(_TYPE, -1), -1))
    if details is None or packed_bytes < 0 or not 0 <= unpacked_bytes < 2**31:
        raise CorruptFileError(f"byte {offset:,} does not start a page header")
    if body + packed_bytes > stop:
        raise TruncatedError(f"the page at byte {offset:,} goes past the end")
    _check_crc(file, header, body, packed_bytes, offset)
    make = _page_v2 if header[_TYPE] == _DATA_V2 else _page_v1
    page = make(details, offset, body, body + packed_bytes, unpacked_bytes)
    if header[_TYPE] == _DICTIONARY:
        return _dictionary(page)
    return page


def _page_v1(
    details: dict[int, Any], start: int, body: int, stop: int, unpacked_bytes: int
) -> StoredPage:
    if details.get(3, RLE) != RLE or details.get(4, RLE) != RLE:
        raise CorruptFileError(f"the page at byte {start:,} has levels in a deprecated encoding")
    return StoredPage(
        start,
        body,
        stop,
        unpacked_bytes,
        is_dictionary=False,
        num_values=_count(details, 1, start),
        encoding=_count(details, 2, start),
    )


def _page_v2(
    details: dict[int, Any], start: int, body: int, stop: int, unpacked_bytes: int
) -> StoredPage:
    page = StoredPage(
        start,
        body,
        stop,
        unpacked_bytes,
        is_dictionary=False,
        num_values=_count(details, 1, start),
        encoding=_count(details, 4, start),
        num_rows=_count(details, 3, start),
        repetition_bytes=_count(details, 6, start),
        definition_bytes=_count(details, 5, start),
        is_packed=details.get(7, True),
    )
    level_bytes = page.repetition_bytes + page.definition_bytes
    if level_bytes > min(stop - body, unpacked_bytes):
        raise CorruptFileError(f"the levels of the page at byte {start:,} do not fit in it")
    return page


def _dictionary(page: StoredPage) -> StoredPage:
    if page.encoding not in (PLAIN, PLAIN_DICTIONARY):
        raise CorruptFileError(f"the dictionary at byte {page.start:,} has an unknown encoding")
    return StoredPage(
        page.start,
        page.body,
        page.stop,
        page.unpacked_bytes,
        is_dictionary=True,
        num_values=page.num_values,
        encoding=page.encoding,
    )


def _count(details: dict[int, Any], number: int, start: int) -> int:
    value = int(details.get(number, -1))
    if not 0 <= value < 2**31:
        raise CorruptFileError(f"the header of the page at byte {start:,} is incomplete")
    return value


def _check_crc(
    file: MappedFile, header: dict[int, Any], body: int, packed_bytes: int, start: int
) -> None:
    stored = header.get(_CRC)
    if stored is not None and zlib.crc32(file.view(body, packed_bytes)) != stored & 0xFFFFFFFF:
        raise CorruptFileError(f"the checksum of the page at byte {start:,} is wrong")
