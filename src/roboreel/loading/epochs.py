"""Batches of one epoch after another, read ahead of time and resumable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

import numpy as np

from roboreel.errors import DatasetError, SampleError
from roboreel.loading.prefetch import Prefetcher
from roboreel.loading.skipping import Skipped, find_failing
from roboreel.loading.transforming import Transform, sample_seeds
from roboreel.numbers import check_at_least
from roboreel.order.order import LocalOrder, Weighted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.loading.skipping import Skip
    from roboreel.order.order import Order
    from roboreel.order.split import Split

__all__ = ["Epochs", "ReadAhead", "SampleReader"]


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """How far ahead of the training loop batches are read."""

    threads: int = 2
    """Batches that are read side by side."""
    prefetch: int = 4
    """Batches that are begun or ready, ahead of the one in use."""

    def __post_init__(self) -> None:
        check_at_least(1, threads=self.threads, prefetch=self.prefetch)


class SampleReader(Protocol):
    """The samples of a training run, by number."""

    @property
    def has_images(self) -> bool:
        """Whether any feature that is read is a camera."""

    @property
    def transform(self) -> Callable[..., Any] | None:
        """What is done with every single sample."""

    def read(self, samples: NDArray[np.int64], seeds: NDArray[np.uint64], /) -> dict[str, Any]:
        """Return a batch: arrays, tensors or lists, each ``(B, …)``.

        The transform of each sample draws from a generator that is made from its seed.
        """

    def make_generator(self, seed: int, /) -> Any:  # noqa: ANN401  # NumPy's, or a framework's
        """Return the generator that a transform is called with."""


class Epochs:
    """Batches of an epoch, and then of the next.

    Args:
        samples: What to load.
        order: Which sample stands at each position of an epoch.
        split: Returns how an epoch is cut into batches. Asked when an epoch begins, since the
            process group of a training run may come up after the loader was made.
        seed: The seed of the order and of the transforms' generators, kept in the state.
        ahead: How far to read ahead.
        transform: Called with each batch, in a thread; with a generator too, if it takes one.
        skip: How many samples that cannot be read are left out; None raises their errors.
    """

    def __init__(
        self,
        samples: SampleReader,
        order: Order,
        split: Callable[[], Split],
        *,
        seed: int,
        ahead: ReadAhead,
        transform: Callable[..., Any] | None = None,
        skip: Skip | None = None,
    ) -> None:
        self.samples = samples
        self.order = order
        self.seed = seed
        self.ahead = ahead
        self.transform = transform
        self.skip = skip
        self._split = split
        self._transform = (
            None if transform is None else Transform(transform, samples.make_generator)
        )
        self._skipped = Skipped()
        self._epoch = 0
        self._consumed = 0
        self._running: Prefetcher[list[_Step], list[_Loaded]] | None = None

    @property
    def split(self) -> Split:
        """How an epoch is cut into batches, as of now."""
        return self._split()

    @property
    def skipped(self) -> Mapping[int, str]:
        """The samples that this loader has left out, with their errors."""
        return MappingProxyType(self._skipped.errors)

    @property
    def epoch(self) -> int:
        """The epoch whose batches come next."""
        return self._position()[0]

    def __len__(self) -> int:
        """How many batches each rank has in a whole epoch."""
        return self.split.num_batches()

    def __iter__(self) -> Generator[Any, None, None]:
        """Yield the batches that are left of this epoch; of the next one, if none is left."""
        self._stop()
        split = self.split
        epoch, self._consumed = self._position()
        self._epoch = epoch
        self._running = running = self._start(split)
        over = False
        try:
            for step, loaded in _one_by_one(running):
                if self._running is not running:
                    break
                # Whoever takes exactly ``len(loader)`` batches never comes back here: the epoch
                # has to be over when its last batch is handed out.
                self._consumed = step.consumed
                over = split.num_batches(step.consumed) == 0
                yield self._handed_out(loaded)
        finally:
            running.close()
        if self._running is running:
            self._running = None
            self._epoch, self._consumed = epoch + 1, 0
        elif not over:
            raise RuntimeError(
                "Another iteration over this loader has begun, or its position was set: a loader "
                "has one position. Make two loaders to read twice at a time."
            )

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._stop()
        self._epoch, self._consumed = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the loader: a few numbers, whatever the size of the dataset."""
        epoch, consumed = self._position()
        return {
            "seed": self.seed,
            "epoch": epoch,
            "consumed": consumed,
            "num_samples": self.order.num_samples,
            "order": _describe(self.order),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the position of another loader; ranks, batch size and threads may differ.

        Raises:
            ValueError: That loader had another order: other samples, shuffle, weights or seed.
        """
        mine = self.state_dict()
        for name in ("num_samples", "order", "seed"):
            if state[name] != mine[name]:
                raise ValueError(
                    f"The state is from a loader whose {name} is {state[name]!r}; here it is "
                    f"{mine[name]!r}. Make the loader with the arguments of that one."
                )
        self._stop()
        self._epoch, self._consumed = int(state["epoch"]), int(state["consumed"])

    def _finish(self, batch: Any) -> Any:  # noqa: ANN401  # what the transform returned
        """Return a batch as it is handed out."""
        return batch

    def _position(self) -> tuple[int, int]:
        """Return the epoch, and the positions of it that are consumed; never all of them."""
        if self._consumed and self.split.num_batches(self._consumed) == 0:
            return self._epoch + 1, 0
        return self._epoch, self._consumed

    def _start(self, split: Split) -> Prefetcher[list[_Step], list[_Loaded]]:
        together = max(1, self.ahead.prefetch // 2) if self._reads_several() else 1
        return Prefetcher(
            self._load,
            _grouped(self._steps(split), together),
            threads=self.ahead.threads,
            ahead=self.ahead.prefetch // together,
        )

    def _reads_several(self) -> bool:
        """Whether several batches are read at a time.

        They are if they share images, or if reading a batch costs less than handing it over from
        one thread to another.
        """
        plain = self.transform is None and self.samples.transform is None
        return isinstance(self.order, LocalOrder) or (plain and not self.samples.has_images)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _steps(self, split: Split) -> Iterator[_Step]:
        epoch, consumed = self._epoch, self._consumed
        for batch in range(split.num_batches(consumed)):
            positions = split.positions(batch, consumed)
            if len(positions):
                samples = self.order.samples(epoch, positions)
                yield _Step(samples, epoch, positions, split.span(batch, consumed)[1])

    def _load(self, steps: list[_Step]) -> list[_Loaded]:
        """Return the batches of some steps; where one failed, its error takes its place."""
        try:
            whole = self._read(steps)
        except Exception as error:  # noqa: BLE001  # raised in the loop, in its place
            if len(steps) == 1:
                return [self._load_without_failing(steps[0], error)]
            # One by one, so that the error comes in the place of its own batch.
            return [batch for step in steps for batch in self._load([step])]
        bounds = np.cumsum([0, *(len(step.samples) for step in steps)]).tolist()
        parts = [
            {name: values[start:stop] for name, values in whole.items()}
            for start, stop in pairwise(bounds)
        ]
        return [self._finished(step, part) for step, part in zip(steps, parts, strict=True)]

    def _read(self, steps: list[_Step]) -> dict[str, Any]:
        samples = np.concatenate([step.samples for step in steps])
        seeds = [sample_seeds(self.seed, step.epoch, step.positions) for step in steps]
        return self.samples.read(samples, np.concatenate(seeds))

    def _load_without_failing(self, step: _Step, error: Exception) -> _Loaded:
        """Return a batch without the samples that cannot be read, or the error if all cannot."""
        if self.skip is None or not isinstance(error, DatasetError):
            return _Loaded(error=error)
        places = np.arange(len(step.samples))
        failing = find_failing(lambda some: self._read([step.only(some)]), places)
        kept = step.only(np.setdiff1d(places, list(failing)))
        if not len(kept.samples):
            return _Loaded(error=error)
        try:
            loaded = self._finished(kept, self._read([kept]))
        except DatasetError as again:
            return _Loaded(error=again)
        skipped = {int(step.samples[place]): cause for place, cause in failing.items()}
        return replace(loaded, skipped=skipped)

    def _finished(self, step: _Step, batch: dict[str, Any]) -> _Loaded:
        try:
            return _Loaded(self._finish(self._transformed(step, batch)))
        except Exception as error:  # noqa: BLE001  # raised in the loop, in its place
            return _Loaded(error=error)

    def _transformed(self, step: _Step, batch: dict[str, Any]) -> Any:  # noqa: ANN401
        if self._transform is None:
            return batch
        seed = sample_seeds(self.seed, step.epoch, step.positions[:1], of_batch=True)
        try:
            return self._transform(batch, int(seed[0]))
        except Exception as error:
            numbers = ", ".join(map(str, step.samples.tolist()))
            raise SampleError(
                f"The transform of a batch failed with {error!r}. Its samples: {numbers}."
            ) from error

    def _handed_out(self, loaded: _Loaded) -> Any:  # noqa: ANN401  # what the transform returned
        if self.skip is not None:
            self._skipped.add(loaded.skipped, self.skip.limit)
        if loaded.error is not None:
            raise loaded.error
        return loaded.batch


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One batch to load."""

    samples: NDArray[np.int64]
    epoch: int
    positions: NDArray[np.int64]
    """Where the samples stand in the epoch, ``(B,)``."""
    consumed: int
    """Positions of the epoch that all ranks have taken after it."""

    def only(self, places: NDArray[np.int64]) -> _Step:
        """Return the step with some of its samples."""
        return replace(self, samples=self.samples[places], positions=self.positions[places])


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    """A batch, or the error that takes its place."""

    batch: Any = None
    error: Exception | None = None
    skipped: Mapping[int, DatasetError] = field(default_factory=dict)
    """Samples that were left out."""


def _one_by_one(
    running: Prefetcher[list[_Step], list[_Loaded]],
) -> Iterator[tuple[_Step, _Loaded]]:
    for steps, batches in running:
        yield from zip(steps, batches, strict=True)


def _grouped(steps: Iterator[_Step], count: int) -> Iterator[list[_Step]]:
    while group := list(islice(steps, count)):
        yield group


def _describe(order: Order) -> list[Any]:
    """Return what an order is made of, apart from its seed and length.

    Checkpoints hold this: a change here refuses those that were written before.
    """
    if isinstance(order, LocalOrder):
        return ["Local", order.local.block, order.local.buffer]
    if isinstance(order, Weighted):
        return ["Weighted", crc32(order.weights.tobytes()), crc32(order.lengths.tobytes())]
    return [type(order).__name__]
