"""The most memory that a process had within a block, as the system counted it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["Peak"]

_SELF = Path("/proc/self")


class Peak:
    """Measures how far the memory of this process rose above what it was at the start of the block.

    Mapped files count as well, which are small here. Where the system does not tell, nothing was taken.
    """

    taken_bytes = 0

    def __enter__(self) -> Peak:  # noqa: PYI034  # typing.Self is younger than 3.10
        with suppress(OSError):
            (_SELF / "clear_refs").write_text("5")  # The highest mark is what is held now.
        self._before = _bytes_of("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.taken_bytes = _bytes_of("VmHWM") - self._before


def _bytes_of(name: str) -> int:
    with suppress(OSError):
        for line in (_SELF / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
