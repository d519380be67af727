"""Batches of one epoch after another, read ahead of time and resumable."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from roboreel.dataset.members import ReadsBatches
from roboreel.io.batch_buffers import BatchBuffers
from roboreel.io.budget import process_budget
from roboreel.loading.batches import BatchReader, Loaded, Step
from roboreel.loading.fetch_ahead import FetchAhead
from roboreel.loading.prefetch import Prefetcher
from roboreel.loading.skipping import Skipped
from roboreel.numbers import one_number
from roboreel.order.order import LocalOrder, Sequential, Weighted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from roboreel.loading.ahead import ReadAhead
    from roboreel.loading.batches import SampleReader
    from roboreel.loading.skipping import Skip
    from roboreel.order.order import Order
    from roboreel.order.split import Split

_STEPS = 16
# Samples that are read in order, at a time, and the share of the budget that they may take.
_TOGETHER, _ROOM_SHARE = 16, 16


class Epochs:
    """Batches of an epoch, and then of the next.

    Args:
        samples: What to load.
        order: Which sample stands at each position of an epoch.
        split: Returns how an epoch is cut into batches. Asked when an epoch begins, since the
            process group of a training run may come up after the loader was made.
        seed: The seed of the order and of the transforms' generators, kept in the state.
        ahead: How far to read ahead.
        transform: Called with each batch, in a thread or worker; with a generator too, if it takes one.
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
        self._reader = BatchReader(samples, seed, transform, leaves_out=skip is not None)
        self._skipped = Skipped()
        self._epoch = 0
        self._consumed = 0
        self._running: Prefetcher[list[Step], list[Loaded]] | None = None

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
        if split.drop_last and split.num_samples and not split.num_batches():
            warnings.warn(
                f"There is no batch in an epoch: {split.num_samples} samples do not fill one of "
                f"{split.batch_size} on each of {split.world_size} ranks. Give a smaller batch_size, "
                "or drop_last=False.",
                RuntimeWarning,
                stacklevel=2,
            )
        epoch, self._consumed = self._position()
        self._epoch = epoch
        self._running = running = self._start(split)
        # Looked up now: when the interpreter exits, modules may be gone already.
        over, buffers = False, process_budget().share(BatchBuffers)
        try:
            for step, loaded in _one_by_one(running):
                if self._running is not running:
                    break
                handed = [self._handed_out(loaded)]
                del loaded
                # Whoever takes exactly ``len(loader)`` batches never comes back here: the epoch
                # has to be over when its last batch is handed out.
                self._consumed = step.consumed
                over = split.num_batches(step.consumed) == 0
                yield handed.pop()  # Whoever takes it is the only one who keeps it.
        finally:
            running.close()
            buffers.trim()
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
        number = one_number(epoch, "epoch")
        self._stop()
        self._epoch, self._consumed = number, 0

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

    def _start(self, split: Split) -> Prefetcher[list[Step], list[Loaded]]:
        ahead = self.ahead
        together = ahead.together() if self._reads_several() else self._in_order(split)
        groups = self._fetched(_grouped(self._steps(split), together))
        depth = max(1, ahead.depth // together - self._shares_images())
        load, pool = self._reader.load, None
        if ahead.workers:
            # Imported here: whoever reads by threads needs no multiprocessing.
            from roboreel.loading.workers.pool import WorkerPool

            pool = WorkerPool(self._reader, ahead.workers)
            load = pool.load
        return Prefetcher(
            lambda steps: [self._finished(loaded) for loaded in load(steps)],
            groups,
            threads=ahead.lanes,
            ahead=depth,
            readers=pool,
        )

    def _fetched(self, groups: Iterator[list[Step]]) -> Iterator[list[Step]]:
        """Return the steps; what they need of remote datasets is fetched ahead of reading them."""
        samples = self.samples
        if not getattr(samples, "is_remote", False):
            return groups
        fetch: Callable[..., int] = samples.fetch  # type: ignore[attr-defined]  # see is_remote
        return FetchAhead(
            groups, lambda steps: fetch(np.concatenate([step.samples for step in steps]))
        )

    def _reads_several(self) -> bool:
        """Whether several batches are read at a time.

        They are if they share images, or if reading a batch costs less than handing it over from
        one thread to another.
        """
        plain = self.transform is None and self.samples.transform is None
        return isinstance(self.order, LocalOrder) or (plain and not self.samples.has_images)

    def _in_order(self, split: Split) -> int:
        """Return how many small batches are read at a time, since they lie behind one another.

        Their images then share what a read costs whatever it reads. The next group is read while
        one is handed out.
        """
        samples: Any = self.samples
        in_order = isinstance(self.order, Sequential) and split.world_size == 1
        # Transforms may take longer than reading, and run side by side.
        plain = self.transform is None and samples.transform is None
        shares = isinstance(getattr(samples, "dataset", None), ReadsBatches)
        if not (in_order and plain and shares and samples.has_video) or self.ahead.workers:
            return 1
        image_bytes: int = samples.image_bytes
        room = process_budget().limit_bytes // _ROOM_SHARE // max(1, image_bytes)
        return max(1, min(_TOGETHER, room) // split.batch_size)

    def _shares_images(self) -> bool:
        """Whether this process reads groups of batches that share images.

        Such a group keeps all decoders busy. While it is read, the one before is handed out: two
        of them are what is asked for to be read ahead.
        """
        local = isinstance(self.order, LocalOrder) and self.samples.has_images
        return local and not self.ahead.workers

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _steps(self, split: Split) -> Iterator[Step]:
        epoch, consumed = self._epoch, self._consumed
        count = split.num_batches(consumed)
        # Many at a time: the order of one batch costs as much as that of sixteen.
        for first in range(0, count, _STEPS):
            batches = range(first, min(first + _STEPS, count))
            positions = [split.positions(batch, consumed) for batch in batches]
            bounds = np.cumsum([len(some) for some in positions])
            samples = np.split(self.order.samples(epoch, np.concatenate(positions)), bounds[:-1])
            for batch, where, which in zip(batches, positions, samples, strict=True):
                if len(where):
                    yield Step(which, epoch, where, split.span(batch, consumed)[1])

    def _finished(self, loaded: Loaded) -> Loaded:
        try:
            return loaded if loaded.error else replace(loaded, batch=self._finish(loaded.batch))
        except Exception as error:  # noqa: BLE001  # raised in the loop, in its place
            return Loaded(error=error)

    def _handed_out(self, loaded: Loaded) -> Any:  # noqa: ANN401  # what the transform returned
        if self.skip is not None:
            self._skipped.add(loaded.skipped, self.skip.limit)
        if loaded.error is not None:
            raise loaded.error
        return loaded.batch


def _one_by_one(
    running: Prefetcher[list[Step], list[Loaded]],
) -> Iterator[tuple[Step, Loaded]]:
    for steps, batches in running:
        batches.reverse()
        for step in steps:
            yield step, batches.pop()  # No longer referred to here, so that its memory is free.


def _grouped(steps: Iterator[Step], count: int) -> Iterator[list[Step]]:
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
