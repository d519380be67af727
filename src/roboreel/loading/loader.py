"""Batches of NumPy arrays, read ahead by threads of this process or by worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from roboreel.loading.ahead import ReadAhead, choose_workers
from roboreel.loading.epochs import Epochs
from roboreel.loading.ranks import check_share, launched_share
from roboreel.loading.samples import Samples
from roboreel.loading.sampling import make_order
from roboreel.loading.skipping import skip_of
from roboreel.numbers import one_number
from roboreel.order.split import Split

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from roboreel.dataset.members import HasSource, Source
    from roboreel.loading.ahead import Workers
    from roboreel.loading.sampling import Shuffle, Weights
    from roboreel.loading.skipping import OnError


class LoaderOptions(TypedDict, total=False):
    """How batches are read; the defaults are those of `ReadAhead` and `Split`."""

    threads: int
    prefetch: int
    workers: Workers
    rank: int
    world_size: int
    on_error: OnError


class Loader(Epochs):
    """Batches of an epoch, and then of the next, in an order that depends on the seed alone.

    ``for batch in loader`` runs to the end of the epoch; the loader is then at the beginning of
    the next one. After a ``break`` or an error, it goes on behind the last batch that was handed
    out. Threads of this process read ahead, since decoding releases the interpreter's lock, or
    with ``workers`` processes do; they have ended when the loop is left.

    A batch is a dict of arrays ``(B, …)`` and lists of texts, and belongs to the caller.

    Args:
        samples: What to load. A `roboreel.Dataset`, a `roboreel.Mixture`, a
            `roboreel.shards.Store` or a `roboreel.ReplayBuffer` is short for
            ``Samples(dataset)``: all features, no windows.
        batch_size: Samples in a batch of this rank.
        shuffle: ``False``; ``True`` or ``"uniform"``, over the whole dataset; ``"local"`` or
            `Local`, so that neighbours, which share decoding, are visited together.
        seed: Seed of the order and of the transforms' generators; the same on all ranks.
        drop_last: Leave out the samples at the end of an epoch that do not fill a batch on every
            rank. Otherwise all samples are seen, and a rank for which none is left ends one batch
            earlier.
        weights: Shares of episodes by number, of tasks by text, or one for each episode. What a
            mapping leaves out has weight 0; an episode counts towards its first task. Samples are
            then drawn with replacement; needs a uniform shuffle.
        transform: Called with each batch, in a thread, or in a worker. If it has a second argument, that is a
            random generator that follows from the seed, the epoch and the position, so that it
            draws the same after resuming, with any number of threads or workers.
        **options: ``threads`` (default 2): batches that are read side by side. The images of each
            are decoded by the dataset's own ``decode_threads``.

            ``workers`` (default 0): processes that read whole batches into shared memory, which
            this process hands out without copying. They are started by ``spawn`` when the loop
            begins, share out the cores and the memory budget, and call the transforms, which must
            be picklable. ``"auto"`` takes one for every four cores of this rank if there are eight
            or more and images or transforms, otherwise none. See docs/training.md for when to use
            them.

            ``prefetch`` (default 4, or 2 per worker): batches that are begun or ready, ahead of the one in use.
            Memory holds that many batches and one more. With a local shuffle, half of them are
            read at a time, so that an image that several of them need is decoded once: the more,
            the less decoding. Batches without images and transforms are read that way too, since
            reading them costs less than handing them over; these share memory until the last of
            them is released. Without a shuffle, up to 16 samples of small batches of video are
            read at a time, if they take no more than a sixteenth of the memory budget.

            ``rank`` and ``world_size``: this process's share of each step. By default what a
            launcher has set as ``RANK`` and ``WORLD_SIZE``, otherwise 0 and 1. For JAX, give
            ``jax.process_index()`` and ``jax.process_count()``.

            ``on_error`` (default ``"raise"``): ``"skip"`` or `Skip` leaves samples that cannot be
            read out of their batches, with a warning for each; `skipped` lists them. A batch of
            which no sample can be read is an error.

    Raises:
        ValueError: An argument is out of range, or contradicts another.
    """

    _samples_type: ClassVar[type[Samples]] = Samples

    def __init__(
        self,
        samples: Samples | Source | HasSource,
        batch_size: int,
        *,
        shuffle: Shuffle = False,
        seed: int = 0,
        drop_last: bool = True,
        weights: Weights | None = None,
        transform: Callable[..., Any] | None = None,
        **options: Unpack[LoaderOptions],
    ) -> None:
        check_known(options, LoaderOptions)
        if not isinstance(samples, Samples):
            samples = self._samples_type(samples)
        order = make_order(
            samples.dataset,
            samples.anchors.samples_per_episode,
            shuffle=shuffle,
            seed=seed,
            weights=weights,
        )
        given = check_share(options.get("rank"), options.get("world_size"))
        rank, world_size = given or (0, 1)
        whole = Split(order.num_samples, batch_size, rank, world_size, drop_last)
        costly = samples.has_images or bool(transform or samples.transform)
        threads = options.get("threads")
        workers = choose_workers(options.get("workers", 0), is_costly=costly, threads=threads)
        super().__init__(
            samples,
            order,
            (lambda: whole) if given else (lambda: whole.of(*self._find_share())),
            seed=one_number(seed, "seed"),
            ahead=ReadAhead(threads, options.get("prefetch"), workers),
            transform=transform,
            skip=skip_of(options.get("on_error", "raise")),
        )
        self.shuffle = shuffle

    def __repr__(self) -> str:
        split = self.split
        ranks = f", rank {split.rank} of {split.world_size}" if split.world_size > 1 else ""
        return (
            f"Loader({self.samples!r}, {len(self)} batches of {split.batch_size}, "
            f"shuffle={self.shuffle!r}, seed={self.seed}{ranks}, at epoch {self.epoch})"
        )

    def _find_share(self) -> tuple[int, int]:
        """Return the rank and world size of this process, if none were given."""
        return launched_share()


def check_known(options: object, known: type[Any]) -> None:
    """Raise TypeError if there is an option that is not known."""
    assert isinstance(options, dict)
    names = list(known.__annotations__)
    unknown = [name for name in options if name not in names]
    if unknown:
        raise TypeError(
            f"Loader() got an unexpected keyword argument {unknown[0]!r}. Its options are "
            f"{', '.join(names)}."
        )
