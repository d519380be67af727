"""Corruptions of values: time, statistics, and what robots and drivers do wrong."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tests.clean import FPS, FRONT, LENGTHS
from tests.corruption import STATISTICS, Place, corruption
from tests.surgery import Folder, Row, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable

STATE = "observation.state"


@corruption("RR301", also=("RR303", *STATISTICS))
def timestamp_jump(folder: Folder) -> Place:
    """From frame 10 on, half a second is missing."""
    return _retime(folder, 3, lambda i: i / FPS + (0.5 if i >= 10 else 0))


@corruption("RR302", also=("RR301", "RR303", "RR304", *STATISTICS))
def timestamp_repeated(folder: Folder) -> Place:
    return _retime(folder, 3, lambda i: (6 if i == 7 else i) / FPS)


@corruption("RR303", also=("RR301", "RR304", *STATISTICS))
def timestamps_drift(folder: Folder) -> Place:
    """The clock of the recording was slower than the declared rate."""
    return _retime(folder, 3, lambda i: i / (FPS - 2))


@corruption("RR304", also=("RR303", *STATISTICS))
def timestamp_jitter(folder: Folder) -> Place:
    return _retime(folder, 3, lambda i: i / FPS + (0.004 if i % 2 else 0))


@corruption("RR305", also=("RR301", "RR303", "RR304", "RR406"))
def fps_wrong(folder: Folder) -> Place:
    """info.json says half the rate of the videos and of the timestamps."""
    folder.edit_info(fps=FPS // 2)
    return Place(("meta/info.json", folder.video(FRONT, 0)))


@corruption("RR501", versions=("v2.0", "v3.0"), restores="values", also=("RR502",))
def stats_wrong(folder: Folder) -> Place:
    folder.edit_stats("action", mean=[9.0] * 6, std=[0.1] * 6)
    return Place((folder.stats_file,), feature="action")


@corruption("RR506", versions=("v2.1", "v3.0"), restores="values", also=("RR501", "RR502"))
def episode_stats_wrong(folder: Folder) -> Place:
    folder.edit_episode_stats(2, "action", mean=[9.0] * 6, std=[0.1] * 6)
    return Place((folder.stats_file, folder.episode_table), (2,), "action")


@corruption("RR502", versions=("v3.0",), restores="values", also=("RR501",))
def quantiles_out_of_order(folder: Folder) -> Place:
    stats = json.loads((folder.root / folder.stats_file).read_text())["action"]
    folder.edit_stats("action", q10=stats["q90"], q90=stats["q10"])
    return Place((folder.stats_file,), feature="action")


@corruption("RR503", restores="values")
def no_statistics_of_a_feature(folder: Folder) -> Place:
    path = folder.root / folder.stats_file
    if path.suffix == ".jsonl":
        write_lines(path, [_without_action(row) for row in folder.rows(folder.stats_file)])
    else:
        stats = json.loads(path.read_text())
        del stats["action"]
        path.write_text(json.dumps(stats, indent=4))
    return Place((folder.stats_file,), feature="action")


@corruption("RR504", restores="values", also=STATISTICS)
def image_std_zero(folder: Folder) -> Place:
    folder.edit_stats(FRONT, std=[[[0.0]]] * 3)
    return Place((folder.stats_file,), feature=FRONT)


@corruption("RR601", also=STATISTICS)
def nan(folder: Folder) -> Place:
    return _edit_joint(folder, 3, "action", 2, lambda i, value: math.nan if 4 <= i < 7 else value)


@corruption("RR602", also=STATISTICS)
def infinity(folder: Folder) -> Place:
    return _edit_joint(folder, 3, "action", 2, lambda i, value: math.inf if i == 4 else value)


@corruption("RR603", also=STATISTICS)
def constant_joint(folder: Folder) -> Place:
    """A joint does not move in any episode, whatever its actions are."""
    for episode in range(len(LENGTHS)):
        _edit_joint(folder, episode, STATE, 2, lambda _i, _value: 0.25)
    files = {folder.data(episode) for episode in range(len(LENGTHS))}
    return Place(("meta/info.json", *sorted(files)), (*range(len(LENGTHS)),), STATE)


@corruption("RR604", also=STATISTICS)
def saturated_joint(folder: Folder) -> Place:
    """A third of the actions of a joint are at its limit."""
    for episode in range(len(LENGTHS)):
        _edit_joint(folder, episode, "action", 1, lambda _i, value: min(value, 0.4))
    files = {folder.data(episode) for episode in range(len(LENGTHS))}
    return Place(("meta/info.json", *sorted(files)), (*range(len(LENGTHS)),), "action")


@corruption("RR605", also=("RR603", *STATISTICS))
def idle_stretch(folder: Folder) -> Place:
    """Nothing moves in 20 of 25 frames of an episode."""
    for name in (STATE, "action", "observation.pose"):
        folder.edit_column(3, name, lambda values: [*values[:3], *[values[3]] * 20, *values[23:]])
    return Place((folder.data(3),), (3,))


def _retime(folder: Folder, episode: int, time_of: Callable[[int], float]) -> Place:
    folder.edit_column(
        episode, "timestamp", lambda values: [time_of(i) for i in range(len(values))]
    )
    return Place((folder.data(episode),), (episode,))


def _edit_joint(
    folder: Folder, episode: int, name: str, joint: int, change: Callable[[int, float], float]
) -> Place:
    def edit(values: list[Any]) -> list[Any]:
        for i, value in enumerate(values):
            value[joint] = change(i, value[joint])
        return values

    folder.edit_column(episode, name, edit)
    return Place((folder.data(episode),), (episode,), name)


def _without_action(row: Row) -> Row:
    return {**row, "stats": {name: v for name, v in row["stats"].items() if name != "action"}}
