"""Which files of the library a writer depends on, so that points stay covered while those are unchanged."""

from __future__ import annotations

import ast
import sys
import threading
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tests import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

__all__ = ["list_executed", "version_of"]

SOURCE = PROJECT / "src"


def list_executed(act: Callable[[], object], listed: Path) -> None:
    """Do something, and write down the files of the library whose code ran, in any thread."""
    seen: set[str] = set()

    def look(frame: Any, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        ours = sorted(name for name in list(seen) if name.startswith(f"{SOURCE}/"))
        listed.write_text("\n".join(ours))


def version_of(executed: Iterable[Path], also: Iterable[Path] = ()) -> str:
    """Return what changes with the contents of some files, and of all of the library that they import."""
    digest = sha256()
    for path in [*sorted(_with_imported(executed)), *sorted(also)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _with_imported(files: Iterable[Path]) -> set[Path]:
    found: set[Path] = set()
    left = list(files)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imported_by(path)
    return found


def _imported_by(path: Path) -> set[Path]:
    """Return the files of the library that one of them imports, anywhere in it."""
    package = next(folder for folder in path.parents if folder.name == "roboreel")
    return {
        file
        for name in _names_in(ast.parse(path.read_text()))
        for file in _files_of(name, package.parent)
    }


def _names_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files_of(module: str, source: Path) -> Iterator[Path]:
    """Yield the file of a module; ``roboreel`` itself loads names at first use, and is none."""
    place = source.joinpath(*module.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if module.startswith("roboreel.") and path.exists():
            yield path
