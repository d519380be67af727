"""The pictures that all contenders read, measured. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.workload import BATCH, WINDOW, batches, random_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.meter import Meter

__all__ = ["CAMERA", "measure_bytes", "measure_pixels", "measure_samples"]

CAMERA = "observation.images.front"


def measure_bytes(
    meter: Meter,
    num_rows: int,
    count: int,
    one: Callable[[int], bytes],
    many: Callable[[list[int]], list[bytes]],
) -> None:
    """Read encoded pictures: for the first time in batches, one by one, and in batches again."""
    chosen = random_rows(num_rows, count)
    grouped = batches(chosen)
    with meter.step(f"bytes, first visit, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            many(batch)
    one(chosen[0])  # Not measured, here and below: a first call may import modules.
    with meter.step("bytes, one row", count):
        for row in chosen:
            one(row)
    with meter.step(f"bytes, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            many(batch)


def measure_pixels(
    meter: Meter,
    num_rows: int,
    count: int,
    one: Callable[[int], object],
    many: Callable[[list[int]], Any],
) -> None:
    """Read decoded pictures, one by one and in batches; note the sum of some pixels."""
    chosen = random_rows(num_rows, count)
    one(chosen[0])
    with meter.step("pixels, one row", count):
        for row in chosen:
            one(row)
    grouped = batches(chosen)
    with meter.step(f"pixels, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            many(batch)
    meter.note(frames=num_rows, checksum=float(sum(image.sum() for image in many(chosen[:BATCH]))))


def measure_samples(meter: Meter, num_rows: int, count: int, one: Callable[[int], object]) -> None:
    """Read an image and the actions from its row on, one sample at a time."""
    chosen = random_rows(num_rows, count)
    one(chosen[0])
    with meter.step(f"an image and {WINDOW} actions, one sample", count):
        for row in chosen:
            one(row)
