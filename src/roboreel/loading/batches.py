"""The batches of some steps, read in a thread or in a worker process."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from roboreel.errors import DatasetError, SampleError
from roboreel.loading.skipping import OF_NO_SAMPLE, OF_THE_DATASET, find_failing
from roboreel.loading.transforming import Transform, sample_seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


class SampleReader(Protocol):
    """The samples of a training run, by number."""

    @property
    def has_images(self) -> bool:
        """Whether any feature that is read is a camera."""

    @property
    def transform(self) -> Callable[..., Any] | None:
        """What is done with every single sample."""

    def read_batches(
        self, batches: Sequence[NDArray[np.int64]], seeds: Sequence[NDArray[np.uint64]], /
    ) -> list[dict[str, Any]]:
        """Return batches: arrays, tensors or lists, each ``(B, …)``.

        The transform of each sample draws from a generator that is made from its seed.
        """

    def make_generator(self, seed: int, /) -> Any:  # noqa: ANN401  # NumPy's, or a framework's
        """Return the generator that a transform is called with."""

    def enter_worker(self) -> None:
        """Prepare a process that does nothing but read these samples."""

    @property
    def reducers(self) -> Mapping[type[Any], Callable[[Any], Any]]:
        """How values of a framework are pickled, as arrays; see `pickle.Pickler.dispatch_table`."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One batch to load."""

    samples: NDArray[np.int64]
    epoch: int
    positions: NDArray[np.int64]
    """Where the samples stand in the epoch, ``(B,)``."""
    consumed: int
    """Positions of the epoch that all ranks have taken after it."""

    def only(self, places: NDArray[np.int64]) -> Step:
        """Return the step with some of its samples."""
        return replace(self, samples=self.samples[places], positions=self.positions[places])


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A batch, or the error that takes its place."""

    batch: Any = None
    error: Exception | None = None
    skipped: Mapping[int, DatasetError] = field(default_factory=dict)
    """Samples that were left out."""
    trace: str = ""
    """Where the error was raised, if in another process."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchReader:
    """Reads batches; it can be pickled if the samples and the transform can."""

    samples: SampleReader
    seed: int
    transform: Callable[..., Any] | None
    """Called with each batch."""
    leaves_out: bool
    """Whether samples that cannot be read are left out."""

    def load(self, steps: list[Step]) -> list[Loaded]:
        """Return the batches of some steps; where one failed, its error takes its place."""
        try:
            batches = self._read(steps)
        except OF_THE_DATASET as error:
            return [Loaded(error=error) for _ in steps]
        except Exception as error:  # noqa: BLE001  # raised in the loop, in its place
            if len(steps) == 1:
                return [self._load_without_failing(steps[0], error)]
            # One by one, so that the error comes in the place of its own batch.
            return [batch for step in steps for batch in self.load([step])]
        return [self._finished(step, batch) for step, batch in zip(steps, batches, strict=True)]

    def _read(self, steps: list[Step]) -> list[dict[str, Any]]:
        seeds = [sample_seeds(self.seed, step.epoch, step.positions) for step in steps]
        return self.samples.read_batches([step.samples for step in steps], seeds)

    def _load_without_failing(self, step: Step, error: Exception) -> Loaded:
        """Return a batch without the samples that cannot be read, or the error if all cannot."""
        is_bad = isinstance(error, DatasetError) and not isinstance(error, OF_NO_SAMPLE)
        if not self.leaves_out or not is_bad:
            return Loaded(error=error)
        places = np.arange(len(step.samples))
        failing = find_failing(lambda some: self._read([step.only(some)]), places)
        kept = step.only(np.setdiff1d(places, list(failing)))
        if not len(kept.samples):
            return Loaded(error=error)
        try:
            loaded = self._finished(kept, self._read([kept])[0])
        except DatasetError as again:
            return Loaded(error=again)
        skipped = {int(step.samples[place]): cause for place, cause in failing.items()}
        return replace(loaded, skipped=skipped)

    def _finished(self, step: Step, batch: dict[str, Any]) -> Loaded:
        try:
            return Loaded(self._transformed(step, batch))
        except Exception as error:  # noqa: BLE001  # raised in the loop, in its place
            return Loaded(error=error)

    def _transformed(self, step: Step, batch: dict[str, Any]) -> Any:  # noqa: ANN401
        if self.transform is None:
            return batch
        seed = sample_seeds(self.seed, step.epoch, step.positions[:1], of_batch=True)
        try:
            return Transform(self.transform, self.samples.make_generator)(batch, int(seed[0]))
        except Exception as error:
            numbers = ", ".join(map(str, step.samples.tolist()))
            raise SampleError(
                f"The transform of a batch failed with {error!r}. Its samples: {numbers}."
            ) from error
