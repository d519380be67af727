"""What the folder of a training cache contains, so that nothing else is ever removed.

::

    cache/arm-224/
    ├── cache.json       the manifest, written last: without it there is no cache
    ├── .lock            held by the process that builds
    └── 0123456789abcdef/    named by the manifest's key
        ├── numbers/         a shard store with all features of numbers
        └── images-000000/   a shard store with the images of one part, and so on
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from roboreel.errors import CacheError
from roboreel.files import walk
from roboreel.shards.publish import is_part_of_store

if TYPE_CHECKING:
    from pathlib import Path

CACHE_FILE = "cache.json"
LOCK_FILE = ".lock"
NUMBERS = "numbers"
_GENERATION = re.compile(r"[0-9a-f]{16}")
_STORE = re.compile(rf"{NUMBERS}|images-\d{{6,}}")
_UNFINISHED = re.compile(rf"\.[0-9a-f]{{12}}\.tmp-{re.escape(CACHE_FILE)}")


def part_name(part: int) -> str:
    """Return the name of the store with the images of one part."""
    return f"images-{part:06d}"


def is_generation(path: Path) -> bool:
    """Return whether a path is a folder of shards that a build made, finished or not."""
    return path.is_dir() and _GENERATION.fullmatch(path.name) is not None


def refuse_strangers(root: Path) -> None:
    """Raise if there is anything below a folder that no build put there, or any link.

    Raises:
        CacheError: There is; the message names it.
    """
    for path in walk(root):
        if path.is_symlink() or not _is_ours(*path.relative_to(root).parts):
            raise CacheError(
                f"There are other files, such as {path.relative_to(root).as_posix()!r}. "
                f"A cache needs a folder of its own, not {str(root)!r}."
            )


def _is_ours(name: str, store: str | None = None, *inside: str) -> bool:
    if store is None and (name in (CACHE_FILE, LOCK_FILE) or _UNFINISHED.fullmatch(name)):
        return True
    return (
        _GENERATION.fullmatch(name) is not None
        and (store is None or _STORE.fullmatch(store) is not None)
        and (not inside or is_part_of_store("/".join(inside)))
    )
