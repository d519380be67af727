"""What is known of a shard store without opening a shard: ``meta.json``."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    MetadataError,
    MissingFileError,
    UnsafePathError,
    UnsupportedVersionError,
)
from roboreel.io.reading import read_file
from roboreel.shards.features import FeatureType, features_from_json, features_to_json
from roboreel.shards.publish import META_FILE, SHARD_NAME, Hold, hold_generation

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

LAYOUT_VERSION = 1
"""The files of a store and the keys of ``meta.json``; raise it when old code cannot read them."""

ENCODER_VERSION = 1
"""How values become bytes; raise it when the same example would be stored differently."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a store."""

    file: str
    batch_rows: tuple[int, ...]
    """Rows of each record batch, so that rows are found without opening the file."""
    size_bytes: int
    crc32: int

    @property
    def num_rows(self) -> int:
        """Rows of all its batches."""
        return sum(self.batch_rows)


@dataclass(frozen=True, slots=True)
class ShardManifest:
    """What is known of a store without opening its shards."""

    features: Mapping[str, FeatureType]
    shards: tuple[Shard, ...]
    fingerprint: str
    """See `fingerprint_of`."""
    source: Mapping[str, Any] | None = field(default=None, hash=False)
    """What the examples were made from, as given to `write_shards`."""

    @property
    def num_rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.num_rows for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        """Bytes of all shards."""
        return sum(shard.size_bytes for shard in self.shards)

    def to_json(self) -> str:
        """Return the text of ``meta.json``."""
        plain = {
            "layout": LAYOUT_VERSION,
            "fingerprint": self.fingerprint,
            "num_rows": self.num_rows,
            "features": features_to_json(self.features),
            "source": self.source,
            "shards": [
                {
                    "file": shard.file,
                    "size_bytes": shard.size_bytes,
                    "crc32": shard.crc32,
                    "batch_rows": list(shard.batch_rows),
                }
                for shard in self.shards
            ],
        }
        return json.dumps(plain, indent=1)


def plain_source(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source as it will be read back from JSON: tuples become lists.

    Raises:
        ValueError: It cannot be written as JSON.
    """
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(source), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"A source consists of text, numbers, lists and dicts ({error}): {source!r}"
        ) from error
    return plain


def fingerprint_of(features: Mapping[str, FeatureType], source: Mapping[str, Any] | None) -> str:
    """Return a digest that identifies the content of a store before it is written.

    It changes with the features, their order, the version of the encoder and the source.
    """
    plain = {
        "encoder": ENCODER_VERSION,
        "features": features_to_json(features),
        "source": None if source is None else plain_source(source),
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:32]


def read_manifest(path: str | os.PathLike[str]) -> ShardManifest:
    """Return the manifest of a store.

    Raises:
        MissingFileError: There is no store in the folder.
        DatasetError: The manifest cannot be read.
    """
    manifest, hold = open_manifest(Path(path))
    hold.close()
    return manifest


def open_manifest(root: Path) -> tuple[ShardManifest, Hold]:
    """Return the current manifest, and a hold on the generation it describes."""
    hold = hold_generation(root)
    if hold is None:
        raise MissingFileError(f"There are no shards. Write some with write_shards: {str(root)!r}")
    return manifest_of(hold), hold


def manifest_of(hold: Hold) -> ShardManifest:
    """Return the manifest of a held generation."""
    meta = hold.generation / META_FILE
    return parse_manifest(read_file(meta).decode("utf-8", errors="replace"), meta)


def parse_manifest(text: str, path: object) -> ShardManifest:
    """Return the manifest that a ``meta.json`` contains.

    Args:
        text: The content of the file.
        path: Its path, for errors.

    Raises:
        CorruptFileError: It is not JSON, or its row counts do not add up.
        MetadataError: A key is missing or has the wrong type.
        UnsafePathError: A file name is not that of a shard.
        UnsupportedVersionError: Another version of roboreel wrote it.
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"Not JSON ({error}). Write the shards again: {str(path)!r}"
        ) from error
    try:
        if plain["layout"] != LAYOUT_VERSION:
            raise UnsupportedVersionError(
                f"The shards have layout {plain['layout']!r}; this roboreel reads layout "
                f"{LAYOUT_VERSION}. Update roboreel or write the shards again: {str(path)!r}"
            )
        shards = tuple(_parse_shard(shard, path) for shard in plain["shards"])
        source = None if plain["source"] is None else dict(plain["source"])
        features = features_from_json(plain["features"])
        manifest = ShardManifest(features, shards, str(plain["fingerprint"]), source)
        num_rows = plain["num_rows"]
    except DatasetError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise MetadataError(
            f"Not the manifest of a shard store ({error!r}). Write the shards again: {str(path)!r}"
        ) from error
    if num_rows != manifest.num_rows:
        raise CorruptFileError(
            f"num_rows is {num_rows}, but the shards have {manifest.num_rows} rows. "
            f"Write the shards again: {str(path)!r}"
        )
    return manifest


def _parse_shard(plain: Mapping[str, Any], path: object) -> Shard:
    name, batch_rows = plain["file"], tuple(plain["batch_rows"])
    if not isinstance(name, str) or not SHARD_NAME.fullmatch(name):
        raise UnsafePathError(
            f"{name!r} is not the name of a shard (shard-00000.arrow, …). "
            f"Write the shards again: {str(path)!r}"
        )
    numbers = (*batch_rows, plain["size_bytes"], plain["crc32"])
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise TypeError(f"the numbers of {name} must be integers of 0 and more")
    return Shard(name, batch_rows, plain["size_bytes"], plain["crc32"])
