"""Open the store in a folder or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import MissingFileError
from roboreel.io.heap import keep_freed_memory
from roboreel.shards.columns import Columns
from roboreel.shards.foreign import find_foreign
from roboreel.shards.origin import MAX_OPEN, ForeignOrigin, GenerationOrigin
from roboreel.shards.publish import current_generation
from roboreel.shards.store import Store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def open_shards(
    path: str | os.PathLike[str],
    *,
    features: Mapping[str, object] | None = None,
    max_open: int = MAX_OPEN,
) -> Store:
    """Return the store in a folder; each shard is mapped on first use.

    The folder is one that `write_shards` made, or one that another tool filled: a cache of
    stable-datasets with its ``_metadata.json``, a split that Hugging Face datasets saved with
    ``save_to_disk`` or has in its cache, or ``.arrow``, ``.feather`` and ``.ipc`` files (IPC files or
    streams, read in the order of their names). One such file is a store, too.

    Args:
        path: The folder, or one file.
        features: What columns of another tool are, where their Arrow type does not tell: images,
            labels, arrays stored as bytes. Stores of our own know their features.
        max_open: How many shards may be mapped at once; the least recently used is closed first.

    Raises:
        MissingFileError: There is no store, or some of its files are missing.
        CorruptFileError: A file is not what was written.
        FeatureNotFoundError: A declared feature has no column.
        MetadataError: A column cannot be read as what is declared, or the folder has several splits.
    """
    keep_freed_memory()
    root = Path(path)
    if max_open < 1:
        raise ValueError(f"max_open must be at least 1, not {max_open}.")
    if current_generation(root) is not None:
        if features is not None:
            raise ValueError(
                "A store that write_shards made knows its features: leave them out, or compare "
                f"them with validate_shards: {str(root)!r}"
            )
        return Store([Columns.whole(*GenerationOrigin.newest(root, max_open))])
    files = find_foreign(root)
    if files is None:
        raise MissingFileError(_nothing_at(root))
    if not files.paths and features is None:
        raise MissingFileError(
            "The cache has no rows and no files, so its columns are unknown. Give features=…: "
            f"{str(root)!r}"
        )
    origin = ForeignOrigin(root, files, max_open, features)
    return Store([Columns.whole(origin, origin.open())])


def _nothing_at(root: Path) -> str:
    if not root.is_dir():
        return f"There is no such file or folder: {str(root)!r}."
    if any(root.glob("*.parquet")):
        return (
            "The folder holds Parquet files, which cannot be mapped. Write shards of their rows with "
            f"write_shards, or read one into memory with Store.from_table: {str(root)!r}."
        )
    return f"There are no shards. Write some with write_shards: {str(root)!r}"
