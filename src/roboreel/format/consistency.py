"""What the metadata says in several places, compared."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.findings import finding
from roboreel.format.paths import INFO_PATH, tasks_path
from roboreel.format.splits import compare_splits
from roboreel.words import enumerated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.findings import Finding, Severity
    from roboreel.format.info import Info
    from roboreel.schema import EpisodeTable, Manifest


def compare_metadata(
    root: Path, info: Info, episodes: EpisodeTable, tasks: Mapping[int, str]
) -> tuple[Finding, ...]:
    """Return where info.json, the episodes and the tasks do not fit each other."""
    file = tasks_path(info.version_name)
    totals = dict(info.totals)
    missing: tuple[Finding, ...] = ()
    if not tasks and len(episodes) and not (root / file).exists():
        says = "The table of tasks is missing. Tasks come from the episodes."
        # A task is known where an episode has only one.
        known = bool((np.diff(episodes.task_bounds) == 1).any())
        missing = (finding("RR111", says, severity="warning", file=file, fixable=known),)
        totals.pop("total_tasks", None)
    return (
        *_compare_totals(totals, episodes, len(tasks)),
        *missing,
        *compare_splits(info.splits, len(episodes)),
        *_unlisted_tasks(episodes, tasks, file),
    )


def _compare_totals(
    totals: Mapping[str, int], episodes: EpisodeTable, num_tasks: int
) -> Iterator[Finding]:
    counts = {
        "total_episodes": len(episodes),
        "total_frames": episodes.num_rows,
        "total_tasks": num_tasks,
    }
    for key, count in counts.items():
        if totals.get(key, count) != count:
            noun = key.removeprefix("total_")
            says = f"info.json counts {totals[key]} {noun}, the tables hold {count}."
            # Nobody reads by the number of tasks.
            severity: Severity = "warning" if noun == "tasks" else "error"
            yield finding("RR101", says, severity=severity, file=INFO_PATH)


def _unlisted_tasks(
    episodes: EpisodeTable, tasks: Mapping[int, str], file: str
) -> tuple[Finding, ...]:
    listed = set(tasks.values())
    unlisted = [code for code, text in enumerate(episodes.task_texts) if text not in listed]
    places = np.flatnonzero(np.isin(episodes.task_codes, unlisted))
    if not tasks or not len(places):
        return ()
    owners = np.unique(np.searchsorted(episodes.task_bounds, places, side="right") - 1)
    text = episodes.task_texts[episodes.task_codes[places[0]]]
    number = int(episodes.number[owners[0]])
    says = (
        f"Episode {number} names the task {text!r}, which the table of tasks lacks "
        f"({len(owners)} such episodes in all)."
    )
    return (finding("RR116", says, file=file, episode=number),)


def repeated_number(numbers: Sequence[int | None], noun: str, file: str, says: str) -> Finding:
    """Return that a number occurs more than once in a table of tasks or subtasks.

    Args:
        numbers: The number of each row.
        noun: What they are numbers of.
        file: The table, below the dataset's folder.
        says: How texts are found all the same.
    """
    repeated = [number for number, count in Counter(numbers).items() if count > 1]
    what = f"{noun}_index {enumerated(repeated)} "
    what += "occurs" if len(repeated) == 1 else "occur"
    return finding("RR115", f"{what} more than once. {says}, as LeRobot does.", file=file)


def compare_spans(columns: Mapping[str, NDArray[Any]], file: str) -> tuple[Finding, ...]:
    """Return where the row spans of the episodes differ from their lengths, or do not join.

    Args:
        columns: The columns of a v3.0 episode table, in the order of the episodes' numbers.
        file: What holds it, below the dataset's folder.
    """
    number, length = columns["episode_index"], columns["length"]
    start, stop = columns.get("dataset_from_index"), columns.get("dataset_to_index")
    if start is None or stop is None:
        says = "The episode table does not list row spans: they are derived from the lengths."
        return (finding("RR114", says, file=file),) if len(number) else ()
    wrong = np.flatnonzero(stop - start != length)
    if len(wrong):
        first = int(wrong[0])
        says = (
            f"Episode {number[first]} has length {length[first]} but spans "
            f"{stop[first] - start[first]} rows ({len(wrong)} such episodes in all); the length is "
            "used."
        )
        return (finding("RR203", says, file=file, episode=int(number[first])),)
    order = np.argsort(start, kind="stable")
    expected = np.concatenate([[0], stop[order][:-1]])
    breaks = np.flatnonzero(start[order] != expected)
    if not len(breaks):
        return ()
    first = int(order[breaks[0]])
    says = (
        f"Episode {number[first]} starts at row {start[first]}, but the episode before it ends at "
        f"row {expected[breaks[0]]} ({len(breaks)} such places in all); the order is used."
    )
    return (finding("RR203", says, file=file, episode=int(number[first])),)


def find_absent_cameras(manifest: Manifest) -> Iterator[Finding]:
    """Yield the cameras none of whose video files exists, if there is anything else.

    A folder that holds the metadata alone has no data file either, and says nothing of cameras.
    For a dataset as it should be, this asks for one file of each camera.
    """
    root = manifest.root
    if not (root / manifest.data_files.template.split("/", 1)[0]).exists():
        return
    absent = [
        (camera, len(files))
        for camera, files in manifest.video_files.items()
        if len(files) and not (root / files[0]).exists() and not _any_there(root, files.paths())
    ]
    if absent and _any_there(root, manifest.data_files.paths()):
        for camera, count in absent:
            says = (
                f"The camera {camera!r} is declared in info.json, but none of its video files "
                f"exists: {count} {'is' if count == 1 else 'are'} named."
            )
            yield finding("RR109", says, severity="error", file=INFO_PATH, feature=camera)


def _any_there(root: Path, paths: Sequence[str]) -> bool:
    """Return whether one of many files exists, asking each folder once."""
    folders = {path.rpartition("/")[0] for path in paths}
    there = {f"{folder}/{name}" for folder in folders for name in _names_in(root / folder)}
    return not there.isdisjoint(paths)


def _names_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
