"""Episode tables from what the metadata lists, in any version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import MetadataError
from roboreel.findings import finding
from roboreel.schema import EpisodeTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.findings import Finding
    from roboreel.parquet.ragged import TextLists
    from roboreel.schema import ClipTable

_MOST_FRAMES = 2**40


def sorted_once(
    numbers: NDArray[np.int64], file: str
) -> tuple[NDArray[np.int64], tuple[Finding, ...]]:
    """Return the position of each number, ascending and without repeats, and what is wrong.

    Args:
        numbers: The episode numbers, in the order in which they are listed.
        file: What lists them, below the dataset's folder, for the finding.
    """
    order = np.argsort(numbers, kind="stable")
    last = order[np.append(np.diff(numbers[order]) != 0, True)[: len(order)]]
    if len(last) == len(numbers):
        return last.astype(np.int64), ()
    twice = np.setdiff1d(np.arange(len(numbers)), last)
    number = int(numbers[twice[0]])
    problem = (
        f"Episode {number} is listed more than once ({len(twice)} such lines in all); the last "
        f"line of each is used, as LeRobot does."
    )
    return last.astype(np.int64), (finding("RR112", problem, file=file, episode=number),)


def arrange_episodes(
    *,
    number: NDArray[np.int64],
    length: NDArray[np.int64],
    place: NDArray[np.int64],
    data_file: NDArray[np.int64],
    clips: Mapping[str, ClipTable],
    tasks: TextLists,
    path: Path,
) -> EpisodeTable:
    """Return the table of episodes.

    Args:
        number: Episode numbers, ascending.
        length: Frames of each.
        place: Where each lies among the rows, according to the metadata: only the order matters.
        data_file: Data file of each.
        clips: Where its images lie, per video camera.
        tasks: Its tasks.
        path: The file that the lengths come from, for errors.
    """
    wrong = (length < 0) | (length > _MOST_FRAMES)
    if wrong.any():
        raise MetadataError(
            f"Episode {int(number[wrong][0])} has the impossible length "
            f"{int(length[wrong][0])}, in "
            f"{str(path)!r}."
        )
    start = _starts(number, place, length)
    return EpisodeTable(
        number=number,
        start=start,
        length=length,
        data_file=data_file,
        data_row=rows_within_files(data_file, start, length),
        clips=clips,
        task_bounds=tasks.bounds,
        task_codes=tasks.codes,
        task_texts=tasks.texts,
    )


def with_lengths(episodes: EpisodeTable, length: NDArray[np.int64], *, fps: float) -> EpisodeTable:
    """Return a table with other lengths: rows are counted anew, and clips end with their frames.

    Args:
        episodes: The table.
        length: Frames of each episode, ``(E,)``.
        fps: Frames per second.
    """
    start = _starts(episodes.number, episodes.start, length)
    changed = length != episodes.length
    clips = {
        camera: replace(table, stop_s=np.where(changed, table.start_s + length / fps, table.stop_s))
        for camera, table in episodes.clips.items()
    }
    return replace(
        episodes,
        start=start,
        length=length,
        data_row=rows_within_files(episodes.data_file, start, length),
        clips=clips,
    )


def _starts(
    number: NDArray[np.int64], place: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the first row of each episode, if rows lie in the order of places, then of numbers."""
    order = np.lexsort((number, place))
    start = np.empty_like(length)
    start[order] = np.cumsum(length[order]) - length[order]
    return start


def rows_within_files(
    file: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the first row of each episode inside its file, which holds episodes in row order."""
    order = np.lexsort((start, file))
    before = np.cumsum(length[order]) - length[order]
    new_file = np.ones(len(order), dtype=bool)
    new_file[1:] = file[order][1:] != file[order][:-1]
    # The count before each file's first episode, carried on to its other episodes.
    base = np.maximum.accumulate(np.where(new_file, before, 0))
    rows = np.empty_like(length)
    rows[order] = before - base
    return rows
