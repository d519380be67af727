"""The episodes of a dataset, as a lazy sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from roboreel.errors import EpisodeNotFoundError
from roboreel.format.statistics import read_stats_of
from roboreel.numbers import positions
from roboreel.sample_spec import spec_of
from roboreel.schema import describe_episodes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.dataset.dataset import Dataset
    from roboreel.image import Layout
    from roboreel.sample_spec import SampleSpec
    from roboreel.stats import FeatureStats
    from roboreel.video.encoding import Encoding


@dataclass(frozen=True, slots=True)
class Episode:
    """One uninterrupted run of the robot: the rows ``[start, stop)`` of its dataset.

    ``episode["action"]`` is the feature over the whole episode, ``(T, …)``.
    """

    dataset: Dataset
    position: int
    """Its position in the dataset's episode table."""

    @property
    def number(self) -> int:
        """The number that the dataset gives it."""
        return int(self.dataset.manifest.episodes.number[self.position])

    @property
    def start(self) -> int:
        """Row of the first frame."""
        return int(self.dataset.manifest.episodes.start[self.position])

    @property
    def stop(self) -> int:
        """Row right after the last frame."""
        return self.start + self.length

    @property
    def length(self) -> int:
        """How many frames it has."""
        return int(self.dataset.manifest.episodes.length[self.position])

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, in words."""
        return self.dataset.manifest.episodes.tasks_of(self.position)

    @property
    def metadata(self) -> dict[str, Any]:
        """What the dataset says of it beyond LeRobot's own columns, such as its success.

        By column of the episode table, or by key of ``episodes.jsonl``; None where this episode has
        no value. Read at the first access, for all episodes together.
        """
        columns = self.dataset._opened.episode_metadata
        return {name: column[self.position] for name, column in columns.items()}

    @property
    def stats(self) -> Mapping[str, FeatureStats]:
        """Its own statistics by feature, read from the metadata; empty if there are none.

        To compute them, write ``dataset.select([episode.number]).compute_stats()``.
        """
        return read_stats_of(self.dataset._opened.episode_list, self.number)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, feature: str) -> Any:  # noqa: ANN401  # an array, or a list of tasks
        """Return a feature of all frames, ``(T, …)``; the task of each frame for ``"task"``.

        Raises:
            FeatureNotFoundError: The feature does not exist.
        """
        if not isinstance(feature, str):
            raise TypeError(
                f"An episode is indexed by the name of a feature, not by {feature!r}: write "
                "episode['action'][0]."
            )
        return self.read(feature)[feature]

    def read(
        self,
        features: Sequence[str] | SampleSpec | None = None,
        *,
        image_size: Sequence[int] | None = None,
        layout: Layout | None = None,
    ) -> dict[str, Any]:
        """Return the whole episode, each feature as ``(T, …)``; see `Dataset.read`."""
        spec = spec_of(features, None, image_size, layout)
        return self.dataset._reader.read_episode(self.position, spec)

    def stream(
        self,
        camera: str,
        *,
        image_size: Sequence[int] | None = None,
        layout: Layout | None = None,
    ) -> Iterator[NDArray[Any]]:
        """Yield the images of a camera one at a time; memory does not grow with the length."""
        spec = spec_of(camera, None, image_size, layout)
        return self.dataset._reader.stream(camera, self.position, spec)

    def to_video(
        self,
        path: str | os.PathLike[str],
        camera: str | None = None,
        *,
        encoding: Encoding | Literal["copy"] | None = None,
    ) -> Path:
        """Write the images of a camera to an MP4 file, and return its path.

        Packets are copied, so that nothing is lost, where they can be: from a clip that starts at a
        keyframe. Other images, and pictures, are encoded. An existing file is replaced.

        Args:
            path: Where to write, outside the dataset's folder.
            camera: Which camera; may be left out if there is only one.
            encoding: Encode the images again in this way; or ``"copy"``, to get the same pixels or
                an error.

        Raises:
            EncodingError: The packets cannot be copied, though only that was asked for.
            FeatureNotFoundError: There is no such camera, or there are several.
        """
        from roboreel.dataset.episode_video import write_episode_video

        return write_episode_video(self, path, camera, encoding)

    def __repr__(self) -> str:
        return (
            f"Episode(number={self.number}, start={self.start}, stop={self.stop}, "
            f"tasks={self.tasks!r})"
        )


class Episodes(Sequence[Episode]):
    """The episodes of a dataset or a view, in ascending order of their numbers.

    They are indexed by position. In a dataset whose episodes are numbered from 0 without gaps, as
    they nearly always are, the position is the number; in a view it is not:
    ``dataset.select(episodes=[7]).episodes[0].number`` is 7.
    """

    def __init__(self, dataset: Dataset, positions: NDArray[np.int64]) -> None:
        self._dataset = dataset
        self._positions = positions

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each episode, ``(E,)``."""
        return self._dataset.manifest.episodes.number[self._positions]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Frames of each episode, ``(E,)``."""
        return self._dataset.manifest.episodes.length[self._positions]

    @cached_property
    def metadata(self) -> Mapping[str, NDArray[Any]]:
        """What the dataset says of each episode, by column, ``(E,)``: see `Episode.metadata`.

        Columns of booleans or numbers without gaps have that dtype; others are objects, None where
        an episode has no value.
        """
        columns = self._dataset._opened.episode_metadata
        return {
            name: _as_array([column[place] for place in self._positions.tolist()])
            for name, column in columns.items()
        }

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, key: int) -> Episode: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[np.int64]) -> list[Episode]: ...
    def __getitem__(
        self, key: int | slice | Sequence[int] | NDArray[np.int64]
    ) -> Episode | list[Episode]:
        where = f", in {str(self._dataset.path)!r}"
        try:
            picked = positions(key, len(self), "episode", where=where, error=EpisodeNotFoundError)
        except EpisodeNotFoundError as error:
            if np.array_equal(self.numbers, np.arange(len(self))):
                raise
            raise EpisodeNotFoundError(
                f"{error} These are positions; by number, {describe_episodes(self.numbers)}: write "
                "select(episodes=[…])."
            ) from None
        if isinstance(picked, int):
            return Episode(self._dataset, int(self._positions[picked]))
        return [Episode(self._dataset, place) for place in self._positions[picked].tolist()]

    def __repr__(self) -> str:
        return f"Episodes({len(self)} of {str(self._dataset.path)!r})"

    def missing(self, number: int) -> EpisodeNotFoundError:
        """Return the error for an episode number that is not here."""
        return EpisodeNotFoundError(
            f"Episode {number} does not exist: {describe_episodes(self.numbers)}, in "
            f"{str(self._dataset.path)!r}."
        )


def _as_array(values: list[Any]) -> NDArray[Any]:
    kinds = {type(value) for value in values}
    if kinds in ({bool}, {int}, {float}, {int, float}):
        array = np.asarray(values)
        if array.dtype != object:  # Python's integers may be larger than NumPy's.
            return array
    return np.fromiter(values, object, len(values))
