"""Files that lie elsewhere than the path template says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.check.listing import Listing, top_folders
from roboreel.format.paths import METADATA_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.check.context import Context


def find_misplaced(context: Context, missing: Sequence[str]) -> dict[str, str]:
    """Return where missing files lie, as far as they are found: named path to real path.

    A file is found in another folder directly below the dataset (``video/`` for ``videos/``), or
    in the same one with its folders in another order (camera before or after chunk).
    """
    known = {path.split("/", 1)[0] for path in missing} | {METADATA_FOLDER}
    others = Listing(context.root, set(top_folders(context.root)) - known)
    elsewhere = {path.split("/", 1)[-1]: path for path in others.paths}
    named = set(missing)
    shuffled = {
        _parts(path): path
        for path in context.listing.paths | others.paths
        if path not in named and not path.startswith(f"{METADATA_FOLDER}/")
    }
    found: dict[str, str] = {}
    if not (elsewhere or shuffled):
        return found
    for path in missing:
        there = elsewhere.get(path.split("/", 1)[-1]) or shuffled.get(_parts(path))
        if there is not None:
            found[path] = there
    return found


def _parts(path: str) -> tuple[str, ...]:
    """Return what a path is made of but its first folder, in an order of their own."""
    return tuple(sorted(path.split("/")[1:]))
