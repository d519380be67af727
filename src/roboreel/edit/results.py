"""Results of one part of an edit ⇄ files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.encoding import ClipPlace
from roboreel.edit.rows import RowsResult
from roboreel.format.stats_json import stats_from_json, stats_to_json
from roboreel.jobs.folder import read_note
from roboreel.stats import Accumulator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.stats import FeatureStats

    EpisodeStats = Mapping[int, Mapping[str, FeatureStats]]
    Shapes = Mapping[str, tuple[int, ...]]


def write_places(path: Path, places: Mapping[int, ClipPlace]) -> None:
    """Write where the episodes of a video file are."""
    _write(path, {number: list(place) for number, place in places.items()})


def read_places(path: Path) -> dict[int, ClipPlace]:
    """Return where the episodes of a video file are."""
    return {int(number): ClipPlace(*place) for number, place in _read(path).items()}


def write_looks(path: Path, looks: EpisodeStats) -> None:
    """Write statistics of the cameras of episodes."""
    _write(path, _stats_to_plain(looks))


def read_looks(path: Path) -> dict[int, dict[str, FeatureStats]]:
    """Return statistics of the cameras of episodes."""
    return _stats_from_plain(_read(path))


def write_rows_result(path: Path, result: RowsResult) -> None:
    """Write what the rows of a data file say: a JSON file, and one of arrays beside it."""
    arrays = {
        f"{name}/{key}": array
        for name, total in result.totals.items()
        for key, array in total.state().items()
    }
    np.savez(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]  # NumPy's stub
    said = {
        "tasks": result.tasks,
        "stats": _stats_to_plain(result.stats),
        "lost": sorted(result.lost),
        "totals": list(result.totals),
    }
    _write(path, said)


def read_rows(path: Path, shapes: Shapes) -> RowsResult:
    """Return what the rows of a data file say.

    Args:
        path: The JSON file.
        shapes: Of the statistics of all rows, by feature.
    """
    said = _read(path)
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        held = {name: arrays[name] for name in arrays.files}
    totals = {}
    for name in said["totals"]:
        state = {
            key.rpartition("/")[2]: held[key] for key in held if key.rpartition("/")[0] == name
        }
        totals[name] = Accumulator.from_state(shapes[name], state)
    tasks = {int(number): tuple(own) for number, own in said["tasks"].items()}
    return RowsResult(tasks, _stats_from_plain(said["stats"]), totals, set(said["lost"]))


def _stats_to_plain(stats: EpisodeStats) -> dict[int, dict[str, Any]]:
    return {
        number: {name: stats_to_json(one) for name, one in own.items()}
        for number, own in stats.items()
    }


def _stats_from_plain(plain: Mapping[str, Any]) -> dict[int, dict[str, FeatureStats]]:
    return {
        int(number): {name: stats_from_json(name, raw, "a job") for name, raw in own.items()}
        for number, own in plain.items()
    }


def _write(path: Path, said: Mapping[Any, Any]) -> None:
    path.write_text(json.dumps(said), encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = read_note(path)
    return read
