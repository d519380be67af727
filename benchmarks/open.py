"""Opening a dataset: what it costs beside LeRobot, and how it grows with episodes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.datasets import Shape, write_v21_metadata, write_v30, write_v30_metadata
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers.lerobot import CONTENDER, METADATA_ALONE

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BENCHMARK"]

_OURS = "benchmarks.cases.open"
_LEROBOT = "benchmarks.peers.lerobot"
# As LeRobot's recorder writes the episodes table: a row group every 10 episodes, another file
# after 100 MB, which so many small groups reach sooner.
_RECORDED = {"episodes_per_row_group": 10, "episodes_per_meta_file": 17_000}


def cases(settings: Settings) -> list[Case]:
    """Write the datasets and list who opens them."""
    small, sizes = (20, (40,)) if settings.quick else (500, (10_000, 100_000))
    root = write_v30(settings.scratch / "small", Shape(small, **_RECORDED))
    listed = [
        *_imports(settings),
        *_visit(settings, root, f"v3.0, {small} episodes, first time"),
        *_visit(settings, root, f"v3.0, {small} episodes, again"),
    ]
    for episodes in sizes:
        listed += _growth(settings, episodes)
    return listed


def _imports(settings: Settings) -> list[Case]:
    ours = Case("alone", OURS, _OURS, "import_library")
    theirs = Case("alone", CONTENDER, _LEROBOT, "import_library", python=settings.peers or "")
    return [ours, theirs] if settings.peers else [ours]


def _visit(settings: Settings, root: Path, scenario: str) -> list[Case]:
    """Open with all data files there; the second visit finds the caches of the first."""
    ours = replace(_ours(scenario, root), home="ours")
    if settings.peers is None:
        return [ours]
    given = {"root": str(root)}
    theirs = Case(scenario, CONTENDER, _LEROBOT, "open_dataset", given, settings.peers, (root,))
    return [ours, replace(theirs, home="theirs")]


def _growth(settings: Settings, episodes: int) -> list[Case]:
    """Open metadata alone: writing millions of frames that nobody reads would take long."""
    shape = Shape(episodes)
    folder = settings.scratch / str(episodes)
    v30 = write_v30_metadata(folder / "v30", shape)
    recorded = write_v30_metadata(folder / "recorded", Shape(episodes, **_RECORDED))
    v21 = write_v21_metadata(folder / "v21", shape)
    scenario = f"v3.0, {episodes:,} episodes"
    listed = [_ours(scenario, v30)]
    if settings.peers:
        given = {"root": str(v30)}
        listed.append(
            Case(scenario, METADATA_ALONE, _LEROBOT, "open_metadata", given, settings.peers, (v30,))
        )
    listed.append(_ours(f"v3.0, {episodes:,} episodes, 10 a row group", recorded))
    listed.append(_ours(f"v2.1, {episodes:,} episodes", v21))
    return listed


def _ours(scenario: str, root: Path) -> Case:
    return Case(scenario, OURS, _OURS, "open_and_look", {"root": str(root)}, watch=(root,))


BENCHMARK = Benchmark("open", "Opening a dataset", cases)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
