"""roboreel loads images while its decoder sleeps, so that cores do not limit."""

from __future__ import annotations

import multiprocessing
import os
import time
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.meter import Meter

_BATCH = 64
_WARM_UP = 16
"""Batches until all memory is there that later ones use again; half as many more for each worker."""


def load(
    meter: Meter,
    root: str,
    threads: int,
    repeats: int,
    workers: int = 0,
    image_size: list[int] | None = None,
) -> None:
    """Load random images with decoding threads of one process, or of workers that share them."""
    from benchmarks.cases.sleeping import SleepingContext

    packets = _packets_per_image(root, threads, image_size)
    loader = _loader(root, threads, repeats, workers, image_size)
    batches = iter(loader)
    # Threads, processes, tables and the memory of batches are there afterwards.
    warm_up = min(_WARM_UP + workers * _WARM_UP // 2, len(loader) // 2)
    for _ in range(warm_up):
        next(batches)
    start_s = _cpu_of_workers()  # It counts when they end, which is inside the step.
    SleepingContext.packets = 0
    count = (len(loader) - warm_up) * _BATCH * len(loader.samples.dataset.cameras)
    with meter.step("an image", count):
        for _ in batches:
            pass
    cpu_s = meter.steps[-1].cpu_s - start_s
    meter.note(image_us=cpu_s / count * 1e6)
    with meter.step("its sleep alone", count):
        _sleep_alone(round(packets * count), threads)
    beyond_s = cpu_s - meter.steps[-1].cpu_s
    meter.note(beyond_us=beyond_s / count * 1e6, packets=packets)


def convert_alone(meter: Meter, root: str, count: int, image_size: list[int] | None = None) -> None:
    """Convert a decoded image again and again, into a batch: swscale alone."""
    (convert,) = _conversions(root, 1, image_size)
    convert()
    with meter.step("an image", count):
        for _ in range(count):
            convert()


def convert_asleep(
    meter: Meter, root: str, count: int, threads: int, image_size: list[int] | None = None
) -> None:
    """Sleep as the decoder does and convert, in threads: no plan, no packets, no batches."""
    from concurrent.futures import ThreadPoolExecutor

    from benchmarks.cases.sleeping import PACKET_S

    packets = _packets_per_image(root, threads, image_size)
    each = max(1, count // threads)
    work = _conversions(root, threads, image_size)
    for convert in work:
        convert()

    def run(convert: Callable[[], None]) -> None:
        for number in range(each):
            for _ in range(int((number + 1) * packets) - int(number * packets)):
                time.sleep(PACKET_S)
            convert()

    with ThreadPoolExecutor(threads) as pool, meter.step("an image", each * threads):
        list(pool.map(run, work))


def _conversions(root: str, threads: int, image_size: list[int] | None) -> list[Callable[[], None]]:
    """Return a function for each thread that converts an image into its part of a batch."""
    import numpy as np

    from benchmarks.cases.sleeping import picture
    from roboreel import open_dataset
    from roboreel.io.batch_buffers import BatchBuffers
    from roboreel.io.budget import Budget
    from roboreel.video.convert import Converter

    dataset = open_dataset(root)
    stored = dataset.features[dataset.cameras[0]].shape[:2]
    height, width = image_size or stored
    # All of a batch in turns: a single image would stay in the core's own cache.
    batch = BatchBuffers(Budget()).empty((max(_BATCH, threads), 3, height, width), np.uint8)

    def conversion(thread: int) -> Callable[[], None]:
        image = picture((stored[0], stored[1]))
        converter, places = Converter(), cycle(batch[thread::threads])
        return lambda: converter.write(image, next(places), "chw", None)

    batch[...] = 0
    return [conversion(thread) for thread in range(threads)]


def _loader(
    root: str, threads: int, repeats: int, workers: int, image_size: list[int] | None
) -> Any:  # noqa: ANN401
    from benchmarks.cases.sleeping import SleepingSamples
    from roboreel import open_dataset
    from roboreel.loading import Loader

    dataset = open_dataset(root, decode_threads=threads // max(1, workers))
    size = None if image_size is None else (image_size[0], image_size[1])
    samples = SleepingSamples(dataset, repeats, features=dataset.cameras, image_size=size)
    options: dict[str, Any] = {"workers": workers} if workers else {}  # Older checkouts have none.
    return Loader(samples, _BATCH, shuffle="uniform", **options)


def _packets_per_image(root: str, threads: int, image_size: list[int] | None) -> float:
    """Return how many packets are decoded for an image, by reading each image once."""
    from benchmarks.cases.sleeping import SleepingContext

    loader = _loader(root, threads, 1, 0, image_size)
    for _ in loader:
        pass
    return SleepingContext.packets / (len(loader) * _BATCH * len(loader.samples.dataset.cameras))


def _cpu_of_workers() -> float:
    """Return the CPU seconds that the workers of this process have taken up to now."""
    ticks = 0
    for worker in multiprocessing.active_children():
        stat = Path(f"/proc/{worker.pid}/stat")
        if stat.exists():  # Elsewhere their start counts too.
            ticks += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def _sleep_alone(packets: int, threads: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from benchmarks.cases.sleeping import PACKET_S

    def sleep(count: int) -> None:
        for _ in range(count):
            time.sleep(PACKET_S)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(sleep, [packets // threads] * threads))
