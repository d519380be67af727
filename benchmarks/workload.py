"""What all contenders read: the same rows in the same order. Standard library only."""

from __future__ import annotations

import random

__all__ = [
    "BATCH",
    "TRAIN_BATCH",
    "WINDOW",
    "batches",
    "random_rows",
    "shuffled_rows",
    "train_frames",
]

WINDOW = 50
"""Frames of a window: the anchor and those after it."""
BATCH = 64
TRAIN_BATCH = 32


def random_rows(num_rows: int, count: int) -> list[int]:
    """Return rows drawn at random, the same in every process."""
    return random.Random(0).choices(range(num_rows), k=count)


def shuffled_rows(num_rows: int, seed: int) -> list[int]:
    """Return every row once, in an order of its own for each seed."""
    rows = list(range(num_rows))
    random.Random(seed).shuffle(rows)
    return rows


def batches(rows: list[int]) -> list[list[int]]:
    """Return the rows in batches; a last one that is not full is left out."""
    return [rows[start : start + BATCH] for start in range(0, len(rows) - BATCH + 1, BATCH)]


def train_frames(cameras: list[str]) -> dict[str, list[int]]:
    """Return the frames around an anchor that a training sample has, by feature."""
    return {
        "action": list(range(WINDOW)),
        "observation.state": [-1, 0],
        **{camera: [-1, 0] for camera in cameras},
    }
