"""Memory that a process really holds: anonymous bytes, which the kernel cannot take back.

Mapped files are left out on purpose. Their pages are shared and are dropped whenever something
else needs the room, so a resident set that counts them says little about what a job needs.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["SOURCE", "anonymous_bytes"]

SOURCE = "Pss_Anon of smaps_rollup" if sys.platform == "linux" else "USS of psutil, no peak"
"""Where the numbers come from; written beside every result."""


def anonymous_bytes(pid: int) -> int | None:
    """Return the anonymous bytes of a process and its children, each shared page counted once.

    Returns:
        None where the process is gone or the platform does not tell.
    """
    if sys.platform != "linux":
        return _unshared_bytes(pid)
    held = [_rollup_bytes(member) for member in _family(pid)]
    known = [size for size in held if size is not None]
    return sum(known) if known else None


def _family(pid: int) -> list[int]:
    members = [pid]
    for member in members:  # grows while it is walked: children of children
        for task in Path(f"/proc/{member}/task").glob("*/children"):
            members.extend(int(child) for child in _read(task).split())
    return members


def _rollup_bytes(pid: int) -> int | None:
    fields = dict(
        line.split(":", 1) for line in _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines()[1:]
    )
    # Older kernels do not say how anonymous pages divide among those who share them.
    size = fields.get("Pss_Anon") or fields.get("Anonymous")
    return int(size.split()[0]) * 1024 if size else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended since we saw it
        return ""


def _unshared_bytes(pid: int) -> int | None:
    try:
        import psutil
    except ModuleNotFoundError:
        return None
    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except (psutil.Error, OSError):
        return None
