"""Which sample stands at each position of an epoch.

An order is a pure function of its seed, the epoch and the position. It holds nothing of the length
of the dataset, so it costs nothing to make, to send to another process, or to start in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from roboreel.errors import RowNotFoundError
from roboreel.numbers import check_at_least
from roboreel.order.permutation import make_key, permute, scramble, unpermute

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Part of every key, so that two uses of one seed are unrelated.
_SAMPLES, _BLOCKS, _POOLS, _STRATA, _POINTS = range(5)


class Order(Protocol):
    """What every order offers."""

    @property
    def num_samples(self) -> int:
        """Positions of an epoch."""

    def samples(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sample at each position of an epoch, ``(N,)``, in the order asked.

        Raises:
            RowNotFoundError: A position outside the epoch.
        """


@dataclass(frozen=True, slots=True)
class Sequential:
    """The samples as they are numbered, the same in every epoch."""

    num_samples: int

    def __post_init__(self) -> None:
        check_at_least(0, num_samples=self.num_samples)

    def samples(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sample at each position: the position itself."""
        del epoch  # They are all the same.
        return _inside(positions, self.num_samples)


@dataclass(frozen=True, slots=True)
class Uniform:
    """A permutation of all samples, a different one in every epoch.

    Examples:
        >>> order = Uniform(100_000_000, seed=7)
        >>> len(order.samples(0, np.arange(64)))
        64
    """

    num_samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least(0, num_samples=self.num_samples)

    def samples(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sample at each position; every sample stands at exactly one."""
        places = _inside(positions, self.num_samples)
        return permute(places, self.num_samples, make_key(self.seed, epoch, _SAMPLES))


@dataclass(frozen=True, slots=True)
class Local:
    """A shuffle that visits neighbours together, so that they share decoding.

    Samples are cut into blocks of ``block`` neighbours, and the blocks are permuted over the whole
    dataset. Every ``buffer`` consecutive blocks then form a pool, and the samples of a pool are
    permuted. A reader that keeps what a pool touches reads everything once per epoch.

    Blocks are counted by sample number. They need not begin at the start of a GOP or a row group:
    a block that straddles a border reads both sides, at most one more per block. Choose blocks at
    least as long as a GOP.
    """

    block: int = 32
    """Neighbouring samples that are visited together."""
    buffer: int = 16
    """Blocks that are mixed with each other; a pool has ``block * buffer`` samples."""

    def __post_init__(self) -> None:
        check_at_least(1, block=self.block, buffer=self.buffer)


@dataclass(frozen=True, slots=True)
class LocalOrder:
    """A permutation of all samples that visits neighbours together: see `Local`."""

    num_samples: int
    local: Local = field(default_factory=Local)
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least(0, num_samples=self.num_samples)

    def samples(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sample at each position; every sample stands at exactly one."""
        places = _inside(positions, self.num_samples)
        block, buffer = self.local.block, self.local.buffer
        num_blocks = -(-self.num_samples // block)
        # The last block may be short. Where it comes to stand decides the lengths of the pools.
        missing = num_blocks * block - self.num_samples
        short_slot = _slot_of_last_block(num_blocks, self.seed, epoch)
        short_pool = short_slot // buffer

        # From here on as if the short block were full, and what it misses came last in its pool.
        stop = min((short_pool + 1) * buffer, num_blocks) * block - missing
        places = places + missing * (places >= stop)
        pool = places // (block * buffer)
        size = np.minimum(buffer, num_blocks - pool * buffer) * block
        size -= missing * (pool == short_pool)
        inside = self._permute_pools(epoch, pool, places - pool * block * buffer, size)

        # Then what it misses is put where it belongs, behind its own samples.
        short_stop = (short_slot + 1 - short_pool * buffer) * block - missing
        inside += missing * ((pool == short_pool) & (inside >= short_stop))
        slot = pool * buffer + inside // block
        blocks = permute(slot, num_blocks, make_key(self.seed, epoch, _BLOCKS))
        return blocks * block + inside % block

    def _permute_pools(
        self,
        epoch: int,
        pool: NDArray[np.int64],
        inside: NDArray[np.int64],
        size: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Permute places inside their pools. All pools but two are of one size."""
        keys = scramble(make_key(self.seed, epoch, _POOLS), pool.astype(np.uint64))
        permuted = np.empty_like(inside)
        for one_size in np.unique(size):
            these = size == one_size
            permuted[these] = permute(inside[these], int(one_size), keys[these])
        return permuted


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Samples drawn with replacement, so that each group of them has its share of an epoch.

    Groups are consecutive in the numbering of the samples: episodes, or the datasets of a mixture.
    A group's share does not depend on its length; multiply weights by lengths to weigh frames.

    Draws are stratified. Every group owns a part of ``[0, 1)`` in proportion to its weight, and
    every sample an equal part of its group's. One point is drawn from each of ``num_samples`` equal
    strata, and the strata are visited in the order of a permutation. So in every epoch each group,
    and each sample, is drawn as often as its weight says, to within two.
    """

    lengths: NDArray[np.int64]
    """Samples of each group, ``(G,)``."""
    weights: NDArray[np.float64]
    """Share of each group, ``(G,)``; they need not add up to 1."""
    num_samples: int
    """Draws of an epoch."""
    seed: int = 0
    _edges: NDArray[np.float64] = field(init=False, repr=False)
    """Bounds of the groups' parts, from 0 to 1, ``(G + 1,)``."""
    _first: NDArray[np.int64] = field(init=False, repr=False)
    """First sample of each group, ``(G,)``."""

    def __post_init__(self) -> None:
        check_at_least(0, num_samples=self.num_samples)
        lengths, weights = np.asarray(self.lengths, np.int64), np.asarray(self.weights, np.float64)
        _check_weights(weights, lengths)
        # cumsum adds one by one: a pairwise sum would differ between machines.
        edges = np.concatenate([np.zeros(1), np.cumsum(weights)])
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "_edges", edges / edges[-1])
        object.__setattr__(self, "_first", np.cumsum(lengths) - lengths)

    def samples(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sample at each position; a sample may occur twice, or not at all."""
        places = _inside(positions, self.num_samples)
        strata = permute(places, self.num_samples, make_key(self.seed, epoch, _STRATA))
        bits = scramble(make_key(self.seed, epoch, _POINTS), strata.astype(np.uint64))
        points = (strata + (bits >> np.uint64(11)) * 2.0**-53) / max(self.num_samples, 1)
        # The last point may round up to 1.0, which belongs to no group.
        return self._samples_at(np.minimum(points, np.nextafter(1.0, 0.0)))

    def _samples_at(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the samples that own points in ``[0, 1)``."""
        group = np.searchsorted(self._edges, points, side="right") - 1
        start, stop = self._edges[group], self._edges[group + 1]
        length = self.lengths[group]
        inside = ((points - start) / (stop - start) * length).astype(np.int64)
        return self._first[group] + np.minimum(inside, length - 1)


def spread_task_weights(
    task_weights: NDArray[np.float64],
    episode_tasks: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return weights of episodes that give each task its share.

    Args:
        task_weights: Share of each task, ``(T,)``.
        episode_tasks: The task of each episode, as a position in ``task_weights``, ``(E,)``.
        lengths: Samples of each episode, ``(E,)``.

    Returns:
        For `Weighted`, ``(E,)``: the share of a task is spread evenly over its samples.

    Raises:
        ValueError: A task with a weight has no samples.
    """
    samples = np.bincount(episode_tasks, weights=lengths, minlength=len(task_weights))
    idle = np.flatnonzero((samples == 0) & (np.asarray(task_weights) > 0))
    if len(idle):
        raise ValueError(f"Task {int(idle[0])} has a weight and no samples: give it weight 0.")
    return np.asarray(task_weights)[episode_tasks] * lengths / np.maximum(samples, 1)[episode_tasks]


@lru_cache(maxsize=256)
def _slot_of_last_block(num_blocks: int, seed: int, epoch: int) -> int:
    last = np.array([num_blocks - 1])
    return int(unpermute(last, num_blocks, make_key(seed, epoch, _BLOCKS))[0])


def _inside(positions: NDArray[np.int64], num_samples: int) -> NDArray[np.int64]:
    positions = np.asarray(positions, np.int64)
    outside = (positions < 0) | (positions >= num_samples)
    if outside.any():
        raise RowNotFoundError(
            f"Position {int(positions[outside][0])} does not exist: "
            f"an epoch has {num_samples}, counted from 0."
        )
    return positions


def _check_weights(weights: NDArray[np.float64], lengths: NDArray[np.int64]) -> None:
    if weights.shape != lengths.shape or weights.ndim != 1:
        raise ValueError(
            f"One weight per group is needed: there are {lengths.size} groups "
            f"and weights of shape {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("Weights must be finite, not negative, and not all zero.")
    empty = np.flatnonzero((lengths <= 0) & (weights > 0))
    if len(empty):
        raise ValueError(f"Group {int(empty[0])} has a weight and no samples: give it weight 0.")
