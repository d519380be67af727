"""An edit as data: what changes, how each file is made, and how many bytes that writes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roboreel.edit.apply import check_space, edit_in_place, write_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from roboreel.edit.context import EditContext
    from roboreel.edit.targets import FileTarget
    from roboreel.repair.state import State

__all__ = ["EditPlan"]

_MOST_SHOWN = 4
_RUNGS = ("kept", "linked", "copied", "remuxed", "rewritten", "re-encoded")


def _nothing(*_: object) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class EditPlan:
    """What an edit will do. It prints as a list of files, and does nothing until it is applied.

    Examples:
        >>> import roboreel as reel
        >>> plan = reel.edit_dataset("data/arm").delete([3]).plan()  # doctest: +SKIP
        >>> print(plan)  # doctest: +SKIP
        >>> plan.apply()  # doctest: +SKIP
    """

    root: Path
    """The dataset's folder; of a merge, that of the first."""
    out: Path | None
    """Where the new dataset is written; None if the old one changes."""
    said: tuple[str, ...]
    """What was asked for, in words."""
    states: tuple[State, ...]
    """The files of each source as they are now: a plan is applied to these and no others."""
    context: EditContext = field(repr=False, compare=False)
    """What is made."""

    def __bool__(self) -> bool:
        return bool(self.said)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def files(self) -> tuple[FileTarget, ...]:
        """The data and video files of the new dataset, and how each is made."""
        return (*self.context.layout.data, *self.context.layout.videos)

    @property
    def written_bytes(self) -> int:
        """Bytes that will be written, about, without the small files of the metadata."""
        return sum(target.written_bytes for target in self.files)

    @property
    def num_episodes(self) -> int:
        """Episodes of the new dataset."""
        return len(self.context.recipe.pieces)

    @property
    def num_frames(self) -> int:
        """Frames of the new dataset."""
        return int(self.context.layout.length.sum())

    @property
    def summary(self) -> str:
        """What was asked for, in one line."""
        few = "; ".join(self.said[:3])
        return few + (f"; and {len(self.said) - 3} more" if len(self.said) > 3 else "")

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines: what was asked for, what becomes of the files, a summary."""
        yield from self.said[:20]
        if len(self.said) > 20:
            yield f"and {len(self.said) - 20} more"
        old = [source.manifest.episodes for source in self.context.sources]
        episodes, frames = sum(map(len, old)), sum(table.num_rows for table in old)
        yield f"episodes {episodes:,} -> {self.num_episodes:,}, frames {frames:,} -> {self.num_frames:,}"
        for rung in _RUNGS:
            yield from _of_rung(rung, [one for one in self.files if one.rung == rung])
        yield from self._last_lines()

    def _last_lines(self) -> Iterator[str]:
        count = Counter(target.rung for target in self.files)
        encoded = count["re-encoded"]
        images = f"{encoded} videos are encoded again" if encoded else "nothing is encoded again"
        yield f"About {_size(self.written_bytes)} and the metadata are written; {images}."
        if self.context.recipe.scrub and self.out is None:
            yield "Nothing of what leaves remains, and old changes go: this CANNOT be undone."
        elif self.out is None:
            yield "`roboreel undo` takes it back."

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "path": str(self.root),
            "out": None if self.out is None else str(self.out),
            "operations": list(self.said),
            "episodes": self.num_episodes,
            "frames": self.num_frames,
            "written_bytes": self.written_bytes,
            "undoable": self.out is None and not self.context.recipe.scrub,
            "files": [
                {"file": one.file, "how": one.rung, "size_bytes": one.size_bytes}
                for one in self.files
            ],
        }

    def apply(self, *, on_progress: Callable[[str, int, int], None] = _nothing) -> None:
        """Carry out the plan.

        In place, the dataset changes entirely or not at all, and `roboreel undo` brings the old one
        back. A new dataset appears whole.

        Args:
            on_progress: Called with what is written, how many files of it are done, and how many
                there are.

        Raises:
            DatasetInUseError: Another process changes the dataset, or records into it.
            StaleDatasetError: The dataset has changed since the plan was made.
            EditError: There is no space on the disk, or the edit would lose an image.
        """
        check_space(self.out or self.root, self.written_bytes)
        if self.out is not None:
            write_new(self.context, self.out, self.states, on_progress=on_progress)
        elif self:
            state = self.states[0]
            edit_in_place(self.context, state, summary=self.summary, on_progress=on_progress)


def _of_rung(rung: str, targets: list[FileTarget]) -> Iterator[str]:
    if not targets:
        return
    noun = "file" if len(targets) == 1 else "files"
    size = sum(target.size_bytes for target in targets)
    yield f"{rung:>10}  {len(targets):,} {noun}, {_size(size)}"
    for target in targets[:_MOST_SHOWN]:
        yield f"            {target.file}"
    if len(targets) > _MOST_SHOWN:
        yield f"            and {len(targets) - _MOST_SHOWN:,} more"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"
