"""What a process holds in memory, as a readable summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.mirror.counts import Fetched


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory budget of the process, and how each feature of a dataset is read."""

    limit_bytes: int
    held_bytes: int
    held_by: Mapping[str, int]
    """Bytes held now, by owner."""
    paths: Mapping[str, str]
    """How each feature is read: the fastest way that its files allow."""
    fetched: Fetched | None = None
    """What was fetched of a remote dataset."""

    def __str__(self) -> str:
        lines = [f"{self.held_bytes / 1e6:.1f} of {self.limit_bytes / 1e6:.1f} MB held"]
        lines += [f"  {size / 1e6:.1f} MB {owner}" for owner, size in sorted(self.held_by.items())]
        if self.fetched is not None:
            lines.append(f"  {self.fetched}")
        width = max((len(name) for name in self.paths), default=0)
        lines += [f"  {name:<{width}}  {path}" for name, path in self.paths.items()]
        return "\n".join(lines)
