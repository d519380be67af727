"""Parts of a page's unpacked bytes, unpacking as little as its compression allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError
from roboreel.parquet.extents.literals import BLOCK_BYTES, LiteralMap
from roboreel.parquet.extents.pages import SNAPPY, UNCOMPRESSED, unpack_bytes
from roboreel.parquet.extents.snappy import scan_snappy
from roboreel.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.io.mapped import MappedFile
    from roboreel.parquet.extents.pages import Page


_CHEAP_PAGE_BYTES = 4 * 1024**2
"""Smaller pages with dense tags are unpacked whole. Scanning takes 16 s per GB, once; unpacking is
much faster, but is repeated whenever the budget has evicted the page."""
_SPARSE_TAG_BYTES = 1024
"""From this many unpacked bytes per tag, on average, scanning is always worth it."""


class PageReader:
    """Reads a page while it is indexed; unpacks all of it only if necessary."""

    def __init__(self, file: MappedFile, page: Page, load_whole: Callable[[Page], bytes]) -> None:
        self.page = page
        self._file = file
        self._load_whole = load_whole
        self._recent = (0, b"")
        self.is_verbatim = page.codec == UNCOMPRESSED
        """Whether the file holds the page uncompressed."""
        self.literals = None if self.is_verbatim else self._map_literals()

    @property
    def blocks(self) -> NDArray[np.int64] | None:
        """Offsets of the page's Snappy blocks, if single blocks can be unpacked."""
        return None if self.literals is None else self.literals.blocks

    def read(self, position: int, length: int) -> bytes:
        """Return ``length`` unpacked bytes of the page, from ``position`` on."""
        if position < 0 or length < 0 or position + length > self.page.unpacked_bytes:
            raise CorruptFileError(
                f"A value of {length} bytes at {position} does not fit in its page "
                f"of {self.page.unpacked_bytes} bytes."
            )
        if self.is_verbatim:
            return self._file.read(self.page.offset + position, length)
        if self.literals is not None:
            offset = self.literals.offset_of(position, length)
            if offset is not None:
                return self._file.read(offset, length)
            if self.literals.blocks is not None:
                return self._read_in_blocks(self.literals.blocks, position, length)
        return self._load_whole(self.page)[position : position + length]

    def _read_in_blocks(self, blocks: NDArray[np.int64], position: int, length: int) -> bytes:
        # Short reads go through the page in order: the last block nearly always serves the next.
        base, unpacked = self._recent
        if not base <= position <= position + length <= base + len(unpacked):
            base = position - position % BLOCK_BYTES
            stop = min(base + BLOCK_BYTES, self.page.unpacked_bytes)
            stop = max(stop, position + length)
            part = read_blocks(self._file, self.page, blocks, base, stop - base)
            if part is None:
                base, part = 0, self._load_whole(self.page)
            unpacked = part
            self._recent = base, unpacked
        return unpacked[position - base : position - base + length]

    def _map_literals(self) -> LiteralMap | None:
        page = self.page
        if page.unpacked_bytes == 0:
            return None
        self._file.prefetch([(page.offset, page.packed_bytes)])
        if page.codec == SNAPPY:
            dense_is_fine = page.unpacked_bytes > _CHEAP_PAGE_BYTES
            most_tags = 64 + page.unpacked_bytes // (1 if dense_is_fine else _SPARSE_TAG_BYTES)
            return scan_snappy(
                self._file, page.offset, page.stop, page.unpacked_bytes, most_tags=most_tags
            )
        return None


def read_blocks(
    file: MappedFile, page: Page, blocks: NDArray[np.int64], position: int, length: int
) -> bytes | None:
    """Return bytes of a Snappy page, unpacking only the 64 KB blocks that hold them.

    Returns:
        None if a block refers to an earlier one, which no usual compressor writes.
    """
    first, last = position // BLOCK_BYTES, (position + length - 1) // BLOCK_BYTES
    start, stop = blocks.item(first), blocks.item(last + 1)
    base = first * BLOCK_BYTES
    unpacked_bytes = min((last + 1) * BLOCK_BYTES, page.unpacked_bytes) - base
    packed = encode_varint(unpacked_bytes) + file.read(start, stop - start)
    try:
        unpacked = unpack_bytes(packed, unpacked_bytes, SNAPPY)
    except CorruptFileError:
        return None
    return unpacked[position - base : position - base + length]
