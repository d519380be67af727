"""The order in which an epoch visits the rows of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RowShuffle", "by_shard", "permuted", "shuffled_shards"]

RowShuffle: TypeAlias = "bool | Literal['shards']"
"""How rows are shuffled: not at all, over the whole store, or shard by shard."""


def permuted(count: int, seed: int | None) -> NDArray[np.int64]:
    """Return all rows in random order; another one every time if there is no seed."""
    return np.random.default_rng(seed).permutation(count)


def by_shard(shards: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the rows of each shard, given the shard of each row; shards without rows are left out."""
    order = np.argsort(shards, kind="stable")
    edges = np.flatnonzero(np.diff(shards[order])) + 1
    return [rows for rows in np.split(order, edges) if len(rows)]


def shuffled_shards(shards: NDArray[np.int64], seed: int | None) -> NDArray[np.int64]:
    """Return all rows, shard after shard in random order, and in random order inside each shard."""
    generator = np.random.default_rng(seed)
    groups = by_shard(shards)
    chosen = generator.permutation(len(groups)).tolist()
    parts = [generator.permutation(groups[group]) for group in chosen]
    return np.concatenate([np.empty(0, np.int64), *parts])
