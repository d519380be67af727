"""A repair as data: which files change and how, what it answers, and what remains."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.repair.apply import apply_changes, copy_with_changes
from roboreel.repair.state import State, read_state

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from roboreel.check import Findings
    from roboreel.findings import Finding
    from roboreel.repair.changes import PlannedChange

__all__ = ["RepairPlan"]

_MOST_SHOWN = 6


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a repair will do. It prints as a diff, and does nothing until it is applied.

    Examples:
        >>> from roboreel.repair import plan_repair
        >>> plan = plan_repair("my_dataset")  # doctest: +SKIP
        >>> print(plan)  # doctest: +SKIP
        >>> plan.apply()  # doctest: +SKIP
    """

    root: Path
    """The dataset's folder."""
    changes: tuple[PlannedChange, ...]
    """In the order in which they are made; info.json is last."""
    findings: Findings
    """What is wrong with the dataset."""
    cured: tuple[Finding, ...]
    """The findings that the changes answer."""
    state: State
    """The files as they are now: a plan is applied to these and no others."""

    @classmethod
    def of(
        cls,
        root: Path,
        findings: Findings,
        cured: Iterable[Finding],
        changes: Iterable[PlannedChange],
    ) -> RepairPlan:
        """Return a plan, with its changes in order."""
        ordered = tuple(sorted(changes, key=_rank))
        return cls(root, ordered, findings, tuple(cured), read_state(root, ordered))

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """The findings that the changes do not answer. Some may go away with the others."""
        cured = set(self.cured)
        return tuple(one for one in self.findings if one not in cured)

    @property
    def size_bytes(self) -> int:
        """Bytes that will be written, about."""
        return sum(change.size_bytes for change in self.changes if change.kind == "write")

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines of a diff, file by file, and a summary."""
        shown: Counter[str] = Counter()
        for change in self.changes:
            shown[change.kind] += 1
            if change.kind == "write" or shown[change.kind] <= _MOST_SHOWN:
                yield from change.lines()
        for kind, verb in (("move", "moved"), ("aside", "set aside"), ("remove", "removed")):
            if shown[kind] > _MOST_SHOWN:
                yield f"and {shown[kind] - _MOST_SHOWN:,} more files are {verb} likewise"
        yield self.summary

    @property
    def summary(self) -> str:
        """What will happen, in one sentence."""
        if not self.changes:
            return "There is nothing to repair."
        parts = []
        verbs = {"write": "written", "move": "moved", "aside": "set aside", "remove": "removed"}
        for kind, verb in verbs.items():
            count = sum(change.kind == kind for change in self.changes)
            size = f", about {self.size_bytes:,} bytes" if kind == "write" else ""
            if count:
                parts.append(f"{count:,} {'file is' if count == 1 else 'files are'} {verb}{size}")
        return f"{'; '.join(parts)}."

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "path": str(self.root),
            "size_bytes": self.size_bytes,
            "changes": [change.to_json() for change in self.changes],
            "cured": [asdict(one) for one in self.cured],
            "remaining": [asdict(one) for one in self.remaining],
        }

    def apply(self, out: str | os.PathLike[str] | None = None) -> None:
        """Carry out the plan.

        Args:
            out: A new folder for a repaired copy; the dataset stays as it is. By default the dataset
                itself is repaired, entirely or not at all, and what is replaced can be restored with
                `roboreel undo`.

        Raises:
            DatasetInUseError: Another process records into the dataset.
            StaleDatasetError: The dataset has changed since the plan was made.
        """
        if out is not None:
            self.state.check(self.root)
            copy_with_changes(self.root, Path(out).expanduser(), self.changes)
        elif self.changes:
            apply_changes(self.root, self.changes, self.state, summary=self.summary)


def _rank(change: PlannedChange) -> tuple[int, int]:
    """Return when a change is made: files, then what describes them, then what leaves."""
    order = {"move": 0, "write": 1, "aside": 3, "remove": 3}[change.kind]
    is_metadata = change.kind == "write" and change.file.startswith("meta/")
    return order + is_metadata, int(change.file.endswith("info.json"))
