"""Write a stream of examples as a folder of Arrow shards."""

from __future__ import annotations

import os
import zlib
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa

from roboreel.cores import usable_cores
from roboreel.errors import DatasetError
from roboreel.files import write_atomically
from roboreel.io.budget import parse_size
from roboreel.shards.arrow import arrow_schema
from roboreel.shards.examples import ExampleEncoder
from roboreel.shards.features import FeatureType, normalize_features
from roboreel.shards.manifest import (
    Shard,
    ShardManifest,
    fingerprint_of,
    open_manifest,
    plain_source,
)
from roboreel.shards.publish import META_FILE, new_generation, publishing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

_MOST_THREADS = 8
_MAX_BATCH_BYTES = 64 * 1024**2
"""A batch of large examples ends at this size, since it is held in memory."""


class WriteOptions(TypedDict, total=False):
    """How shards are written: see `write_shards`."""

    shard_size: int | str
    batch_size: int
    overwrite: bool
    threads: int | None
    missing_as_null: bool


def write_shards(
    examples: Iterable[Mapping[str, object] | tuple[object, Mapping[str, object]]],
    features: Mapping[str, object],
    path: str | os.PathLike[str],
    *,
    shard_size: int | str = "256MB",
    batch_size: int = 1000,
    source: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    missing_as_null: bool = False,
) -> ShardManifest:
    """Write examples as a store of Arrow shards, and return its manifest.

    The new store replaces what the folder held in one step, once everything is on disk. Until then,
    and if ``examples`` raises, the disk is full or the process dies, the old store stays; readers
    that have it open keep reading it. A second writer waits for the first.

    With a ``source``, nothing is written twice: if the folder already holds a store with the same
    features, encoder version and source, its manifest is returned and ``examples`` is not touched.
    Without one, every call writes.

    Args:
        examples: Dicts with a value for every feature; None for a missing value. Pairs of a key
            and such a dict are taken too; the keys are dropped.
        features: The features by name: `Value`, `ClassLabel`, `Array`, `Sequence`, `Image`,
            `VideoPath`, a dtype name, a list of one feature, or a dict of features.
        path: The folder, made if need be. A folder that holds other files is refused.
        shard_size: The size of a file; the next one starts before it is exceeded.
        batch_size: Rows per record batch. About two batches are held in memory. A batch also ends
            at 64 MiB.
        source: What the examples were made from, in JSON types: files with sizes and times,
            parameters, seeds.
        overwrite: Write even if the same store is there.
        threads: Threads that encode images; by default one per core, up to 8.
        missing_as_null: Store None where an example lacks a feature, instead of refusing it.

    Raises:
        ExampleError: An example does not fit the features.
        ValueError: The folder holds other files, or a size is invalid.
    """
    declared = normalize_features(features)
    limit_bytes = checked_limits(shard_size, batch_size)
    encoder = partial(
        ExampleEncoder,
        declared,
        threads=threads or min(usable_cores(), _MOST_THREADS),
        missing_as_null=missing_as_null,
    )
    return publish_batches(
        lambda: _batches(examples, encoder, batch_size, min(limit_bytes, _MAX_BATCH_BYTES)),
        declared,
        Path(path),
        source=source,
        limit_bytes=limit_bytes,
        overwrite=overwrite,
    )


def write_arrays(
    blocks: Callable[[], Iterable[Mapping[str, NDArray[Any]]]],
    features: Mapping[str, object],
    path: Path,
    *,
    shard_size: int | str = "256MB",
    source: Mapping[str, Any] | None = None,
) -> ShardManifest:
    """Write blocks of numbers as a store, like `write_shards`, without a step per row.

    Args:
        blocks: Returns arrays ``(N, …)`` by feature, a record batch each; called once it is known
            that they are needed.
        features: `Value` or `Array` by name, with the shapes and dtypes of the arrays.
        path: The folder.
        shard_size: The size of a file.
        source: What the blocks were made from; see `write_shards`.
    """
    declared = normalize_features(features)
    schema = arrow_schema(declared)
    return publish_batches(
        lambda: (_batch_of(block, schema) for block in blocks()),
        declared,
        path,
        source=source,
        limit_bytes=checked_limits(shard_size),
        overwrite=False,
    )


def _batch_of(block: Mapping[str, NDArray[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        values, wanted = np.ascontiguousarray(block[field.name]), field.type
        if pa.types.is_fixed_size_list(wanted):
            flat = pa.array(values.reshape(-1), wanted.value_type)
            columns.append(pa.FixedSizeListArray.from_arrays(flat, type=wanted))
        else:
            columns.append(pa.array(values, wanted))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def table_of(examples: Iterable[Mapping[str, object]], features: Mapping[str, object]) -> pa.Table:
    """Return examples as a table in memory, in the form in which they would be written."""
    declared = normalize_features(features)
    encoder = partial(ExampleEncoder, declared, threads=1)
    batches = _batches(examples, encoder, 1000, _MAX_BATCH_BYTES)
    return pa.Table.from_batches(batches, arrow_schema(declared))


def publish_batches(
    batches: Callable[[], Iterable[pa.RecordBatch]],
    features: Mapping[str, FeatureType],
    root: Path,
    *,
    source: Mapping[str, Any] | None,
    limit_bytes: int,
    overwrite: bool,
) -> ShardManifest:
    """Write record batches as the new content of a folder, unless it is there: see `write_shards`.

    Args:
        batches: Returns the batches; called once it is known that they are needed.
        features: The features of their columns.
        root: The folder.
        source: What the batches follow from.
        limit_bytes: The size of a file.
        overwrite: Write even if the same store is there.
    """
    source = None if source is None else plain_source(source)
    fingerprint = fingerprint_of(features, source)
    reusable = source is not None and not overwrite
    if reusable and (found := _find(root, fingerprint)):
        return found
    with publishing(root):
        # Checked again: another process may have written it while this one waited for the lock.
        if reusable and (found := _find(root, fingerprint)):
            return found
        with new_generation(root, None if source is None else fingerprint) as folder:
            shards = _write_batches(batches(), arrow_schema(features), folder, limit_bytes)
            manifest = ShardManifest(features, shards, fingerprint, source)
            write_atomically(folder / META_FILE, manifest.to_json())
    return manifest


def checked_limits(shard_size: int | str, batch_size: int = 1) -> int:
    """Return the size of a shard in bytes; raises ValueError if it or a batch is empty."""
    limit_bytes = parse_size(shard_size)
    if limit_bytes < 1 or batch_size < 1:
        raise ValueError(
            f"shard_size and batch_size must be at least 1, not {shard_size!r} and {batch_size!r}."
        )
    return limit_bytes


def _find(root: Path, fingerprint: str) -> ShardManifest | None:
    """Return the manifest of a complete store with this fingerprint."""
    try:
        manifest, hold = open_manifest(root)
    except DatasetError:
        return None
    with closing(hold):
        paths = [hold.generation / shard.file for shard in manifest.shards]
        sizes = [path.stat().st_size if path.exists() else None for path in paths]
    is_complete = sizes == [shard.size_bytes for shard in manifest.shards]
    return manifest if is_complete and manifest.fingerprint == fingerprint else None


def _batches(
    examples: Iterable[object],
    make_encoder: Callable[[], ExampleEncoder],
    batch_size: int,
    limit_bytes: int,
) -> Iterator[pa.RecordBatch]:
    with make_encoder() as encoder:
        for example in examples:
            encoder.add(example)
            if encoder.num_rows >= batch_size or encoder.size_bytes >= limit_bytes:
                yield encoder.batch()
        if encoder.num_rows:
            yield encoder.batch()


def _write_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path, limit_bytes: int
) -> tuple[Shard, ...]:
    """Write batches to shards; each shard is synced to disk before the next starts."""
    shards: list[Shard] = []
    file: ShardFile | None = None
    try:
        for batch in batches:
            if file is not None and file.size_bytes + batch.nbytes > limit_bytes:
                shards.append(file.finish())
                file = None
            if file is None:
                file = ShardFile(folder / f"shard-{len(shards):05d}.arrow", schema)
            file.write_batch(batch)
            del batch  # Before the next one is built, so that only one is in memory.
        if file is not None:
            shards.append(file.finish())
    finally:
        if file is not None:
            file.close()
    return tuple(shards)


class ShardFile:
    """An Arrow IPC file being written; computes its size and checksum on the way."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.size_bytes = 0
        self._path = path
        self._crc32 = 0
        self._batch_rows: list[int] = []
        self._file = path.open("wb")
        self._writer = pa.ipc.new_file(self, schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append one batch."""
        self._writer.write_batch(batch)
        self._batch_rows.append(batch.num_rows)

    def finish(self) -> Shard:
        """Write the footer, sync to disk, and return what was written."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return Shard(self._path.name, tuple(self._batch_rows), self.size_bytes, self._crc32)

    def write(self, data: Any) -> int:  # noqa: ANN401  # an Arrow buffer, or bytes
        """Append bytes; called by Arrow."""
        written = self._file.write(data)
        self._crc32 = zlib.crc32(data, self._crc32)
        self.size_bytes += written
        return written

    @property
    def closed(self) -> bool:
        """Whether the file is closed; asked by Arrow."""
        return self._file.closed

    def flush(self) -> None:
        """Do nothing: `finish` flushes."""

    def close(self) -> None:
        """Close the file, finished or not."""
        self._file.close()
