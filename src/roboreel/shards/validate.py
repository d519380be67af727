"""What is wrong with a shard store, in sentences."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roboreel.errors import DatasetError
from roboreel.shards.features import FeatureType, arrow_schema, normalize_features
from roboreel.shards.manifest import (
    Shard,
    ShardManifest,
    fingerprint_of,
    open_manifest,
    plain_source,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

__all__ = ["file_problems", "validate_shards"]


def validate_shards(
    path: str | os.PathLike[str],
    *,
    features: Mapping[str, object] | None = None,
    source: Mapping[str, Any] | None = None,
    checksums: bool = False,
) -> list[str]:
    """Return what is wrong with a store, one sentence each; nothing for a good one.

    Args:
        path: The folder of the store.
        features: What it should hold; a difference makes it stale.
        source: What it should have been made from; a difference makes it stale.
        checksums: Whether to read every byte, and compare it with what was written.
    """
    root = Path(path)
    try:
        manifest, hold = open_manifest(root)
    except DatasetError as error:
        return [str(error)]
    problems = _staleness(manifest, features, source)
    for shard in manifest.shards:
        problems += _shard_problems(hold.generation / shard.file, shard, manifest, checksums)
    hold.close()
    return [f"{problem} Write the shards again: {str(root)!r}" for problem in problems]


def file_problems(path: Path, shard: Shard) -> list[str]:
    """Return what is wrong with a shard's file as such: whether it is there, and whole."""
    try:
        size_bytes = path.stat().st_size
    except FileNotFoundError:
        return [f"{shard.file} is missing."]
    if size_bytes != shard.size_bytes:
        return [f"{shard.file} has {size_bytes} bytes, {shard.size_bytes} were written."]
    return []


def _shard_problems(
    path: Path, shard: Shard, manifest: ShardManifest, checksums: bool
) -> list[str]:
    problems = file_problems(path, shard)
    if problems:
        return problems
    if checksums and _crc32_of(path) != shard.crc32:
        return [f"{shard.file} holds other bytes than were written."]
    try:
        with pa.memory_map(str(path)) as mapped:
            return _content_problems(pa.ipc.open_file(mapped), shard, manifest.features)
    except (pa.ArrowException, OSError) as error:
        return [f"{shard.file} is no Arrow file ({error})."]


def _content_problems(
    reader: pa.RecordBatchFileReader, shard: Shard, features: Mapping[str, FeatureType]
) -> list[str]:
    if not reader.schema.equals(arrow_schema(features), check_metadata=True):
        return [f"{shard.file} has other columns than meta.json says."]
    rows = [reader.get_batch(batch).num_rows for batch in range(reader.num_record_batches)]
    if rows != list(shard.batch_rows):
        return [f"{shard.file} has {sum(rows)} rows, meta.json says {shard.num_rows}."]
    return []


def _crc32_of(path: Path) -> int:
    crc32 = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc32 = zlib.crc32(block, crc32)
    return crc32


def _staleness(
    manifest: ShardManifest,
    features: Mapping[str, object] | None,
    source: Mapping[str, Any] | None,
) -> list[str]:
    wanted = manifest.features if features is None else normalize_features(features)
    problems = [
        f"Feature {name!r} is stored as {manifest.features.get(name)}, wanted is {wanted.get(name)}."
        for name in {**manifest.features, **wanted}
        if manifest.features.get(name) != wanted.get(name)
    ]
    stored = manifest.source or {}
    if source is not None:
        source = plain_source(source)
        problems += [
            f"The source's {name!r} was {stored.get(name)!r}, and is {source.get(name)!r} now."
            for name in {**stored, **source}
            if stored.get(name) != source.get(name)
        ]
    expected = fingerprint_of(wanted, manifest.source if source is None else source)
    if not problems and expected != manifest.fingerprint:
        problems.append("The order of the features, or the version of the encoder, was another.")
    return problems
