"""The items of a dataset one after the other, under LeRobot's name."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from roboreel.lerobot.arguments import check_repo_type
from roboreel.lerobot.dataset import LeRobotDataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_AT_ONCE = 32
"""Items that are read together: neighbours share decoding, and memory stays small."""


class StreamingLeRobotDataset(IterableDataset):  # type: ignore[misc]  # torch is untyped to us
    """Iterates over a dataset on this machine, each item once per iteration.

    Unlike LeRobot's, the order is a full shuffle, and ``episodes`` are respected. Workers of a
    DataLoader share the items.

    Args:
        repo_id: The dataset's id.
        root: Its folder; if None, it is looked up as `LeRobotDataset` does.
        episodes: Numbers of the episodes. Default: all.
        streaming: Has no effect: memory stays small in any case.
        buffer_size: Has no effect: the whole dataset is shuffled.
        max_num_shards: At most what ``num_shards`` says; it has no other effect.
        seed: Of the shuffle.
        rng: A generator in place of ``seed``.
        shuffle: Whether each iteration has an order of its own; otherwise the dataset's.
        repo_type: Only ``"dataset"``.
        **arguments: Further arguments of `LeRobotDataset`.
    """

    def __init__(
        self,
        repo_id: str,
        root: str | Path | None = None,
        episodes: Sequence[int] | None = None,
        *,
        streaming: bool = True,
        buffer_size: int = 1000,
        max_num_shards: int = 16,
        seed: int = 42,
        rng: np.random.Generator | None = None,
        shuffle: bool = True,
        repo_type: str = "dataset",
        **arguments: Any,  # noqa: ANN401  # checked by LeRobotDataset
    ) -> None:
        super().__init__()
        check_repo_type(repo_type)
        self._items = LeRobotDataset(repo_id, root, episodes, **arguments)
        self.repo_id, self.root, self.meta = repo_id, self._items.root, self._items.meta
        self.episodes = self._items.episodes
        self.revision, self.streaming = self._items.revision, streaming
        self.num_shards = min(max_num_shards, self._items.num_episodes)
        self.buffer_size, self.seed, self.shuffle = buffer_size, seed, shuffle
        self.rng = np.random.default_rng(seed) if rng is None else rng

    @cached_property
    def hf_dataset(self) -> Any:  # noqa: ANN401  # a datasets.IterableDataset
        """The frames without video, as a `datasets.IterableDataset`; an episode is a shard."""
        from roboreel.huggingface import to_iterable

        return to_iterable(self._items.dataset)

    @property
    def image_transforms(self) -> Any:  # noqa: ANN401  # a function, or None
        """What is called with the images of each item."""
        return self._items.image_transforms

    @property
    def delta_timestamps(self) -> Mapping[str, Sequence[float]] | None:
        """Seconds around the item's frame, by feature."""
        return self._items.delta_timestamps

    @property
    def delta_indices(self) -> dict[str, list[int]] | None:
        """Deltas in frames, by feature."""
        return self._items.delta_indices

    @property
    def tolerance_s(self) -> float:
        """How far deltas may be off."""
        return self._items.tolerance_s

    @property
    def depth_output_unit(self) -> str:
        """The unit of depth."""
        return self._items.depth_output_unit

    @property
    def fps(self) -> int:
        """Frames per second."""
        return self.meta.fps

    @property
    def num_frames(self) -> int:
        """Frames of the chosen episodes."""
        return len(self._items)

    @property
    def num_episodes(self) -> int:
        """Number of the chosen episodes."""
        return self._items.num_episodes

    def __iter__(self) -> Iterator[dict[str, Any]]:
        order, worker = np.arange(len(self._items)), get_worker_info()
        if self.shuffle:
            rng = self.rng
            if worker is not None:
                # Workers are copies that start over each epoch; torch gives each epoch a seed.
                rng = np.random.default_rng([self.seed, worker.seed - worker.id])
            order = rng.permutation(order)
        mine = order if worker is None else order[worker.id :: worker.num_workers]
        for start in range(0, len(mine), _AT_ONCE):
            yield from self._items.__getitems__(mine[start : start + _AT_ONCE].tolist())
