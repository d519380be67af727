"""Where a store's rows are, so that another process can open it again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roboreel.errors import MissingFileError
from roboreel.shards.arrow import declare, features_of_schema
from roboreel.shards.batches import BatchTable
from roboreel.shards.features import normalize_features
from roboreel.shards.manifest import manifest_of, open_manifest
from roboreel.shards.publish import Hold
from roboreel.shards.readers import MappedShard, TableReader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from roboreel.shards.features import FeatureType
    from roboreel.shards.foreign import ForeignFiles
    from roboreel.shards.manifest import ShardManifest

MAX_OPEN = 64
"""Shards that may be mapped at once, by default."""


@dataclass(frozen=True, slots=True)
class GenerationOrigin:
    """One generation of a folder that `write_shards` made."""

    generation: Path
    max_open: int

    @classmethod
    def newest(cls, root: Path, max_open: int) -> tuple[GenerationOrigin, BatchTable]:
        """Return the current generation and its rows."""
        manifest, hold = open_manifest(root)
        origin = cls(hold.generation, max_open)
        return origin, origin._table(manifest, hold)

    def open(self) -> BatchTable:
        """Return the rows of this generation, even if it is no longer the current one."""
        try:
            hold = Hold(self.generation)
        except FileNotFoundError as error:
            raise MissingFileError(
                "The store was rewritten, and the shards that were open are gone. "
                f"Open the store again: {str(self.generation.parent)!r}"
            ) from error
        return self._table(manifest_of(hold), hold)

    @property
    def path(self) -> Path:
        """The folder of the store."""
        return self.generation.parent

    def identity(self) -> list[Any]:
        """Return the fingerprint and the checksums of all shards."""
        with closing(Hold(self.generation)) as hold:
            manifest = manifest_of(hold)
        return [manifest.fingerprint, *(shard.crc32 for shard in manifest.shards)]

    def _table(self, manifest: ShardManifest, hold: Hold) -> BatchTable:
        shards = [MappedShard(self.generation / shard.file, shard) for shard in manifest.shards]
        return BatchTable(manifest.features, shards, max_open=self.max_open, hold=hold)

    def __str__(self) -> str:
        return repr(str(self.generation.parent))


@dataclass(frozen=True, slots=True)
class ForeignOrigin:
    """Arrow files that another tool wrote."""

    root: Path
    """The folder, or the file if there is only one."""
    files: ForeignFiles
    max_open: int
    declared: Mapping[str, object] | None = field(default=None, hash=False)

    @property
    def path(self) -> Path:
        """The folder, or the file."""
        return self.root

    def open(self) -> BatchTable:
        """Return the rows of all files; opens each file once to count its rows."""
        shards = [MappedShard(path) for path in self.files.paths]
        self.files.check([sum(shard.batch_rows) for shard in shards], self.root)
        if not shards:
            return BatchTable(normalize_features(self.declared or {}), [], max_open=self.max_open)
        features = declare(features_of_schema(shards[0].schema), self.declared)
        for shard in shards:
            shard.close()
        return BatchTable(features, shards, max_open=self.max_open)

    def identity(self) -> list[Any]:
        """Return the names, sizes and times of all files."""
        states = [(path.name, path.stat()) for path in self.files.paths]
        return [[name, state.st_size, state.st_mtime_ns] for name, state in states]

    def __str__(self) -> str:
        return repr(str(self.root))


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """A table in memory; pickling copies it."""

    table: pa.Table
    features: Mapping[str, FeatureType] = field(hash=False)

    @property
    def path(self) -> None:
        """There is no file."""
        return

    def identity(self) -> None:
        """Return None: a table has no identity short of its values."""
        return

    def open(self) -> BatchTable:
        """Return the rows of the table."""
        return BatchTable(self.features, [TableReader(self.table)], max_open=1)

    def __str__(self) -> str:
        return "a table in memory"


Origin = GenerationOrigin | ForeignOrigin | TableOrigin
"""Opens the rows of a store; picklable. `str` of it names the place in errors."""
