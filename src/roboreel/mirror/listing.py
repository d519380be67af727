"""The mirrors of a folder: list, and remove those that were not used for longest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.errors import MirrorError
from roboreel.files import remove_tree
from roboreel.mirror.geometry import BLOCK_BYTES
from roboreel.mirror.holes import stored_bytes
from roboreel.mirror.home import MIRROR_FILE, open_home
from roboreel.mirror.locks import UseLock

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from roboreel.mirror.home import MirrorHome


@dataclass(frozen=True, slots=True)
class MirrorEntry:
    """One mirror of a folder of mirrors."""

    path: Path
    """Its folder; the dataset is in ``files`` below it, and can be opened there."""
    url: str
    num_files: int
    dataset_bytes: int
    """What all files have."""
    held_bytes: int
    """What is here."""
    used_s: int
    """When it was last read, in seconds since the epoch; 0 if it never was."""
    is_damaged: bool = False
    """Whether its files do not say what it holds; sizes are then those of its files."""


@dataclass(frozen=True, slots=True)
class PrunedMirrors:
    """What `prune_mirrors` removed, and what it left."""

    removed: tuple[MirrorEntry, ...]
    refused: tuple[MirrorEntry, ...]
    """Those that a process has open."""
    kept_bytes: int


def list_mirrors(home: str | os.PathLike[str] | None = None) -> list[MirrorEntry]:
    """Return the mirrors in a folder, the last used first.

    Args:
        home: The folder of mirrors. Default: ``remote`` in the folder of caches.
    """
    opened = open_home(home)
    entries = [_describe(opened, name) for name in opened.names()]
    return sorted(entries, key=lambda entry: (-entry.used_s, entry.path))


def prune_mirrors(
    keep_bytes: int, home: str | os.PathLike[str] | None = None, *, dry_run: bool = False
) -> PrunedMirrors:
    """Remove whole mirrors, those used longest ago first, until the rest fits.

    Damaged mirrors always go. A mirror that a process has open stays.
    """
    entries = list_mirrors(home)
    kept_bytes = sum(entry.held_bytes for entry in entries)
    removed, refused = [], []
    for entry in reversed(entries):
        if kept_bytes <= keep_bytes and not entry.is_damaged:
            continue
        if not _remove(entry, open_home(home), dry_run=dry_run):
            refused.append(entry)
            continue
        removed.append(entry)
        kept_bytes -= entry.held_bytes
    return PrunedMirrors(tuple(removed), tuple(refused), kept_bytes)


def _describe(home: MirrorHome, name: str) -> MirrorEntry:
    try:
        return _described(home, name)
    except (MirrorError, OSError, ValueError, AttributeError):
        path = home.path / name  # It can be removed all the same.
        return MirrorEntry(path, "(damaged)", 0, 0, stored_bytes(path), 0, is_damaged=True)


def _described(home: MirrorHome, name: str) -> MirrorEntry:
    folder = home.folder(name)
    folder.refresh()
    about = json.loads((folder.path / MIRROR_FILE).read_bytes())
    sizes = [folder.table[number].file.size_bytes for number in range(len(folder.table))]
    return MirrorEntry(
        folder.path,
        str(about.get("url")),
        len(sizes),
        sum(sizes),
        folder.blocks.count_held() * BLOCK_BYTES,
        int(folder.blocks.used_s.max(initial=0)),
    )


def _remove(entry: MirrorEntry, home: MirrorHome, *, dry_run: bool) -> bool:
    """Remove a mirror that no process has open; return whether it was removed."""
    use = UseLock(entry.path / "use")
    if not use.try_alone():
        use.close()
        return False
    try:
        if not dry_run:
            home.forget(entry.path.name)
            # What describes it goes first: nobody opens a mirror that is half gone.
            (entry.path / MIRROR_FILE).unlink(missing_ok=True)
            remove_tree(entry.path, ignore_errors=True)
        return True
    finally:
        use.close()
