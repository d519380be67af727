"""Batches of one epoch after another, read ahead of time and resumable."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

import numpy as np

from roboreel.errors import SampleError
from roboreel.loading.prefetch import Prefetcher
from roboreel.numbers import check_at_least
from roboreel.order.order import LocalOrder, Weighted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from numpy.typing import NDArray

    from roboreel.order.order import Order
    from roboreel.order.split import Split

__all__ = ["Epochs", "ReadAhead", "Samples"]


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """How far ahead of the training loop batches are read."""

    threads: int = 2
    """Batches that are read side by side."""
    prefetch: int = 4
    """Batches that are begun or ready, ahead of the one in use."""

    def __post_init__(self) -> None:
        check_at_least(1, threads=self.threads, prefetch=self.prefetch)


class Samples(Protocol):
    """The samples of a training run, by number."""

    @property
    def has_images(self) -> bool:
        """Whether any feature that is read is a camera."""

    @property
    def transform(self) -> Callable[[Any], Any] | None:
        """What is done with every single sample."""

    def read(self, samples: NDArray[np.int64], /) -> dict[str, Any]:
        """Return a batch: arrays, tensors or lists, each ``(B, …)``."""


class Epochs:
    """Batches of an epoch, and then of the next.

    Args:
        samples: What to load.
        order: Which sample stands at each position of an epoch.
        split: How an epoch is cut into batches.
        seed: The seed of the order, kept in the state.
        ahead: How far to read ahead.
        transform: Called with each batch, in a thread.
    """

    def __init__(
        self,
        samples: Samples,
        order: Order,
        split: Split,
        *,
        seed: int,
        ahead: ReadAhead,
        transform: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self.samples = samples
        self.order = order
        self.split = split
        self.seed = seed
        self.ahead = ahead
        self.transform = transform
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
        together = max(1, self.ahead.prefetch // 2) if self._reads_several() else 1
        running = Prefetcher(
            self._load,
            _grouped(self._steps(), together),
            threads=self.ahead.threads,
            ahead=self.ahead.prefetch // together,
        )
        self._running = running
        try:
            for steps, batches in running:
                for step, batch in zip(steps, batches, strict=True):
                    if self._running is not running:
                        break
                    self._consumed = step.consumed
                    if isinstance(batch, _Failed):
                        raise batch.error
                    yield batch
        finally:
            running.close()
        if self._running is not running:
            raise RuntimeError(
                "Another iteration over this loader has begun, or its position was set: a loader "
                "has one position. Make two loaders to read twice at a time."
            )
        self._running = None
        self._epoch, self._consumed = self._epoch + 1, 0

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._stop()
        self._epoch, self._consumed = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the loader: a few numbers, whatever the size of the dataset."""
        return {
            "seed": self.seed,
            "epoch": self._epoch,
            "consumed": self._consumed,
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

    def _steps(self) -> Iterator[_Step]:
        epoch, consumed = self._epoch, self._consumed
        for batch in range(self.split.num_batches(consumed)):
            positions = self.split.positions(batch, consumed)
            if len(positions):
                samples = self.order.samples(epoch, positions)
                yield _Step(samples, self.split.span(batch, consumed)[1])

    def _load(self, steps: list[_Step]) -> list[Any]:
        """Return the batches of some steps; where one failed, its error takes its place."""
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
        return [self._finished(step, part) for step, part in zip(steps, parts, strict=True)]

    def _finished(self, step: _Step, batch: dict[str, Any]) -> Any:  # noqa: ANN401
        try:
            return self._finish(self._transformed(step.samples, batch))
        except Exception as error:  # noqa: BLE001  # raised in the loop, in its place
            return _Failed(error)

    def _transformed(self, samples: NDArray[np.int64], batch: dict[str, Any]) -> Any:  # noqa: ANN401
        if self.transform is None:
            return batch
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
    """Takes the place of a batch that could not be loaded."""

    error: Exception


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
