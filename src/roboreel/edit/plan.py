"""An edit as data: what changes, how each file is made, and how many bytes that writes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from roboreel.commit import Workshop, locked
from roboreel.edit.apply import (
    check_free,
    check_space,
    edit_in_place,
    side_files,
    write_new,
)
from roboreel.edit.edit_job import plan_edit_job
from roboreel.edit.making import make_dataset
from roboreel.edit.side_files import SideFiles
from roboreel.edit.statistics import looks_at_images
from roboreel.edit.verifying import verify_copy
from roboreel.edit.work import list_work
from roboreel.jobs import execute, job_path
from roboreel.jobs.execute import SMALL_S

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from roboreel.edit.context import EditContext
    from roboreel.edit.targets import FileTarget
    from roboreel.io.states import FolderState
    from roboreel.jobs import Executor, Plan

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
    states: tuple[FolderState, ...]
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

    @cached_property
    def side_files(self) -> SideFiles:
        """What a new dataset gets beside its own files; nothing in place, where all of it stays."""
        return SideFiles() if self.out is None else side_files(self.context)

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
        beside = self.side_files
        if beside.outside:
            yield f"Links to files outside the folder, whose content is copied: {_few(beside.outside)}."
        if beside.left_out:
            yield f"Links to folders or to files of the dataset, which are left out: {_few(beside.left_out)}."
        count = Counter(target.rung for target in self.files)
        encoded = count["re-encoded"]
        videos = "1 video is" if encoded == 1 else f"{encoded} videos are"
        images = f"{videos} encoded again" if encoded else "nothing is encoded again"
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
            "copied_from_outside": list(self.side_files.outside),
            "left_out": list(self.side_files.left_out),
            "files": [
                {"file": one.file, "how": one.rung, "size_bytes": one.size_bytes}
                for one in self.files
            ],
        }

    def apply(
        self,
        *,
        on: Executor | None = None,
        job: str | os.PathLike[str] | None = None,
        verify: bool = False,
        on_progress: Callable[[str, int, int], None] = _nothing,
    ) -> None:
        """Carry out the plan.

        In place, the dataset changes entirely or not at all, and `roboreel undo` brings the old one
        back. A new dataset appears whole. What takes longer than a few seconds is a job, on all
        cores: if it is interrupted, the same call goes on where it stopped.

        Args:
            on: Where to make the files, such as ``roboreel.jobs.Processes(8)``: see `execute`.
            job: The job's folder, on a file system that all workers share; by default one on the
                disk of the dataset.
            verify: Whether to read what was copied again, and to compare every row and packet.
            on_progress: Called with what is written, how much of it is done, and how much there is.

        Raises:
            DatasetInUseError: Another process changes the dataset, or records into it.
            StaleDatasetError: The dataset has changed since the plan was made.
            EditError: There is no space on the disk, or the edit would lose an image.
            JobError: Tasks of a job failed.
        """
        if self.out is None and not self:
            return
        check_space(self.out or self.root, self.written_bytes)
        if on is None and job is None and self._is_quick():
            self._apply_at_once(on_progress)
            if verify and self.out is not None:
                verify_copy(self, on_progress=on_progress)
            return
        self.check_place()
        planned = plan_edit_job(self, verify=verify)
        execute(
            planned,
            on=on,
            folder=self.job_folder(planned) if job is None else job,
            name=self.job_name,
            on_progress=lambda now: on_progress("Tasks", now.done, now.total),
        )

    @property
    def job_name(self) -> str:
        """What a job is called that carries out the plan."""
        return f"edit-{(self.out or self.root).name}"

    def job_folder(self, planned: Plan) -> Path:
        """Return the folder of a job that carries out the plan: on the disk of the dataset."""
        place = self.out or self.root
        return job_path(planned, self.job_name, near=place.absolute().parent)

    def _is_quick(self) -> bool:
        items = list_work(self.context, looks=looks_at_images(self.context))
        return len(items) < 2 or sum(item.cost_s for item in items) < SMALL_S

    def _apply_at_once(self, on_progress: Callable[[str, int, int], None]) -> None:
        make = partial(make_dataset, self.context, on_progress=on_progress)
        if self.out is not None:
            write_new(self.context, self.out, make, self._check_states)
        else:
            edit_in_place(self.context, make, self._check_states, summary=self.summary)

    def check_place(self) -> None:
        """Raise if the edit could not be made now: sooner than after hours of work.

        Raises:
            FolderTakenError: The folder for a new dataset is taken.
            DatasetInUseError: Another process changes the dataset, or records into it.
            StaleDatasetError: The dataset has changed since the plan was made.
        """
        if self.out is not None:
            check_free(self.out)
        else:
            with locked(Workshop(self.root)):
                self._check_states()

    def _check_states(self) -> None:
        for source, state in zip(self.context.sources, self.states, strict=True):
            state.check(source.root)


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


def _few(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(map(repr, names[:_MOST_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e5 else f"{size_bytes / 1e3:,.1f} kB"
