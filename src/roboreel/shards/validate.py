"""Find what is wrong with a shard store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.errors import DatasetError
from roboreel.shards.arrow import arrow_schema
from roboreel.shards.features import normalize_features
from roboreel.shards.manifest import ShardManifest, fingerprint_of, open_manifest, plain_source
from roboreel.shards.readers import MappedShard

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def validate_shards(
    path: str | os.PathLike[str],
    *,
    features: Mapping[str, object] | None = None,
    source: Mapping[str, Any] | None = None,
    checksums: bool = False,
) -> list[str]:
    """Return what is wrong with a store, one sentence each; an empty list if nothing is.

    Args:
        path: The folder of the store.
        features: The features it should have; if they differ, the store is stale.
        source: What it should have been made from; if that differs, the store is stale.
        checksums: Whether to read every byte and compare it with what was written.
    """
    root = Path(path)
    try:
        manifest, hold = open_manifest(root)
    except DatasetError as error:
        return [str(error)]
    with closing(hold):
        problems = [
            f"{problem} Write the shards again: {str(root)!r}"
            for problem in _staleness(manifest, features, source)
        ]
        schema = arrow_schema(manifest.features)
        for shard in manifest.shards:
            reader = MappedShard(hold.generation / shard.file, shard)
            try:
                reader.check(schema, shard.crc32 if checksums else None)
            except DatasetError as error:
                problems.append(str(error))
    return problems


def _staleness(
    manifest: ShardManifest,
    features: Mapping[str, object] | None,
    source: Mapping[str, Any] | None,
) -> list[str]:
    wanted = manifest.features if features is None else normalize_features(features)
    problems = [
        f"Feature {name!r} is {manifest.features.get(name)} in the store, not {wanted.get(name)}."
        for name in {**manifest.features, **wanted}
        if manifest.features.get(name) != wanted.get(name)
    ]
    stored = manifest.source or {}
    if source is not None:
        source = plain_source(source)
        problems += [
            f"The source's {name!r} was {stored.get(name)!r} and is now {source.get(name)!r}."
            for name in {**stored, **source}
            if stored.get(name) != source.get(name)
        ]
    expected = fingerprint_of(wanted, manifest.source if source is None else source)
    if not problems and expected != manifest.fingerprint:
        problems.append("The order of the features or the version of the encoder has changed.")
    return problems
