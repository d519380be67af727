"""The loader of one worker of Ray Train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray.train

from roboreel.torch import Loader

if TYPE_CHECKING:
    from roboreel.dataset.members import HasSource, Source
    from roboreel.torch import SampleDataset


def train_loader(
    samples: SampleDataset | Source | HasSource,
    batch_size: int,
    **options: Any,  # noqa: ANN401  # of the loader
) -> Loader:
    """Return a loader that reads this worker's share, by its rank in Ray Train.

    Its ``state_dict`` belongs to the checkpoint: all workers resume exactly behind the last batch.

    Args:
        samples: What to load; see `roboreel.torch.Loader`.
        batch_size: Samples in a batch of this worker.
        **options: Further arguments of `roboreel.torch.Loader`: ``shuffle``, ``seed``, ….

    Raises:
        RuntimeError: This process is not a worker of Ray Train.
    """
    context = ray.train.get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    return Loader(samples, batch_size, rank=rank, world_size=world_size, **options)
