"""The folder where training caches are kept by default: names, list, verify, prune, remove."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roboreel.dataset.cache.folder import CACHE_FILE, refuse_strangers
from roboreel.dataset.cache.manifest import CacheManifest, differences
from roboreel.dataset.cache.pictures import Jpeg
from roboreel.errors import CacheError
from roboreel.files import remove_tree, user_folder, walk
from roboreel.shards import validate_shards

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.dataset.cache.pictures import Picture
    from roboreel.schema import Manifest


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One cache of a folder of caches."""

    path: Path
    manifest: CacheManifest
    size_bytes: int
    used_ns: int
    """When it was last built or opened, in nanoseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `prune_caches` removed, and what it left."""

    removed: tuple[CacheEntry, ...]
    refused: tuple[str, ...]
    """Why a cache that should have gone is still there, a sentence each."""
    kept_bytes: int


def cache_home() -> Path:
    """Return the folder of caches: ``$ROBOREEL_CACHE``, or ``roboreel`` in the user's cache."""
    return user_folder("ROBOREEL_CACHE")


def cache_path(dataset: Path, cameras: Mapping[str, Picture]) -> Path:
    """Return the default folder of a cache: one for each dataset and way to store its images.

    Args:
        dataset: The dataset's folder.
        cameras: A picture for each camera name or pattern, as for `Dataset.materialize`.
    """
    place = dataset.resolve()
    forms = sorted({_form(picture) for picture in cameras.values()}) or ["numbers"]
    # The names alone are not enough: lab1/data/arm and lab2/data/arm, or two picks of cameras.
    digest = hashlib.sha256("\n".join([str(place), *sorted(cameras)]).encode()).hexdigest()[:8]
    name = "-".join([place.parent.name, place.name, *forms, digest])
    return cache_home() / re.sub(r"[^\w.-]+", "_", name)


def list_caches(home: Path | None = None) -> list[CacheEntry]:
    """Return the caches in a folder, the last used first; other folders in it are skipped.

    Args:
        home: The folder of caches; `cache_home` by default.
    """
    home = cache_home() if home is None else home
    found = []
    for path in home.iterdir() if home.is_dir() else ():
        try:
            manifest = CacheManifest.read(path)
        except CacheError:
            continue
        used_ns = (path / CACHE_FILE).stat().st_mtime_ns
        found.append(CacheEntry(path, manifest, size_of(path), used_ns))
    return sorted(found, key=lambda entry: (-entry.used_ns, entry.path))


def verify_cache(
    root: Path, dataset: Manifest | None = None, *, checksums: bool = False
) -> list[str]:
    """Return what is wrong with a cache, one sentence each; nothing if it is complete.

    Args:
        root: The cache's folder.
        dataset: Compare the cache with this dataset, every file of it.
        checksums: Whether to read every byte and compare it with what was written.

    Raises:
        CacheError: There is no cache.
    """
    manifest = CacheManifest.read(root)
    problems = [
        problem
        for store in manifest.stores
        for problem in validate_shards(root / manifest.key / store, checksums=checksums)
    ]
    if dataset is not None:
        problems += differences(manifest, dataset, every_file=True)
    return problems


def prune_caches(keep_bytes: int, home: Path | None = None, *, dry_run: bool = False) -> Pruned:
    """Remove the caches used longest ago until the rest fits, and return what was done.

    Args:
        keep_bytes: How much may stay.
        home: The folder of caches; `cache_home` by default.
        dry_run: Only return what would be removed.
    """
    removed: list[CacheEntry] = []
    refused: list[str] = []
    kept_bytes = 0
    for entry in list_caches(home):
        if kept_bytes + entry.size_bytes > keep_bytes:
            try:
                remove_cache(entry.path, dry_run=dry_run)
            except CacheError as error:
                refused.append(str(error))
            else:
                removed.append(entry)
                continue
        kept_bytes += entry.size_bytes
    return Pruned(tuple(removed), tuple(refused), kept_bytes)


def remove_cache(root: Path, *, dry_run: bool = False) -> int:
    """Remove a cache, and return its size in bytes.

    Args:
        root: The cache's folder.
        dry_run: Only check that it may be removed.

    Raises:
        CacheError: The folder is not a cache, is a link, or holds other files.
    """
    CacheManifest.read(root)
    if root.is_symlink():
        raise CacheError(
            f"{str(root)!r} is a link. Remove the cache it points to: {str(root.resolve())!r}."
        )
    refuse_strangers(root)
    size_bytes = size_of(root)
    if not dry_run:
        # The manifest goes first: a cache that is half removed is not a cache.
        (root / CACHE_FILE).unlink()
        remove_tree(root)
    return size_bytes


def size_of(root: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in walk(root) if not path.is_dir())


def _form(picture: Picture) -> str:
    size = f"-{picture.size[0]}x{picture.size[1]}" if picture.size else ""
    quality = f"-q{picture.quality}" if isinstance(picture, Jpeg) else ""
    return type(picture).__name__.lower() + size + quality
