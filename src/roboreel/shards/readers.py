"""Record batches of mapped files and of tables in memory."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError, MissingFileError
from roboreel.io.mapped import MappedFile
from roboreel.shards.publish import META_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Sequence as Items
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.shards.manifest import Shard

_BLOCK_BYTES = 8 * 1024**2


class TableReader:
    """The batches of a table in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._batches = table.to_batches()
        self.batch_rows = [batch.num_rows for batch in self._batches]

    def read(self, batch: int) -> pa.RecordBatch:
        """Return one batch."""
        return self._batches[batch]

    def prefetch(self, extents: Iterable[tuple[int, int]]) -> None:
        """Do nothing: the table is in memory."""

    def mapped(self) -> None:
        """Return None: batches lie anywhere."""

    def close(self) -> None:
        """Do nothing: there is no file."""

    def __str__(self) -> str:
        return "a table in memory"


class MappedShard:
    """An Arrow IPC file or stream, mapped on first use."""

    def __init__(self, path: Path, shard: Shard | None = None) -> None:
        """Take the path and what the manifest says; without the latter, the file is opened now."""
        self._path = path
        self._expected = shard
        self._open: _OpenFile | None = None
        self.batch_rows: Items[int] = shard.batch_rows if shard else self._count_rows()

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are stored."""
        return self._opened().batches.schema

    def read(self, batch: int) -> pa.RecordBatch:
        """Return one batch; its structure is checked, its values are not read."""
        batches = self._opened().batches
        try:
            found = batches.get_batch(batch)
            found.validate()
        except (pa.ArrowException, OSError) as error:
            raise self._corrupt(
                f"Batch {batch} of {self._name} cannot be read ({error})"
            ) from error
        rows, expected = found.num_rows, self.batch_rows[batch]
        if rows != expected:
            raise self._corrupt(
                f"Batch {batch} of {self._name} has {rows} rows, {META_FILE} says {expected}"
            )
        return found

    def check(self, schema: pa.Schema, crc32: int | None = None) -> None:
        """Check every batch, and every byte if a checksum is given.

        Raises:
            MissingFileError: The file is missing.
            CorruptFileError: It is not what was written.
        """
        file = self._opened().file
        if crc32 is not None and _crc32_of(file) != crc32:
            raise self._corrupt(f"{self._name} holds other bytes than were written")
        if not self.schema.equals(schema, check_metadata=True):
            raise self._corrupt(f"{self._name} has other columns than {META_FILE} says")
        for batch in range(len(self.batch_rows)):
            self.read(batch)

    def prefetch(self, extents: Iterable[tuple[int, int]]) -> None:
        """Start fetching memory of the map from the disk, all of it together."""
        opened = self._open
        if opened is None:
            return
        # Batches of an earlier map, or compressed ones, have their bytes elsewhere.
        offsets = ((address - opened.address, length) for address, length in extents)
        size_bytes = opened.file.size_bytes
        opened.file.prefetch(extent for extent in offsets if 0 <= extent[0] < size_bytes)

    def mapped(self) -> tuple[int, NDArray[np.uint8]]:
        """Return address and bytes of the map."""
        opened = self._opened()
        data = np.frombuffer(opened.file.view(0, opened.file.size_bytes), np.uint8)
        return opened.address, data

    def close(self) -> None:
        """Drop the map; it stays alive as long as a batch refers to it."""
        self._open = None

    def _opened(self) -> _OpenFile:
        opened = self._open
        if opened is None:
            opened = self._open = self._map()
        return opened

    def _map(self) -> _OpenFile:
        try:
            file = MappedFile(self._path)
        except MissingFileError as error:
            raise MissingFileError(self._say(f"{self._name} is missing")) from error
        expected = self._expected
        if expected is not None and file.size_bytes != expected.size_bytes:
            raise self._corrupt(
                f"{self._name} has {file.size_bytes} bytes, {expected.size_bytes} were written"
            )
        try:
            opened = _OpenFile(file)
        except (pa.ArrowException, OSError) as error:
            raise self._corrupt(f"{self._name} is not an Arrow file ({error})") from error
        count = opened.batches.num_record_batches
        if expected is not None and count != len(expected.batch_rows):
            raise self._corrupt(
                f"{self._name} has {count} batches, {META_FILE} says {len(expected.batch_rows)}"
            )
        return opened

    def _count_rows(self) -> list[int]:
        batches = self._opened().batches
        return [batches.get_batch(batch).num_rows for batch in range(batches.num_record_batches)]

    def __str__(self) -> str:
        return repr(str(self._path))

    @property
    def _name(self) -> str:
        return self._path.name

    def _corrupt(self, reason: str) -> CorruptFileError:
        return CorruptFileError(self._say(reason))

    def _say(self, reason: str) -> str:
        return f"{reason}. Write the shards again: {str(self._path)!r}"


class _OpenFile:
    """A mapped file and its batches."""

    def __init__(self, file: MappedFile) -> None:
        self.file = file
        buffer = pa.py_buffer(file.view(0, file.size_bytes))
        self.address = buffer.address
        is_file = file.read(0, min(6, file.size_bytes)) == b"ARROW1"
        self.batches = pa.ipc.open_file(buffer) if is_file else _Stream(buffer)


class _Stream:
    """An IPC stream with the interface of an IPC file; a stream has no index of its batches."""

    def __init__(self, buffer: pa.Buffer) -> None:
        reader = pa.ipc.open_stream(buffer)
        self.schema = reader.schema
        self._batches = list(reader)
        self.num_record_batches = len(self._batches)

    def get_batch(self, batch: int) -> pa.RecordBatch:
        return self._batches[batch]


BatchReader = TableReader | MappedShard
"""Reads record batches by number; `str` of it names the file in errors."""


def _crc32_of(file: MappedFile) -> int:
    crc32 = 0
    for start in range(0, file.size_bytes, _BLOCK_BYTES):
        size_bytes = min(_BLOCK_BYTES, file.size_bytes - start)
        file.prefetch([(start, size_bytes)])  # Otherwise the map would be read page by page.
        crc32 = zlib.crc32(file.view(start, size_bytes), crc32)
    return crc32
