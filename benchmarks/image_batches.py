"""Which images of a video all contenders read, in which batches. Standard library only."""

from __future__ import annotations

import random

__all__ = [
    "BATCH_IMAGES",
    "FORWARD",
    "IN_ORDER",
    "forward_batches",
    "in_order_batches",
    "random_batches",
]

BATCH_IMAGES = 32
FORWARD = "forward, one by one"
IN_ORDER = "in order, a read for each image"


def random_batches(length: int, count: int) -> dict[str, list[list[int]]]:
    """Return batches of image numbers by what they stand for, the same in every process.

    Args:
        length: Images of the video.
        count: About how many to read of each kind.
    """
    rng = random.Random(0)
    singles = rng.choices(range(1, length), k=count)
    return {
        "one image": [[image] for image in singles],
        "an image and the one before": [[image - 1, image] for image in singles[: count // 2]],
        f"{BATCH_IMAGES} images, sorted": [
            sorted(rng.choices(range(length), k=BATCH_IMAGES))
            for _ in range(max(count // BATCH_IMAGES, 1))
        ],
    }


def forward_batches(length: int) -> list[list[int]]:
    """Return all images of a video in order, for those who read it in batches."""
    return [
        list(range(start, min(start + BATCH_IMAGES, length)))
        for start in range(0, length, BATCH_IMAGES)
    ]


def in_order_batches(length: int, count: int) -> list[list[int]]:
    """Return the first images of a video, one by one: to be read as if at random."""
    return [[image] for image in range(min(length, 2 * count))]
