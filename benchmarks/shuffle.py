"""How random each order is, and what it costs: ``python -m benchmarks.shuffle [--quick]``.

Prints the table of docs/shuffling.md: the orders of roboreel beside a classic shuffle buffer.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.order.order import Local, LocalOrder, Sequential, Uniform, Weighted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.order.order import Order

__all__ = ["Randomness", "main", "measure", "shuffle_buffer"]

BATCH = 64
GOP = 30
TITLES = (
    "order",
    "distance, p10 / p50 / p90",
    "same episode next",
    "episodes in a batch, p10 / p50 / p90",
    "GOPs in a batch",
    "CPU µs per batch",
    "million positions per CPU second, 65,536 at once",
)


@dataclass(frozen=True)
class Randomness:
    """What an order does to the batches of an epoch."""

    distance: tuple[float, float, float]
    """Between consecutive samples, in samples: 10, 50 and 90 % are nearer."""
    same_episode: float
    """How often the next sample is of the same episode."""
    episodes: tuple[float, float, float]
    """Different episodes in a batch: 10, 50 and 90 % of the batches have fewer."""
    gops: float
    """Different GOPs in a batch: what is decoded for it where nothing is kept."""


def measure(samples: NDArray[np.int64], frames: int) -> Randomness:
    """Measure an epoch in which every ``frames`` samples are an episode."""
    batches = samples[: len(samples) // BATCH * BATCH].reshape(-1, BATCH)
    shares = (10, 50, 90)
    episodes = np.percentile(_distinct(batches // frames), shares)
    distance = np.percentile(np.abs(np.diff(samples)), shares)
    return Randomness(
        distance=(float(distance[0]), float(distance[1]), float(distance[2])),
        same_episode=float((np.diff(samples // frames) == 0).mean()),
        episodes=(float(episodes[0]), float(episodes[1]), float(episodes[2])),
        gops=float(_distinct(batches // GOP).mean()),
    )


def shuffle_buffer(samples: NDArray[np.int64], size: int, seed: int = 0) -> NDArray[np.int64]:
    """Return samples as a shuffle buffer gives them out: a random one of those held, then refill."""
    chosen = np.random.default_rng(seed).integers(0, size, len(samples))
    held = samples[:size].tolist()
    given = []
    for slot, incoming in zip(chosen, samples[size:].tolist(), strict=False):
        given.append(held[slot])
        held[slot] = incoming
    rest = np.random.default_rng(seed + 1).permutation(held)
    return np.concatenate([np.array(given, np.int64), rest])


def _distinct(batches: NDArray[np.int64]) -> NDArray[np.int64]:
    ordered = np.sort(batches, axis=1)
    return np.asarray(1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1))


def _orders(episodes: int, frames: int) -> dict[str, Order]:
    total = episodes * frames
    lengths = np.full(episodes, frames)
    return {
        "sequential": Sequential(total),
        "local, 32 x 4": LocalOrder(total, Local(block=32, buffer=4)),
        "local, 32 x 16": LocalOrder(total, Local(block=32, buffer=16)),
        "local, 8 x 64": LocalOrder(total, Local(block=8, buffer=64)),
        "local, 32 x 64": LocalOrder(total, Local(block=32, buffer=64)),
        "uniform": Uniform(total),
        "weighted, all alike": Weighted(lengths, np.ones(episodes), total),
    }


def _buffers(episodes: int, frames: int) -> dict[str, NDArray[np.int64]]:
    stored = np.arange(episodes * frames)
    shuffled = np.random.default_rng(0).permutation(episodes)
    by_episode = stored.reshape(episodes, frames)[shuffled].reshape(-1)
    return {
        "shuffle buffer, 512": shuffle_buffer(stored, 512),
        "shuffle buffer, 512, episodes shuffled": shuffle_buffer(by_episode, 512),
        "shuffle buffer, 2,048, episodes shuffled": shuffle_buffer(by_episode, 2048),
    }


def _cpu_microseconds(order: Order, at_once: int, repeats: int) -> float:
    """Return the CPU time of finding some samples, in the middle of an epoch."""
    positions = (order.num_samples // 2 + np.arange(at_once)) % order.num_samples
    order.samples(1, positions)
    start = time.process_time()
    for _ in range(repeats):
        order.samples(1, positions)
    return (time.process_time() - start) / repeats * 1e6


def _row(name: str, random: Randomness, *costs: str) -> str:
    near, middle, far = (f"{distance:,.0f}" for distance in random.distance)
    few, usual, many = (f"{count:.0f}" for count in random.episodes)
    cells = [
        name,
        f"{near} / {middle} / {far}",
        f"{random.same_episode:.1%}",
        f"{few} / {usual} / {many}",
        f"{random.gops:.0f}",
        *(costs or ("-", "-")),
    ]
    return f"| {' | '.join(cells)} |"


def _cost(order: Order, *, quick: bool) -> tuple[str, str]:
    batch_us = _cpu_microseconds(order, BATCH, 3 if quick else 1000)
    bulk_us = _cpu_microseconds(order, 1 << 16, 1 if quick else 10)
    return f"{batch_us:.0f}", f"{(1 << 16) / max(bulk_us, 1.0):.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="does it run? a tiny dataset")
    quick = parser.parse_args(arguments).quick
    episodes, frames = (20, 200) if quick else (200, 500)
    print(f"{episodes} episodes of {frames} frames, batches of {BATCH}, GOPs of {GOP}\n")
    print(f"| {' | '.join(TITLES)} |")
    print("|---" * len(TITLES) + "|")
    for name, order in _orders(episodes, frames).items():
        samples = order.samples(0, np.arange(order.num_samples))
        print(_row(name, measure(samples, frames), *_cost(order, quick=quick)))
    for name, samples in _buffers(episodes, frames).items():
        print(_row(name, measure(samples, frames)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
