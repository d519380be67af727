"""Git LFS pointers in place of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.check.checks import Check, NotChecked
from roboreel.findings import finding
from roboreel.io.lfs import is_lfs_pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context
    from roboreel.findings import Finding

# More take seconds, and whoever opens the files finds out too.
_MOST_FILES = 50_000


def pointers(context: Context) -> Iterator[Outcome]:
    """Yield the files that are Git LFS pointers."""
    paths = context.listing.paths
    if len(paths) > _MOST_FILES:
        yield NotChecked("RR107", f"More than {_MOST_FILES:,} files: only those that are opened.")
        return
    for path in sorted(paths):
        if is_lfs_pointer(context.root / path):
            yield pointer_finding(path)


def pointer_finding(path: str) -> Finding:
    """Return the finding that a file is a Git LFS pointer."""
    return finding(
        "RR107",
        "This is a Git LFS pointer, not the file itself. Run `git lfs pull` in the dataset.",
        file=path,
    )


CHECKS = (Check(("RR107",), pointers),)
