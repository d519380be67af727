"""Edits of a dataset, collected one by one and carried out together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.opened import Opened
from roboreel.edit.checks import check_camera, check_columns, check_rename, check_text, with_depth
from roboreel.edit.idle import moving_span
from roboreel.edit.layout import new_names
from roboreel.edit.plan import plan_edit
from roboreel.edit.recipe import CameraCoding, Recipe, whole_episodes
from roboreel.edit.sources import Source
from roboreel.errors import EditError
from roboreel.numbers import is_rate

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from roboreel.edit.plan import EditPlan
    from roboreel.video.encoding import Encoding

    Value = bool | int | float | str

_MOST_PIXELS = 16_384
_MOST_FPS = 10_000


def edit_dataset(path: str | os.PathLike[str]) -> Edit:
    """Return an edit of a dataset, to which operations are added; nothing is changed yet.

    Args:
        path: The dataset's folder. v2.0, v2.1 and v3.0 are edited as they are.

    Raises:
        NotADatasetError: There is no dataset at this path.
        EditError: Its metadata contradicts itself.

    Examples:
        >>> edit = edit_dataset("data/arm").delete([3]).trim(5, stop_s=8.0)  # doctest: +SKIP
        >>> print(edit.plan())  # doctest: +SKIP
        >>> edit.apply()  # doctest: +SKIP
    """
    source = Source(path)
    return Edit(source, Recipe(whole_episodes(source.manifest.episodes.length)))


@dataclass(frozen=True)
class Edit:
    """Operations on a dataset. Each returns a new edit; nothing happens before `apply`.

    The numbers of episodes are those that the dataset has now, in every operation.
    """

    source: Source
    recipe: Recipe
    said: tuple[str, ...] = ()
    """What was asked for, in words."""

    def delete(self, episodes: Sequence[int]) -> Edit:
        """Return the edit without some episodes. Those behind them get lower numbers.

        Raises:
            EpisodeNotFoundError: A number that no episode has.
            EditError: No episode would stay.
        """
        numbers = list(episodes)
        if not numbers:
            return self
        recipe = self.recipe.without(self._positions(numbers))
        return self._with(recipe, f"delete {_episodes(numbers)}")

    def keep(self, episodes: Sequence[int] | None = None, *, where: str | None = None) -> Edit:
        """Return the edit with some episodes alone.

        Args:
            episodes: Their numbers; all by default.
            where: A condition on episodes, as `Dataset.where` takes it.

        Raises:
            EpisodeNotFoundError: A number that no episode has.
            QueryError: The condition cannot be answered.
            EditError: No episode would stay.
        """
        table = self.source.manifest.episodes
        numbers = table.number.tolist() if episodes is None else list(episodes)
        wanted = set(self._positions(numbers))
        if where is not None:
            found = Dataset(Opened(self.source.manifest, None, None)).where(where)
            wanted &= set(self._positions(found.episodes.numbers.tolist()))
            if not wanted:
                raise EditError(f"No episode would stay: none of them has {where}.")
        gone = [position for position in range(len(table)) if position not in wanted]
        said = "keep the episodes" if episodes is None else f"keep {_episodes(numbers)}"
        said += "" if where is None else f" where {where}"
        return self._with(self.recipe.without(gone), said)

    def trim(
        self,
        episode: int,
        *,
        start_s: float | None = None,
        stop_s: float | None = None,
        start: int | None = None,
        stop: int | None = None,
    ) -> Edit:
        """Return the edit with a part of an episode.

        Args:
            episode: Its number.
            start_s: Where the part begins, in seconds from the start of the episode.
            stop_s: Where it ends.
            start: Its first frame, in place of ``start_s``.
            stop: The frame right after its last one, in place of ``stop_s``.

        Raises:
            EpisodeNotFoundError: A number that no episode has.
            EditError: No frame would stay.
        """
        position = self._positions([episode])[0]
        length = int(self.source.manifest.episodes.length[position])
        first = self._frame(start_s, start, 0, length)
        last = self._frame(stop_s, stop, length, length)
        if first >= last:
            raise EditError(
                f"No frame of the episode would stay: episode {episode} has {length} frames, and the "
                f"part from {first} to {last} has none. Delete the episode instead."
            )
        recipe = self.recipe.trimmed({position: (first, last)})
        return self._with(recipe, f"trim episode {episode} to frames {first} to {last}")

    def trim_idle(self, episodes: Sequence[int] | None = None) -> Edit:
        """Return the edit without the still frames at the start and the end of episodes.

        A frame is still if no number that is recorded of the robot changes by more than 1/500 of
        the range that it has in the dataset. Two frames before and after the movement stay.
        """
        table = self.source.manifest.episodes
        there = {piece.episode for piece in self.recipe.pieces}
        numbers = table.number.tolist() if episodes is None else list(episodes)
        spans, said = {}, []
        for number, position in zip(numbers, self._positions(numbers), strict=True):
            span = moving_span(self.source, position)
            if span != (0, int(table.length[position])) and position in there:
                spans[position] = span
                said.append(f"trim episode {number} to frames {span[0]} to {span[1]}")
        recipe = self.recipe.trimmed(spans) if spans else self.recipe
        return replace(self, recipe=recipe, said=(*self.said, *said))

    def cut(self, episode: int, *, at_s: float | None = None, at: int | None = None) -> Edit:
        """Return the edit with an episode in two. Those behind it get higher numbers.

        Args:
            episode: Its number.
            at_s: Where the second one begins, in seconds from the start of the episode.
            at: Its first frame, in place of ``at_s``.

        Raises:
            EpisodeNotFoundError: A number that no episode has.
            EditError: One of the two would have no frames.
        """
        if at_s is None and at is None:
            raise EditError(f"Say where to cut episode {episode}: at_s in seconds, or at a frame.")
        position = self._positions([episode])[0]
        length = int(self.source.manifest.episodes.length[position])
        frame = self._frame(at_s, at, 0, length)
        if not 0 < frame < length:
            raise EditError(
                f"Episode {episode} cannot be cut at frame {frame}: it has {length} frames, and both "
                "parts need one."
            )
        return self._with(
            self.recipe.cut(position, frame), f"cut episode {episode} at frame {frame}"
        )

    def set_task(self, episodes: Sequence[int], task: str) -> Edit:
        """Return the edit with another task of all frames of some episodes."""
        numbers = list(episodes)
        text = check_text(task, "task")
        if not numbers:
            return self
        recipe = self.recipe.with_task(self._positions(numbers), text)
        return self._with(recipe, f"the task of {_episodes(numbers)} is {task!r}")

    def replace_task(self, old: str, new: str, episodes: Sequence[int] | None = None) -> Edit:
        """Return the edit with a task in other words, in all episodes or in some.

        Raises:
            TaskNotFoundError: No episode has the task.
        """
        table = self.source.manifest.episodes
        table.has_task([old])
        numbers = table.number.tolist() if episodes is None else list(episodes)
        recipe = self.recipe.with_task_renamed(
            self._positions(numbers), old, check_text(new, "task")
        )
        return self._with(recipe, f"the task {old!r} becomes {new!r}")

    def set(self, episodes: Sequence[int] | None, columns: Mapping[str, Value | None]) -> Edit:
        """Return the edit with other values of what the metadata says of episodes.

        Args:
            episodes: Their numbers; None for all.
            columns: Values by column: ``{"success": True}``. None removes a value.

        Raises:
            EditError: A name is taken, or a value is not of its column's type.
        """
        table = self.source.manifest.episodes
        numbers = table.number.tolist() if episodes is None else list(episodes)
        checked = check_columns(self.source.manifest, columns, self.recipe.columns)
        if not numbers:
            return self
        recipe = self.recipe.with_columns(self._positions(numbers), checked)
        said = ", ".join(f"{name} = {value!r}" for name, value in checked.items())
        return self._with(recipe, f"{said} for {_episodes(numbers)}")

    def rename(self, feature: str, name: str) -> Edit:
        """Return the edit with another name of a feature.

        Raises:
            FeatureNotFoundError: There is no such feature.
            EditError: The name is taken, or cannot be one.
        """
        check_rename(self._names(), feature, name)
        return self._with(self.recipe.renamed({feature: name}), f"rename {feature} to {name}")

    def remove(self, feature: str) -> Edit:
        """Return the edit without a feature.

        Raises:
            FeatureNotFoundError: There is no such feature.
            EditError: It is one that every frame has.
        """
        check_rename(self._names(), feature, None)
        return self._with(self.recipe.renamed({feature: None}), f"remove {feature}")

    def reencode(self, camera: str, encoding: Encoding) -> Edit:
        """Return the edit with the video of a camera encoded otherwise.

        Raises:
            FeatureNotFoundError: There is no such camera.
            EditError: It is not stored as video, or shows depth, which needs HEVC.
        """
        check_camera(self.source.manifest, self._names(), camera)
        coding = with_depth(self.source.manifest.features[self._names()[camera]], camera, encoding)
        return self._coded(camera, CameraCoding(coding), f"encode {camera} as {encoding.codec}")

    def resize(self, camera: str, height: int, width: int) -> Edit:
        """Return the edit with the video of a camera in another size.

        Raises:
            FeatureNotFoundError: There is no such camera.
            EditError: It is not stored as video, or the size is not positive.
        """
        given: tuple[object, ...] = (height, width)  # a recipe may hold anything
        if not all(isinstance(side, int) and 1 <= side <= _MOST_PIXELS for side in given):
            raise EditError(
                f"A picture cannot have {height} x {width} pixels: give whole numbers, 1 to "
                f"{_MOST_PIXELS}."
            )
        return self._coded(
            camera, CameraCoding(size=(height, width)), f"resize {camera} to {height}x{width}"
        )

    def resample(self, fps: float) -> Edit:
        """Return the edit at another rate: each frame is the nearest old one, and video is encoded.

        Raises:
            EditError: The rate is not positive.
        """
        if not is_rate(fps) or fps > _MOST_FPS:
            raise EditError(f"{fps} frames per second are impossible: give 1e-6 to {_MOST_FPS}.")
        rate = int(fps) if float(fps).is_integer() else float(fps)
        return self._with(replace(self.recipe, fps=rate), f"resample to {rate} frames per second")

    def allow_reencoding(self) -> Edit:
        """Return the edit with leave to encode a clip again where its packets cannot be cut."""
        return replace(self, recipe=replace(self.recipe, reencode=True))

    def scrub(self) -> Edit:
        """Return the edit after which nothing of what leaves remains, and that cannot be undone."""
        recipe = replace(self.recipe, scrub=True)
        return self._with(recipe, "scrub: nothing remains of images that no episode has")

    def plan(self, out: str | os.PathLike[str] | None = None, *, link: bool = False) -> EditPlan:
        """Return what the edit would do. Nothing is changed.

        Args:
            out: A new folder for the edited dataset; by default the dataset itself changes.
            link: Whether files of a new dataset may share their bytes with the old ones. Whoever
                changes such a file in place changes both datasets.

        Raises:
            EditError: It cannot be done as asked.
        """
        folder = None if out is None else Path(out).expanduser()
        return plan_edit([self.source], self.recipe, self.said, folder, link=link)

    def apply(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        link: bool = False,
        **options: Any,  # noqa: ANN401  # of EditPlan.apply
    ) -> None:
        """Carry out the edit: see `plan`, and `EditPlan.apply` for further arguments."""
        self.plan(out, link=link).apply(**options)

    def _with(self, recipe: Recipe, said: str) -> Edit:
        return replace(self, recipe=recipe, said=(*self.said, said))

    def _coded(self, camera: str, coding: CameraCoding, said: str) -> Edit:
        check_camera(self.source.manifest, self._names(), camera)
        old = self.recipe.codings.get(camera, CameraCoding())
        both = CameraCoding(coding.encoding or old.encoding, coding.size or old.size)
        recipe = replace(self.recipe, codings={**self.recipe.codings, camera: both})
        return self._with(recipe, said)

    def _positions(self, numbers: Sequence[int]) -> list[int]:
        found: list[int] = self.source.manifest.episodes.positions_of(numbers).tolist()
        return found

    def _names(self) -> dict[str, str]:
        return new_names(self.source.manifest, self.recipe.names[0])

    def _frame(self, time_s: float | None, frame: int | None, default: int, length: int) -> int:
        """Return the first frame at a time or after it, or the frame that is named."""
        if time_s is not None and frame is not None:
            raise EditError(f"Give a time or a frame, not both: {time_s} s and frame {frame}.")
        if time_s is None and frame is None:
            return default
        said: object = frame if time_s is None else time_s  # a recipe may hold anything
        if not isinstance(said, float | int | np.number) or not 0 <= said < math.inf:
            raise EditError(
                f"{said!r} is not a moment of an episode: give a frame or seconds, counted from 0."
            )
        if frame is None:
            return min(math.ceil(float(said) * self.source.manifest.fps - 1e-6), length)
        if frame != int(frame):
            raise EditError(f"Frame {frame!r} does not exist: frames are whole numbers.")
        return min(int(frame), length)


def _episodes(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return f"episode {shown}" if len(numbers) == 1 else f"episodes {shown}{more}"
