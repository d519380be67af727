"""Batches of tensors, read ahead by threads of this process or by worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed

from roboreel.loading import loader as numpy_loader
from roboreel.loading.loader import LoaderOptions, check_known
from roboreel.loading.ranks import launched_share
from roboreel.loading.samples import Samples
from roboreel.torch.samples import SampleDataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from roboreel.dataset.members import HasSource, Source
    from roboreel.loading.sampling import Shuffle, Weights


class _Options(LoaderOptions, total=False):
    pin_memory: bool


class Loader(numpy_loader.Loader):
    """Batches of an epoch, and then of the next, in an order that depends on the seed alone.

    ``for batch in loader`` runs to the end of the epoch; the loader is then at the beginning of
    the next one. After a ``break`` or an error, it goes on behind the last batch that was handed
    out. Threads of this process read ahead, since decoding releases the interpreter's lock, or
    with ``workers`` processes do; they have ended when the loop is left.

    A batch is a dict of tensors ``(B, …)`` and lists of texts, and belongs to the caller.

    Args:
        samples: What to load. A `roboreel.Dataset`, a `roboreel.Mixture`, a
            `roboreel.shards.Store` or a `roboreel.ReplayBuffer` is short for
            ``SampleDataset(dataset)``: all features, no windows.
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
            `torch.Generator` that follows from the seed, the epoch and the position, so that it
            draws the same after resuming, with any number of threads or workers.
        **options: ``threads``, ``workers``, ``prefetch`` and ``on_error`` as in `roboreel.loading.Loader`.

            ``rank`` and ``world_size``: this process's share of each step. By default those of
            torch's process group, or before there is one what a launcher has set as ``RANK`` and
            ``WORLD_SIZE``; otherwise 0 and 1. ``world_size=1`` reads everything on every rank.

            ``pin_memory`` (default False): copy batches to page-locked memory, from which they
            reach an accelerator faster. Without an accelerator it has no effect.

    Raises:
        ValueError: An argument is out of range, or contradicts another.
    """

    _samples_type = SampleDataset

    def __init__(
        self,
        samples: SampleDataset | Source | HasSource,
        batch_size: int,
        *,
        shuffle: Shuffle = False,
        seed: int = 0,
        drop_last: bool = True,
        weights: Weights | None = None,
        transform: Callable[..., Any] | None = None,
        **options: Unpack[_Options],
    ) -> None:
        check_known(options, _Options)
        if isinstance(samples, Samples) and not isinstance(samples, SampleDataset):
            raise TypeError(
                "This loader gives tensors: pass a roboreel.torch.SampleDataset, or use "
                "roboreel.loading.Loader for arrays."
            )
        pin_memory = options.pop("pin_memory", False)
        super().__init__(
            samples,
            batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            weights=weights,
            transform=transform,
            **cast("LoaderOptions", options),
        )
        self.pin_memory = pin_memory and torch.cuda.is_available()

    def _find_share(self) -> tuple[int, int]:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return launched_share()

    def _finish(self, batch: Any) -> Any:  # noqa: ANN401  # what the transform returned
        return _pin(batch) if self.pin_memory else batch


def _pin(batch: Any) -> Any:  # noqa: ANN401  # what a transform may return
    if isinstance(batch, torch.Tensor):
        return batch.pin_memory()
    if isinstance(batch, dict):
        return {name: _pin(values) for name, values in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(_pin(values) for values in batch)
    return batch
