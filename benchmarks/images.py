"""Reading pictures in Parquet: as bytes, as pixels, and with actions."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import lerobot, pictures
from benchmarks.picture_datasets import PictureShape, write_pictures_v30
from benchmarks.results import CPU_MS, DISK_MB, HELD_MB, PEAK_MB, PER_CPU_SECOND, PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["BENCHMARK"]

MEMORY = 128_000_000
"""Our budget, and that of the row-group LRU: less than a third of the dataset."""


def cases(settings: Settings) -> list[Case]:
    """Write 10,000 pictures, more than 400 MB, and return who reads them."""
    shape = PictureShape(3, mean_length=30) if settings.quick else PictureShape(52)
    root = write_pictures_v30(settings.scratch / "pictures", shape)
    title = f"{int(shape.lengths().sum()):,} PNG pictures of 40 KB"
    counts = _counts(settings, reads=10_048, decodes=1_024, samples=1_024)
    given = {"root": str(root), "memory": MEMORY}
    ours = "benchmarks.cases.images"
    epochs = given | {"count": 5}
    return [
        Case(title, OURS, ours, "read", given | counts, watch=(root,)),
        *_peers(settings, title, root),
        Case("a sample around every row", OURS, ours, "epochs", epochs, watch=(root,)),
    ]


def _peers(settings: Settings, title: str, root: Path) -> list[Case]:
    if settings.peers is None:
        return []
    peer = Case(title, "", pictures.__name__, "", python=settings.peers, watch=(root,))
    read = {"root": str(root), **_counts(settings, reads=10_048, decodes=1_024)}
    slow = _counts(settings, reads=256, decodes=128)
    load = {"root": str(root), **_counts(settings, decodes=512, samples=32)}
    listed: list[tuple[str, str, Mapping[str, object]]] = [
        (pictures.FLAT, "flat", read),
        (pictures.HF_DATASETS, "hf_datasets", read),
        (pictures.HF_ONE_COLUMN, "hf_one_column", read),
        (pictures.HF_IN_MEMORY, "hf_in_memory", read),
        (pictures.LANCE, "lance", {**read, **_counts(settings, reads=1_024, decodes=512)}),
        (pictures.ROW_GROUPS, "row_groups", {**read, **slow, "memory": MEMORY}),
    ]
    return [
        *(
            replace(peer, contender=contender, function=function, arguments=arguments)
            for contender, function, arguments in listed
        ),
        replace(
            peer,
            contender=lerobot.CONTENDER,
            module=lerobot.__name__,
            function="read_pictures",
            arguments=load,
            environment={"OMP_NUM_THREADS": "1"},  # With more, LeRobot is slower.
        ),
    ]


def _counts(settings: Settings, **counts: int) -> dict[str, int]:
    return {name: min(count, 64) if settings.quick else count for name, count in counts.items()}


BENCHMARK = Benchmark(
    "images",
    "Reading pictures in Parquet",
    cases,
    rounds=3,
    columns=(PER_CPU_SECOND, PER_SECOND, CPU_MS, PEAK_MB, HELD_MB, DISK_MB),
    plots=(PER_CPU_SECOND, PEAK_MB),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
