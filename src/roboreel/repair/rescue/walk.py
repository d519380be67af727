"""The pages of a Parquet file, found by walking from header to header without a footer."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.pages import PLAIN, PLAIN_DICTIONARY, RLE, Page, read_page
from roboreel.parquet.extents.thrift import TruncatedError

if TYPE_CHECKING:
    from roboreel.io.mapped import MappedFile


MAX_PAGES = 2**19
"""A file with more pages is not walked. LeRobot's files of 100 MB have some thousands."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The whole pages at the start of a file."""

    pages: tuple[Page, ...]
    stop: int
    """Offset right after the last whole page."""
    reason: str
    """Why there are no more pages, as a clause: ``"the file ends inside a page"``."""


def walk_pages(file: MappedFile, start: int) -> Walk:
    """Return the pages from an offset on, up to the first bytes that are not a whole page.

    Raises:
        CorruptFileError: There are more than `MAX_PAGES` pages.
    """
    pages: list[Page] = []
    offset, reason = start, "the file ends after a page"
    while offset < file.size_bytes:
        if len(pages) == MAX_PAGES:
            raise CorruptFileError(
                f"The file has more than {MAX_PAGES:,} pages and is not rebuilt: {str(file.path)!r}."
            )
        try:
            page = sound_page(file, offset, file.size_bytes)
        except TruncatedError:
            reason = "the file ends inside a page"
            break
        except CorruptFileError as error:
            reason = f"no page follows ({str(error).rstrip('.')})"
            break
        pages.append(page)
        offset = page.stop
    return Walk(tuple(pages), offset, reason)


def sound_page(file: MappedFile, offset: int, stop: int) -> Page:
    """Return the page at an offset, after comparing its checksum if it has one.

    Raises:
        TruncatedError: The page goes past ``stop``.
        CorruptFileError: There is no page here, or it is damaged.
    """
    page = read_page(file, offset, stop)
    body = file.view(page.body, page.stop - page.body)
    if page.crc is not None and zlib.crc32(body) != page.crc & 0xFFFFFFFF:
        raise CorruptFileError(f"the checksum of the page at byte {offset:,} is wrong")
    if page.level_encodings != (RLE, RLE):
        raise CorruptFileError(f"the page at byte {offset:,} has levels in a deprecated encoding")
    if page.is_dictionary and page.encoding not in (PLAIN, PLAIN_DICTIONARY):
        raise CorruptFileError(f"the dictionary at byte {offset:,} has an unknown encoding")
    return page
