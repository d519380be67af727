"""A repair as data: which files change and how, what it answers, and what remains."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.commit import (
    STORE,
    WORKSHOP,
    Change,
    ChangeSet,
    change_in_place,
    check_free,
)
from roboreel.edit import edit_dataset
from roboreel.files import atomic_folder, copy_file, link_file, make_folder, remove_tree, walk
from roboreel.format.paths import METADATA_FOLDER
from roboreel.io.states import FolderState, folder_state
from roboreel.repair.unlisted import recover_unlisted
from roboreel.words import counted, enumerated, name_episodes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from roboreel.check import Findings
    from roboreel.commit import Commit
    from roboreel.edit import EditPlan
    from roboreel.findings import Finding
    from roboreel.format.edits import FileEdit
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


_KINDS = {"rewritten": "write", "moved": "move", "set aside": "aside"}
"""What becomes of a file, as it is called under ``"changes"`` of the JSON."""


@dataclass(frozen=True)
class RepairPlan(ChangeSet):
    """What a repair will do. It prints as a diff, and does nothing until it is applied.

    Examples:
        >>> from roboreel.repair import plan_repair
        >>> plan = plan_repair("my_dataset")  # doctest: +SKIP
        >>> print(plan)  # doctest: +SKIP
        >>> plan.apply()  # doctest: +SKIP
    """

    findings: Findings
    """What is wrong with the dataset."""
    cured: tuple[Finding, ...]
    """The findings that the changes answer."""
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
        changes: Iterable[FileEdit],
        unlisted: Sequence[Unlisted] = (),
    ) -> RepairPlan:
        """Return a plan, with its changes in order."""
        ordered = tuple(sorted(changes, key=_rank))
        files = {file for one in ordered for file in (one.file, one.source) if file is not None}
        files |= {file for one in unlisted for file in (one.file, *dict(one.videos).values())}
        states = (folder_state(root, files, whole=METADATA_FOLDER),)
        return cls(root, None, ordered, states, findings, tuple(cured), unlisted=tuple(unlisted))

    @property
    def changes(self) -> tuple[FileEdit, ...]:
        """The files that change, in the order in which they do; info.json is last."""
        return self.files

    @property
    def state(self) -> FolderState:
        """The files as they are now: a plan is applied to these and no others."""
        return self.states[0]

    def dropping(self, episodes: Sequence[int], out: Path | None) -> RepairPlan:
        """Return the plan by which episodes leave, in place of what it repairs.

        Args:
            episodes: The numbers of the episodes.
            out: Where the dataset will lie, if it is a copy.
        """
        edit = replace(edit_dataset(self.root).delete(episodes).plan(), out=out)
        leaving = tuple(episodes)
        return replace(self, files=(), cured=(), recovery=None, leaving=leaving, edit=edit)

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
        return bool(self.files or self.edit or self.recovery)

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """The findings that the changes do not answer. Some may go away with the others."""
        cured = set(self.cured)
        return tuple(one for one in self.findings if one not in cured)

    @property
    def written_bytes(self) -> int:
        """Bytes that will be written, about."""
        edited = 0 if self.edit is None else self.edit.written_bytes
        return edited + super().written_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes that will be written, about."""
        return self.written_bytes

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines: what becomes of the files, a summary, what is left alone."""
        if self.edit is not None:
            yield from self.edit.lines()
            if any(one.code == "RR501" for one in self.contradictions):
                yield "Stored statistics contradict the values: this computes stats.json from them."
            return
        yield from super().lines()
        if self.files or self.recovery is None:
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
        if not self.files:
            return "There is nothing to repair."
        parts = []
        for how, verb in (("rewritten", "written"), ("moved", "moved"), ("set aside", "set aside")):
            count = sum(one.how == how for one in self.files)
            size = f", about {self.written_bytes:,} bytes" if how == "rewritten" else ""
            if count:
                parts.append(f"{count:,} {'file is' if count == 1 else 'files are'} {verb}{size}")
        return f"{'; '.join(parts)}."

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            **super().to_json(),
            "size_bytes": self.written_bytes,
            "changes": [{**one.to_json(), "kind": _KINDS[one.how]} for one in self.files],
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
        if out is not None:
            with copied(self, Path(out).expanduser()) as plan:
                plan.apply()
            return
        if self.recovery is not None:
            self.check()
            recover_unlisted(self.root, self.unlisted, self.recovery)
        if self.edit is not None:
            # A plan for a copy shows where that will lie; by now the copy is the dataset.
            replace(self.edit, out=None).apply()
        elif self.files:
            change = Change("repair", self.summary)
            change_in_place(self.root, self._stage, check=self.check, change=change)

    def _stage(self, commit: Commit) -> None:
        for one in self.files:
            if one.how == "set aside":
                commit.move(one.file, _place_aside(self.root, one.file))
            elif one.source is not None:
                commit.move(one.source, one.file)
            elif one.write is not None:
                one.write(self.root, commit.add(one.file))


@contextmanager
def copied(plan: RepairPlan, out: Path) -> Iterator[RepairPlan]:
    """Yield a plan for a copy of its dataset, which appears whole once it has been applied.

    What begins with a dot is not part of the dataset, and is not copied. A copy has no history: the
    old files are in the dataset that it was made from.

    Raises:
        FolderTakenError: The folder exists and is not empty.
    """
    check_free(out)
    plan.check()
    leaving = {one.file for one in plan.files if one.source is None}
    with atomic_folder(out) as folder:
        for path in walk(plan.root):
            file = path.relative_to(plan.root)
            if path.is_file() and not any(part.startswith(".") for part in file.parts):
                make_folder((folder / file).parent, sync=False)
                # Of what is written anew or leaves, no byte need be copied.
                put = link_file if file.as_posix() in leaving else copy_file
                put(path.resolve(), folder / file)
        edit = None if plan.edit is None else edit_dataset(folder).delete(plan.leaving).plan()
        yield replace(plan, root=folder, states=(), edit=edit)
        for name in (STORE, WORKSHOP):
            remove_tree(folder / name, ignore_errors=True)


def _place_aside(root: Path, file: str) -> str:
    """Return a free place for a file that no longer belongs to the dataset."""
    place, number = f"{STORE}/aside/{file}", 2
    while (root / place).exists():
        place, number = f"{STORE}/aside/{number}/{file}", number + 1
    return place


def _rank(change: FileEdit) -> tuple[int, int]:
    """Return when a change is made: files, then what describes them, then what leaves."""
    order = {"moved": 0, "rewritten": 1, "set aside": 3}[change.how]
    is_metadata = change.how == "rewritten" and change.file.startswith("meta/")
    return order + is_metadata, int(change.file.endswith("info.json"))
