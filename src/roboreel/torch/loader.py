"""Batches of tensors, read ahead by threads of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import torch

from roboreel.loading.epochs import Epochs, ReadAhead
from roboreel.loading.sampling import make_order
from roboreel.order.split import Split
from roboreel.torch.samples import SampleDataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from roboreel.loading.sampling import Shuffle, Weights
    from roboreel.loading.source import HasSource, Source
    from roboreel.torch.samples import Sample

__all__ = ["Loader"]


class _Options(TypedDict, total=False):
    """How batches are read and handed out; their defaults are those of `ReadAhead` and `Split`."""

    threads: int
    prefetch: int
    rank: int
    world_size: int
    pin_memory: bool


class Loader(Epochs):
    """Batches of an epoch, and then of the next, in an order that depends on the seed alone.

    ``for batch in loader`` runs to the end of the epoch; the loader is then at the beginning of
    the next one. After a ``break`` or an error, it goes on behind the last batch that was handed
    out. Threads of this process read ahead, since decoding releases the interpreter's lock; they
    have ended when the loop is left.

    A batch is a dict of tensors ``(B, …)`` and lists of texts, and belongs to the caller.

    Args:
        samples: What to load. A `roboreel.Dataset`, a `roboreel.Mixture`, a
            `roboreel.shards.Store` or a `roboreel.ReplayBuffer` is short for
            ``SampleDataset(dataset)``: all features, no windows.
        batch_size: Samples in a batch of this rank.
        shuffle: ``False``; ``True`` or ``"uniform"``, over the whole dataset; ``"local"`` or
            `Local`, so that neighbours, which share decoding, are visited together.
        seed: Seed of the order; the same on all ranks.
        drop_last: Leave out the samples at the end of an epoch that do not fill a batch on every
            rank. Otherwise all samples are seen, and a rank for which none is left ends one batch
            earlier.
        weights: Shares of episodes by number, of tasks by text, or one for each episode. Samples
            are then drawn with replacement; needs a uniform shuffle.
        transform: Called with each batch, in a thread.
        **options: ``threads`` (default 2): batches that are read side by side. The images of each
            are decoded by the dataset's own ``decode_threads``.

            ``prefetch`` (default 4): batches that are begun or ready, ahead of the one in use.
            Memory holds that many batches and one more. With a local shuffle, half of them are
            read at a time, so that an image that several of them need is decoded once: the more,
            the less decoding. Batches without images and transforms are read that way too, since
            reading them costs less than handing them over. They share memory until the last of
            them is released, which takes half as much again.

            ``rank`` and ``world_size`` (default 0 and 1): this process's share of each step.

            ``pin_memory`` (default False): copy batches to page-locked memory, from which they
            reach an accelerator faster. Without an accelerator it has no effect.

    Raises:
        ValueError: An argument is out of range, or contradicts another.
    """

    def __init__(
        self,
        samples: SampleDataset | Source | HasSource,
        batch_size: int,
        *,
        shuffle: Shuffle = False,
        seed: int = 0,
        drop_last: bool = True,
        weights: Weights | None = None,
        transform: Callable[[Sample], Any] | None = None,
        **options: Unpack[_Options],
    ) -> None:
        _check_known(options)
        if not isinstance(samples, SampleDataset):
            samples = SampleDataset(samples)
        order = make_order(
            samples.dataset,
            samples.anchors.samples_per_episode,
            shuffle=shuffle,
            seed=seed,
            weights=weights,
        )
        share = {name: options[name] for name in ("rank", "world_size") if name in options}
        pace = {name: options[name] for name in ("threads", "prefetch") if name in options}
        super().__init__(
            samples,
            order,
            Split(order.num_samples, batch_size, drop_last=drop_last, **share),
            seed=seed,
            ahead=ReadAhead(**pace),
            transform=transform,
        )
        self.shuffle = shuffle
        self.pin_memory = options.get("pin_memory", False) and torch.cuda.is_available()

    def __repr__(self) -> str:
        split = self.split
        ranks = f", rank {split.rank} of {split.world_size}" if split.world_size > 1 else ""
        return (
            f"Loader({self.samples!r}, {len(self)} batches of {split.batch_size}, "
            f"shuffle={self.shuffle!r}, seed={self.seed}{ranks}, at epoch {self.epoch})"
        )

    def _finish(self, batch: Any) -> Any:  # noqa: ANN401  # what the transform returned
        return _pin(batch) if self.pin_memory else batch


def _check_known(options: _Options) -> None:
    unknown = [name for name in options if name not in _Options.__annotations__]
    if unknown:
        raise TypeError(
            f"Loader() got an unexpected keyword argument {unknown[0]!r}. Its options are "
            f"{', '.join(_Options.__annotations__)}."
        )


def _pin(batch: Any) -> Any:  # noqa: ANN401  # what a transform may return
    if isinstance(batch, torch.Tensor):
        return batch.pin_memory()
    if isinstance(batch, dict):
        return {name: _pin(values) for name, values in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(_pin(values) for values in batch)
    return batch
