"""A repair as data: which files change and how, what it answers, and what remains."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.edit import edit_dataset
from roboreel.format.paths import METADATA_FOLDER
from roboreel.io.states import FolderState, folder_state
from roboreel.repair.apply import apply_changes, copy_with_changes
from roboreel.repair.unlisted import recover_unlisted
from roboreel.words import counted, enumerated, name_episodes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from roboreel.check import Findings
    from roboreel.edit import EditPlan
    from roboreel.findings import Finding
    from roboreel.repair.changes import PlannedChange
    from roboreel.repair.unlisted import Unlisted

_MOST_SHOWN = 6
_LEFT_ALONE = (
    "Stored statistics contradict the values ({codes}), and stay: they may be the only sign that "
    "values changed after recording. Training reads the values: look at them, and if they are "
    "right, repair with --trust-values."
)
_BELIEVED = (
    "Where stored statistics contradict the values ({codes}), the values are believed, since "
    "training reads them. The old statistics may be the only sign that values changed after "
    "recording: `roboreel undo` brings them back, and what a copy is made from keeps them."
)


_STAY = (
    "The episode table does not list these episodes, and their files stay, also in a copy: they may "
    "be a recording that was lost. --recover-unlisted DIR writes them to a dataset of their own, "
    "which `roboreel merge` adds to this one; --set-aside moves the files out of the dataset."
)


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
    state: FolderState
    """The files as they are now: a plan is applied to these and no others."""
    contradictions: tuple[Finding, ...] = ()
    """Findings of stored statistics that are sound, and not those of the values."""
    trusts_values: bool = False
    """Whether the values are believed there. If not, these statistics stay."""
    unlisted: tuple[Unlisted, ...] = ()
    """Data files of episodes that the table does not list."""
    sets_aside: bool = False
    """Whether they are set aside. If not, they stay where they are."""
    recovery: Path | None = None
    """Where a dataset of their episodes is written first, if anywhere."""
    lacking: tuple[str, ...] = ()
    """Features that it will lack, since some of the files do."""
    leaving: tuple[int, ...] = ()
    """Episodes that leave the dataset, once nothing more can be repaired."""
    edit: EditPlan | None = None
    """The edit by which they do; None as long as there is something to repair."""

    @classmethod
    def of(
        cls,
        root: Path,
        findings: Findings,
        cured: Iterable[Finding],
        changes: Iterable[PlannedChange],
        unlisted: Sequence[Unlisted] = (),
    ) -> RepairPlan:
        """Return a plan, with its changes in order."""
        ordered = tuple(sorted(changes, key=_rank))
        files = {file for one in ordered for file in (one.file, one.source) if file is not None}
        files |= {file for one in unlisted for file in (one.file, *dict(one.videos).values())}
        state = folder_state(root, files, whole=METADATA_FOLDER)
        return cls(root, ordered, findings, tuple(cured), state, unlisted=tuple(unlisted))

    def dropping(self, episodes: Sequence[int], out: Path | None) -> RepairPlan:
        """Return the plan by which episodes leave, in place of what it repairs.

        Args:
            episodes: The numbers of the episodes.
            out: Where the dataset will lie, if it is a copy.
        """
        edit = replace(edit_dataset(self.root).delete(episodes).plan(), out=out)
        leaving = tuple(episodes)
        return replace(self, changes=(), cured=(), recovery=None, leaving=leaving, edit=edit)

    @property
    def belief(self) -> str:
        """What is believed where statistics contradict the values, and why; empty if they agree."""
        codes = enumerated(sorted({one.code for one in self.contradictions}))
        text = _BELIEVED if self.trusts_values else _LEFT_ALONE
        return text.format(codes=codes) if codes else ""

    @property
    def unlisted_lines(self) -> tuple[str, ...]:
        """What the files of unlisted episodes hold, and what becomes of them; empty if there are none."""
        if not self.unlisted:
            return ()
        lines = [one.line for one in self.unlisted[:_MOST_SHOWN]]
        if len(self.unlisted) > _MOST_SHOWN:
            lines.append(
                f"and {len(self.unlisted) - _MOST_SHOWN:,} more files of unlisted episodes"
            )
        if self.recovery is not None:
            count = sum(len(one.episodes) for one in self.unlisted)
            lack = f", without {enumerated(self.lacking)}" if self.lacking else ""
            where = f"{counted(count, 'episode')} to {str(self.recovery)!r}{lack}"
            stay = "are set aside then" if self.sets_aside else "stay"
            lines.append(f"Recovers {where}. The files {stay}.")
        elif not self.sets_aside:
            lines.append(_STAY)
        return tuple(lines)

    def __bool__(self) -> bool:
        return bool(self.changes or self.edit or self.recovery)

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
        edited = 0 if self.edit is None else self.edit.written_bytes
        return edited + sum(one.size_bytes for one in self.changes if one.kind == "write")

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines of a diff, file by file, and a summary."""
        if self.edit is not None:
            yield from self.edit.lines()
            if any(one.code == "RR501" for one in self.contradictions):
                yield "Stored statistics contradict the values: this computes stats.json from them."
            return
        shown: Counter[str] = Counter()
        for change in self.changes:
            shown[change.kind] += 1
            if change.kind == "write" or shown[change.kind] <= _MOST_SHOWN:
                yield from change.lines()
        for kind, verb in (("move", "moved"), ("aside", "set aside")):
            if shown[kind] > _MOST_SHOWN:
                yield f"and {shown[kind] - _MOST_SHOWN:,} more files are {verb} likewise"
        if self.changes or self.recovery is None:
            yield self.summary
        yield from self.unlisted_lines
        if self.belief:
            yield self.belief
        if self.leaving:
            yield f"Then {name_episodes(self.leaving)} will be deleted, by a plan of its own."

    @property
    def summary(self) -> str:
        """What will happen, in one sentence."""
        if self.edit is not None:
            return self.edit.summary
        if not self.changes:
            return "There is nothing to repair."
        parts = []
        verbs = {"write": "written", "move": "moved", "aside": "set aside"}
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
            "contradictions": [asdict(one) for one in self.contradictions],
            "believed": "values" if self.trusts_values and self.contradictions else None,
            "belief": self.belief,
            "unlisted": [one.to_json() for one in self.unlisted],
            "sets_aside": self.sets_aside,
            "recovery": None if self.recovery is None else str(self.recovery),
            "recovers_without": list(self.lacking),
            "leaving": list(self.leaving),
            "edit": None if self.edit is None else self.edit.to_json(),
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
        if self.recovery is not None:
            self.state.check(self.root)
            recover_unlisted(self.root, self.unlisted, self.recovery)
        if out is not None:
            self.state.check(self.root)
            copy_with_changes(self.root, Path(out).expanduser(), self.changes)
            if self.edit is not None:
                edit_dataset(out).delete(self.leaving).apply()
        elif self.edit is not None:
            replace(self.edit, out=None).apply()
        elif self.changes:
            apply_changes(self.root, self.changes, self.state, summary=self.summary)


def _rank(change: PlannedChange) -> tuple[int, int]:
    """Return when a change is made: files, then what describes them, then what leaves."""
    order = {"move": 0, "write": 1, "aside": 3}[change.kind]
    is_metadata = change.kind == "write" and change.file.startswith("meta/")
    return order + is_metadata, int(change.file.endswith("info.json"))
