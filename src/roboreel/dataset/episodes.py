"""Episodes as a lazy sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from roboreel.errors import EpisodeNotFoundError
from roboreel.sample_spec import spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.dataset.dataset import Dataset
    from roboreel.image import Layout
    from roboreel.sample_spec import SampleSpec

__all__ = ["Episode", "Episodes"]


@dataclass(frozen=True, slots=True)
class Episode:
    """One uninterrupted run of the robot: the rows ``[start, stop)`` of its dataset."""

    dataset: Dataset
    position: int
    """Where it stands in the dataset's episode table."""

    @property
    def number(self) -> int:
        """What the dataset calls it."""
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
        """What the robot was told."""
        return self.dataset.manifest.episodes.tasks_of(self.position)

    def __len__(self) -> int:
        return self.length

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

    def __repr__(self) -> str:
        return (
            f"Episode(number={self.number}, start={self.start}, stop={self.stop}, "
            f"tasks={self.tasks!r})"
        )


class Episodes(Sequence[Episode]):
    """The episodes of a dataset or a view, in ascending order; made when looked at.

    The place in the sequence is the episode's number where the numbers run from 0 without gaps,
    as they nearly always do; in a view it is the place in the view.
    """

    def __init__(self, dataset: Dataset, positions: NDArray[np.int64]) -> None:
        self._dataset = dataset
        self._positions = positions

    @property
    def numbers(self) -> NDArray[np.int64]:
        """What the dataset calls each, ``(E,)``."""
        return self._dataset.manifest.episodes.number[self._positions]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Frames of each, ``(E,)``."""
        return self._dataset.manifest.episodes.length[self._positions]

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, key: int) -> Episode: ...
    @overload
    def __getitem__(self, key: slice) -> list[Episode]: ...
    def __getitem__(self, key: int | slice) -> Episode | list[Episode]:
        if isinstance(key, slice):
            return [Episode(self._dataset, int(p)) for p in self._positions[key]]
        if not -len(self) <= key < len(self):
            raise self.missing(key)
        return Episode(self._dataset, int(self._positions[key]))

    def __repr__(self) -> str:
        return f"Episodes({len(self)} of {str(self._dataset.path)!r})"

    def missing(self, key: int) -> EpisodeNotFoundError:
        """Return the error for an episode that is not here."""
        numbers = self.numbers
        there = "there are no episodes"
        if len(numbers):
            gaps = "" if numbers[-1] - numbers[0] + 1 == len(numbers) else ", with gaps"
            there = f"there are {len(numbers)} episodes, {numbers[0]} to {numbers[-1]}{gaps}"
        return EpisodeNotFoundError(
            f"Episode {key} does not exist: {there}, in {str(self._dataset.path)!r}."
        )
