"""Batches of tensors, read ahead by threads of this process."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch

from roboreel.errors import SampleError
from roboreel.loading.prefetch import Prefetcher
from roboreel.loading.sampling import make_order
from roboreel.order.order import Local, Weighted
from roboreel.order.split import Split

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from numpy.typing import NDArray

    from roboreel.loading.sampling import Shuffle, Weights
    from roboreel.order.order import Order
    from roboreel.torch.samples import Sample, SampleDataset

__all__ = ["Loader"]


class Loader:
    """Batches of an epoch, and then of the next, in an order that depends on the seed alone.

    ``for batch in loader`` runs from where the loader stands to the end of the epoch; the loader
    then stands at the beginning of the next one. Left early, by ``break`` or an error, it stands
    behind the last batch that was given out, and goes on from there. Work is done ahead by threads
    of this process, since decoding does not hold the interpreter's lock; when the loop is left,
    they have ended.

    A batch is a dict of tensors ``(B, …)`` and lists of texts, and belongs to whoever gets it.

    Args:
        samples: What to load.
        batch_size: Samples of a batch of this rank.
        shuffle: ``False``; ``"uniform"``, over the whole dataset; or ``"local"``, so that
            neighbours, which share the work of decoding, are visited together.
        seed: Of the order. The same on all ranks.
        threads: Batches that are read side by side. Images of each are decoded by the dataset's
            own ``decode_threads``.
        prefetch: Batches that are begun or ready ahead of the one in use. Memory is that of as
            many batches and one more. With ``"local"``, half of them are read at a time, so that
            an image that several need is decoded once: more of them mean less decoding. So are
            batches without images and transforms, which are cheaper to read than to hand over.
            Those stay together in memory until the last of them is taken: half as much again.
        rank: Which share of each step is this process's.
        world_size: Processes that share each step.
        drop_last: Leave out the samples at the end of an epoch that do not fill a batch on every
            rank. Otherwise all are seen, and a rank for which none is left ends one batch earlier.
        weights: Shares of episodes by number, of tasks by text, or one for each episode; needs
            ``shuffle="uniform"``, and samples are then drawn with replacement.
        block: Of ``"local"``: neighbours that are visited together. See docs/shuffling.md.
        buffer: Of ``"local"``: blocks that are mixed with each other.
        transform: Called with each batch, in a thread.
        pin_memory: Copy batches to page-locked memory, from which they reach an accelerator
            faster. Without an accelerator there is nothing to lock for, and nothing is done.

    Raises:
        ValueError: Arguments that contradict each other.
    """

    def __init__(
        self,
        samples: SampleDataset,
        batch_size: int,
        *,
        shuffle: Shuffle = False,
        seed: int = 0,
        threads: int = 2,
        prefetch: int = 4,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = True,
        weights: Weights | None = None,
        block: int = 32,
        buffer: int = 16,
        transform: Callable[[Sample], Any] | None = None,
        pin_memory: bool = False,
    ) -> None:
        if threads < 1 or prefetch < 1:
            raise ValueError(
                f"threads and prefetch are 1 or more; they are {threads} and {prefetch}."
            )
        self.samples = samples
        self.order = make_order(
            samples.dataset,
            samples.anchors.samples_per_episode,
            shuffle=shuffle,
            seed=seed,
            weights=weights,
            block=block,
            buffer=buffer,
        )
        self.split = Split(self.order.num_samples, batch_size, rank, world_size, drop_last)
        self.threads = threads
        self.prefetch = prefetch
        self.transform = transform
        self.pin_memory = pin_memory and torch.cuda.is_available()
        self._seed = seed
        self._epoch = 0
        self._consumed = 0
        self._running: Prefetcher[list[_Step], list[Any]] | None = None

    @property
    def epoch(self) -> int:
        """The epoch whose batches come next."""
        return self._epoch

    def __len__(self) -> int:
        """How many batches each rank has in a whole epoch."""
        return self.split.num_batches()

    def __iter__(self) -> Generator[Any, None, None]:
        """Yield the batches that are left of this epoch."""
        self._stop()
        together = max(1, self.prefetch // 2) if self._reads_several() else 1
        running = Prefetcher(
            self._load,
            _grouped(self._steps(), together),
            threads=self.threads,
            ahead=self.prefetch // together,
        )
        self._running = running
        try:
            for steps, batches in running:
                for step, batch in zip(steps, batches, strict=True):
                    if self._running is not running:
                        break
                    self._consumed = step.consumed
                    yield _raised(batch)
        finally:
            running.close()
        if self._running is not running:
            raise RuntimeError(
                "Another iteration over this loader has begun, or its place was set: a loader "
                "stands at one place. Make two loaders to read twice at a time."
            )
        self._running = None
        self._epoch, self._consumed = self._epoch + 1, 0

    def set_epoch(self, epoch: int) -> None:
        """Stand at the beginning of an epoch."""
        self._stop()
        self._epoch, self._consumed = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader stands: a few numbers, whatever the size of the dataset."""
        return {
            "seed": self._seed,
            "epoch": self._epoch,
            "consumed": self._consumed,
            "num_samples": self.order.num_samples,
            "order": _describe(self.order),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Stand where another loader stood, also one of other ranks, batch size or threads.

        Raises:
            ValueError: That one had another order: other samples, shuffle, weights or seed.
        """
        mine = self.state_dict()
        for name in ("num_samples", "order", "seed"):
            if state[name] != mine[name]:
                raise ValueError(
                    f"The state is of a loader with {name} {state[name]!r}; this one has "
                    f"{mine[name]!r}. Make the loader with the arguments of that one."
                )
        self._stop()
        self._epoch, self._consumed = int(state["epoch"]), int(state["consumed"])

    def _reads_several(self) -> bool:
        """Whether batches are read several at a time.

        They are where they share images, and where reading one costs less than handing it over
        from one thread to another.
        """
        plain = self.transform is None and self.samples.transform is None
        return isinstance(self.order, Local) or (plain and not self.samples.has_images)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _steps(self) -> Iterator[_Step]:
        epoch, consumed = self._epoch, self._consumed
        for batch in range(self.split.num_batches(consumed)):
            positions = self.split.positions(batch, consumed)
            if len(positions):
                samples = self.order.samples(epoch, positions)
                yield _Step(samples, self.split.span(batch, consumed)[1])

    def _load(self, steps: list[_Step]) -> list[Any]:
        """Return the batches of some steps, or in their places the errors that they ended with."""
        try:
            whole = self.samples.read(np.concatenate([step.samples for step in steps]))
        except Exception as error:  # noqa: BLE001  # raised in the loop, in its place
            if len(steps) == 1:
                return [_Failed(error)]
            # One by one, so that the error comes in the place of its own batch.
            return [batch for step in steps for batch in self._load([step])]
        bounds = np.cumsum([0, *(len(step.samples) for step in steps)]).tolist()
        parts = [
            {name: values[start:stop] for name, values in whole.items()}
            for start, stop in pairwise(bounds)
        ]
        return [self._finish(step, part) for step, part in zip(steps, parts, strict=True)]

    def _finish(self, step: _Step, batch: Any) -> Any:  # noqa: ANN401  # what the transform returns
        if self.transform is not None:
            try:
                batch = self._transformed(step.samples, batch)
            except SampleError as error:
                return _Failed(error)
        return _pin(batch) if self.pin_memory else batch

    def _transformed(self, samples: NDArray[np.int64], batch: Sample) -> Any:  # noqa: ANN401
        assert self.transform is not None
        try:
            return self.transform(batch)
        except Exception as error:
            numbers = ", ".join(map(str, samples.tolist()))
            raise SampleError(
                f"The transform of a batch failed with {error!r}. Its samples: {numbers}."
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One batch to load."""

    samples: NDArray[np.int64]
    consumed: int
    """Positions of the epoch that all ranks have taken after it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Failed:
    """Stands in the place of a batch that could not be loaded."""

    error: Exception


def _raised(batch: Any) -> Any:  # noqa: ANN401  # a batch
    if isinstance(batch, _Failed):
        raise batch.error
    return batch


def _grouped(steps: Iterator[_Step], count: int) -> Iterator[list[_Step]]:
    while group := list(islice(steps, count)):
        yield group


def _describe(order: Order) -> list[Any]:
    """Return what makes an order what it is, beside its seed and length."""
    described: list[Any] = [type(order).__name__]
    if isinstance(order, Local):
        described += [order.block, order.buffer]
    if isinstance(order, Weighted):
        described += [crc32(order.weights.tobytes()), crc32(order.lengths.tobytes())]
    return described


def _pin(batch: Any) -> Any:  # noqa: ANN401  # what a transform may return
    if isinstance(batch, torch.Tensor):
        return batch.pin_memory()
    if isinstance(batch, dict):
        return {name: _pin(values) for name, values in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(_pin(values) for values in batch)
    return batch
