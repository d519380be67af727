"""Where a store's rows are, so that another process can open it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from roboreel.errors import MissingFileError
from roboreel.shards.batches import BatchTable
from roboreel.shards.features import features_of_schema
from roboreel.shards.manifest import manifest_of, open_manifest
from roboreel.shards.publish import Hold
from roboreel.shards.readers import MappedShard, TableReader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from roboreel.shards.features import FeatureType
    from roboreel.shards.manifest import ShardManifest

__all__ = ["ForeignOrigin", "GenerationOrigin", "Origin", "TableOrigin"]


class Origin(Protocol):
    """Opens the rows of a store; picklable. `str` of it names the place in errors."""

    def open(self) -> BatchTable:
        """Return the rows; nothing is mapped yet."""


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

    def _table(self, manifest: ShardManifest, hold: Hold) -> BatchTable:
        shards = [MappedShard(self.generation / shard.file, shard) for shard in manifest.shards]
        return BatchTable(manifest.features, shards, max_open=self.max_open, hold=hold)

    def __str__(self) -> str:
        return repr(str(self.generation.parent))


@dataclass(frozen=True, slots=True)
class ForeignOrigin:
    """Arrow files that another tool wrote."""

    paths: tuple[Path, ...]
    max_open: int

    def open(self) -> BatchTable:
        """Return the rows of all files; opens each file once to count its rows."""
        shards = [MappedShard(path) for path in self.paths]
        features = features_of_schema(shards[0].schema)
        for shard in shards:
            shard.close()
        return BatchTable(features, shards, max_open=self.max_open)

    def __str__(self) -> str:
        return repr(str(self.paths[0].parent))


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """A table in memory; pickling copies it."""

    table: pa.Table
    features: Mapping[str, FeatureType] = field(hash=False)

    def open(self) -> BatchTable:
        """Return the rows of the table."""
        return BatchTable(self.features, [TableReader(self.table)], max_open=1)

    def __str__(self) -> str:
        return "a table in memory"
