"""An edit as data: what changes, how each file is made, and how many bytes that writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roboreel.commit import ChangeSet, Workshop, check_free, check_space, locked, size_text
from roboreel.edit.apply import SideFiles, carry_out, side_files
from roboreel.edit.context import EditContext
from roboreel.edit.edit_job import plan_edit_job
from roboreel.edit.encoding import check_encodings
from roboreel.edit.layout import lay_out
from roboreel.edit.tasks import plan_subtasks, plan_tasks
from roboreel.edit.work import Work, list_work
from roboreel.errors import EditError
from roboreel.jobs import execute, job_path
from roboreel.jobs.execute import SMALL_S

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from roboreel.edit.layout import FileTarget
    from roboreel.edit.recipe import Recipe
    from roboreel.edit.sources import Source
    from roboreel.jobs import Executor, Plan

_MOST_SHOWN = 4


def _nothing(*_: object) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class EditPlan(ChangeSet):
    """What an edit will do. It prints as a list of files, and does nothing until it is applied.

    Examples:
        >>> import roboreel as reel
        >>> plan = reel.edit_dataset("data/arm").delete([3]).plan()  # doctest: +SKIP
        >>> print(plan)  # doctest: +SKIP
        >>> plan.apply()  # doctest: +SKIP
    """

    files: tuple[FileTarget, ...]
    """The data and video files of the new dataset, and how each is made."""
    said: tuple[str, ...]
    """What was asked for, in words."""
    context: EditContext = field(repr=False, compare=False)
    """What is made."""

    def __bool__(self) -> bool:
        return bool(self.said)

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

    @property
    def is_undoable(self) -> bool:
        """Whether `roboreel undo` takes it back."""
        return self.out is None and not self.context.recipe.scrub

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines: what was asked for, what becomes of the files, a summary."""
        yield from self.said[:20]
        if len(self.said) > 20:
            yield f"and {len(self.said) - 20} more"
        old = [source.manifest.episodes for source in self.context.sources]
        episodes, frames = sum(map(len, old)), sum(table.num_rows for table in old)
        yield f"episodes {episodes:,} -> {self.num_episodes:,}, frames {frames:,} -> {self.num_frames:,}"
        yield from super().lines()
        beside = self.side_files
        if beside.outside:
            yield f"Links to files outside the folder, whose content is copied: {_few(beside.outside)}."
        if beside.left_out:
            yield f"Links to folders or to files of the dataset, which are left out: {_few(beside.left_out)}."
        encoded = sum(one.how == "re-encoded" for one in self.files)
        videos = "1 video is" if encoded == 1 else f"{encoded} videos are"
        images = f"{videos} encoded again" if encoded else "nothing is encoded again"
        yield f"About {size_text(self.written_bytes)} and the metadata are written; {images}."
        if self.is_undoable:
            yield "`roboreel undo` takes it back."
        elif self.out is None:
            yield "Nothing of what leaves remains, and old changes go: this CANNOT be undone."

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            **super().to_json(),
            "operations": list(self.said),
            "episodes": self.num_episodes,
            "frames": self.num_frames,
            "undoable": self.is_undoable,
            "copied_from_outside": list(self.side_files.outside),
            "left_out": list(self.side_files.left_out),
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
            self._apply_at_once(on_progress, verify=verify)
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
        items = list_work(self.context)
        return len(items) < 2 or sum(item.cost_s for item in items) < SMALL_S

    def _apply_at_once(
        self, on_progress: Callable[[str, int, int], None] = _nothing, *, verify: bool = False
    ) -> None:
        work = Work(self.context, verify=verify)
        carry_out(
            self.context,
            self.out,
            lambda target: work.make_all(target, on_progress),
            self.check,
            summary=self.summary,
        )

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
                self.check()


def plan_edit(
    sources: Sequence[Source],
    recipe: Recipe,
    said: Sequence[str],
    out: Path | None,
    *,
    link: bool = False,
) -> EditPlan:
    """Return what an edit would do. Nothing is changed.

    Args:
        sources: What the recipe's pieces refer to.
        recipe: What the new dataset is made of.
        said: What was asked for, in words.
        out: Where the new dataset is written; None to change the first source.
        link: Whether files of a new dataset may share their bytes with the old ones.

    Raises:
        EditError: It cannot be done as asked.
        EncodingError: Images cannot be encoded as asked.
    """
    if out is not None:
        _check_place(out, sources)
    manifests = [source.manifest for source in sources]
    tasks = plan_tasks(recipe, manifests)
    layout = lay_out(recipe, sources, tasks, in_place=out is None, link=link)
    subtasks = plan_subtasks(manifests)
    context = EditContext(recipe, tuple(sources), tasks, subtasks, layout, in_place=out is None)
    check_encodings(context)
    files = (*layout.data, *layout.videos)
    return EditPlan(sources[0].root, out, files, context.states(), tuple(said), context)


def _check_place(out: Path, sources: Sequence[Source]) -> None:
    """Raise if a new dataset would lie inside an old one, and so become a part of it."""
    place = out.resolve()
    for source in sources:
        if source.root.resolve() in place.parents:
            raise EditError(
                f"The new dataset would lie inside the old one: choose a folder outside "
                f"{str(source.root)!r}, not {str(out)!r}."
            )


def _few(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(map(repr, names[:_MOST_SHOWN])) + (f" and {more:,} more" if more > 0 else "")
