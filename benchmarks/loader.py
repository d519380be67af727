"""Loading training batches end to end, and how long the first one takes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.cases.loader import CONTENDER_ALONE, CONTENDER_IMPORT
from benchmarks.datasets import Shape, write_v30
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.loader_datasets import REAL, copy_as_v30, generate, with_keyframes_every
from benchmarks.peers import lerobot, peers_python
from benchmarks.results import CPU_MS, PEAK_MB, PER_CPU_SECOND, PER_SECOND, WALL_MS
from benchmarks.workload import TRAIN_BATCH
from roboreel import open_dataset

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

_OURS = "benchmarks.cases.loader"
_SMALL = (224, 224)
_NEWER = "0.6.1"
# Neighbours share decoding in a whole epoch, which is ours alone.
_LOCAL = {"shuffle": "local", "ranks": 1}


def cases(settings: Settings) -> list[Case]:
    """Make the datasets and list who loads them."""
    episodes, frames, size = (3, 24, (64, 96)) if settings.quick else (12, 200, (480, 640))
    generated = generate(
        settings.scratch / "generated", episodes=episodes, frames=frames, size=size
    )
    apart = with_keyframes_every(30, generated, settings.scratch / "apart")
    shape = Shape(8, mean_length=30, cameras=0) if settings.quick else Shape(667, cameras=0)
    numbers = write_v30(settings.scratch / "numbers", shape)
    small = {"image_size": list(_SMALL)}
    plain = "generated, AV1 g=2"
    listed = [
        *_contest(settings, plain, generated, 6),
        Case(plain, CONTENDER_ALONE, _OURS, "decode_alone", {"root": str(generated)}),
        *_contest(settings, "generated, AV1 g=2, to 224x224", generated, 6, small),
        *_contest(settings, "generated, AV1 g=30, local", apart, 6, {}, _LOCAL),
        # Enough of them that the pass before has met every episode.
        *_contest(settings, "numbers alone", numbers, 240),
        *_firsts(settings, generated),
    ]
    if REAL.is_dir() and not settings.quick:
        real = copy_as_v30(REAL, settings.scratch / "real")
        filmed = "real footage, AV1 g=2"
        listed += _contest(settings, filmed, real, 6)
        listed += [Case(filmed, CONTENDER_ALONE, _OURS, "decode_alone", {"root": str(real)})]
        listed += _contest(settings, "real footage, to 224x224", real, 6, small)
    return listed


def _contest(
    settings: Settings,
    scenario: str,
    root: Path,
    batches: int,
    both: dict[str, Any] | None = None,
    ours_alone: dict[str, Any] | None = None,
) -> list[Case]:
    """Return ours and each LeRobot: as many batches for all, after a pass that warms up."""
    total = len(open_dataset(root)) // TRAIN_BATCH
    # A share of the epoch, as one of several ranks has it: about as many batches as asked for.
    ranks = max(1, total // (2 if settings.quick else batches))
    given = {"root": str(root), **(both or {})}
    ours = Case(scenario, OURS, _OURS, "load", {**given, "ranks": ranks, **(ours_alone or {})})
    return [ours, *_lerobot(settings, ours, "load", {**given, "batches": total // ranks})]


def _firsts(settings: Settings, root: Path) -> list[Case]:
    ours = Case("a fresh process", OURS, _OURS, "load_first", {"root": str(root)})
    alone = Case(ours.scenario, CONTENDER_IMPORT, _OURS, "import_torch")
    return [ours, *_lerobot(settings, ours, "load_first", {"root": str(root)}), alone]


def _lerobot(settings: Settings, ours: Case, function: str, given: dict[str, Any]) -> list[Case]:
    """Return each LeRobot that is there; PyTorch gives its workers one thread each."""
    if settings.peers is None:
        return []
    theirs = replace(
        ours,
        contender=lerobot.CONTENDER,
        module=lerobot.__name__,
        function=function,
        arguments=given,
        python=settings.peers,
    )
    newer = peers_python(_NEWER)
    return [
        theirs,
        *([replace(theirs, contender=f"LeRobot {_NEWER}", python=newer)] if newer else []),
    ]


BENCHMARK = Benchmark(
    "loader",
    "Loading training batches",
    cases,
    rounds=2,
    columns=(PER_SECOND, PER_CPU_SECOND, WALL_MS, CPU_MS, PEAK_MB),
    plots=(PER_SECOND, PER_CPU_SECOND),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
