"""Write a stream of pictures as a store; read rows, batches and everything."""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import stores
from benchmarks.pictures import PICTURE_BYTES
from benchmarks.results import CPU_MS, DISK_MB, HELD_MB, PEAK_MB, PER_CPU_SECOND, PER_SECOND

__all__ = ["BENCHMARK"]

PYARROW = "pyarrow's own map"


def cases(settings: Settings) -> list[Case]:
    """Return a case per contender: 2 GB of pictures of 40 KB."""
    count, reads = (300, 128) if settings.quick else (50_000, 10_048)
    title = f"{count:,} pictures of {PICTURE_BYTES // 1000} KB"
    given = {"count": count, "reads": reads}
    ours = Case(title, OURS, "benchmarks.cases.shards", "write_and_read", given)
    # The flat map needs only the standard library, so it runs without peers.
    flat = replace(ours, contender=stores.FLAT, module=stores.__name__, function="flat")
    arrow = Case(
        f"{title}, as Arrow",
        OURS,
        "benchmarks.cases.shards",
        "arrow_door",
        {"count": count, "passes": 50},
    )
    mapped = replace(arrow, contender=PYARROW, function="pyarrow_map")
    if settings.peers is None:
        return [ours, flat, arrow, mapped]
    peer = replace(flat, python=settings.peers)
    return [
        ours,
        flat,
        arrow,
        mapped,
        replace(peer, contender=stores.HF_DATASETS, function="hf_datasets"),
        replace(
            peer,
            contender=stores.LANCE,
            function="lance",
            arguments=given | {"reads": min(reads, 1_024)},
        ),
    ]


BENCHMARK = Benchmark(
    "shards",
    "A stream of pictures as a store",
    cases,
    rounds=3,
    columns=(PER_CPU_SECOND, PER_SECOND, CPU_MS, PEAK_MB, HELD_MB, DISK_MB),
    plots=(PER_CPU_SECOND, PEAK_MB),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
