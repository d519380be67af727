"""roboreel imports a recording; and what reading its bytes alone takes."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def bring(meter: Meter, path: str, out: str) -> None:
    """Import a recording."""
    with meter.step("import"):
        from roboreel.importing import Changes, import_dataset
    shutil.rmtree(out, ignore_errors=True)
    with meter.step("bring"):
        import_dataset(path, out, changes=Changes(fps=30, task="x"))
    meter.note(megabytes=round(_size(Path(path)) / 1e6, 1))
    shutil.rmtree(out)


def read(meter: Meter, path: str, out: str) -> None:
    """Read a recording's bytes, and hash them as importing does."""
    del out
    files = [Path(path)] if Path(path).is_file() else sorted(Path(path).rglob("*"))
    with meter.step("import"):
        pass
    with meter.step("bring"):
        for file in files:
            if file.is_file():
                digest = hashlib.sha256()
                with file.open("rb") as opened:
                    while block := opened.read(1024**2):
                        digest.update(block)
    meter.note(megabytes=round(_size(Path(path)) / 1e6, 1))


def _size(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())
