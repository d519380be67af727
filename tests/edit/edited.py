"""Whether an edited dataset holds what it should, value by value and packet by packet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.edit.sources import Source
from roboreel.io.reading import SpanReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COUNTERS = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class Expected:
    """An episode as it should be: where it comes from, and its tasks if they are others."""

    episode: int
    start: int
    stop: int
    task: str | None = None


def check_edited(
    old: Path,
    new: Path,
    expected: Sequence[Expected],
    *,
    names: Mapping[str, str | None] | None = None,
    packets: bool = True,
    first: int = 0,
    added: Sequence[str] = (),
) -> None:
    """Assert that a dataset has these parts of another one, and that `check` finds nothing.

    Args:
        old: The dataset that it was made from.
        new: The dataset.
        expected: Its episodes, or those from ``first`` on.
        names: New names of features.
        packets: Whether videos have the same packets, too.
        first: Number of the first of these episodes.
        added: Features that the dataset has beside these.
    """
    before, after = reel.open_dataset(old), reel.open_dataset(new)
    assert after.manifest.problems == ()
    named = {n: (names or {}).get(n, n) for n in before.features}
    kept = {o: n for o, n in named.items() if n is not None}
    assert set(after.features) - set(kept.values()) <= {*COUNTERS, *added}
    rows = sum(int(length) for length in after.episodes.lengths[:first])
    for number, one in enumerate(expected, first):
        episode, source = after.episodes[number], before.episodes[one.episode]
        length = one.stop - one.start
        assert len(episode) == length
        _check_counters(episode.read([*COUNTERS]), number, rows, length, after.fps)
        was, now = source.read([*kept, "task"]), episode.read([*kept.values(), "task"])
        for o, n in kept.items():
            if o not in COUNTERS:
                assert np.array_equal(was[o][one.start : one.stop], now[n]), (number, o)
        tasks = [one.task] * length if one.task else was["task"][one.start : one.stop]
        assert list(now["task"]) == list(tasks)
        assert list(episode.tasks) == [one.task] if one.task else set(tasks) == set(episode.tasks)
        rows += length
    if packets:
        _check_packets(Source(old), Source(new), expected, kept, first)
    # A note is no fault: one says that images of deleted episodes stay in v3.0 files.
    assert [str(f) for f in check_dataset(new).at_least("warning")] == []


def _check_counters(read: dict[str, Any], number: int, row: int, length: int, fps: float) -> None:
    assert read["episode_index"].tolist() == [number] * length
    assert read["index"].tolist() == list(range(row, row + length))
    assert read["frame_index"].tolist() == list(range(length))
    assert np.allclose(read["timestamp"], np.arange(length) / fps, atol=1e-6)


def _check_packets(
    old: Source, new: Source, expected: Sequence[Expected], kept: Mapping[str, str], first: int
) -> None:
    for was, now in kept.items():
        if old.manifest.features[was].dtype != "video":
            continue
        for number, one in enumerate(expected, first):
            position = int(old.manifest.episodes.positions_of([one.episode])[0])
            assert (
                clip_packets(new, now, number)
                == clip_packets(old, was, position)[one.start : one.stop]
            )


def clip_packets(source: Source, camera: str, episode: int) -> list[bytes]:
    """Return the packets of an episode."""
    images = source.images(camera, episode)
    path = source.root / source.video_file(camera, episode)
    table = source.frames.videos.table(path)
    packets = table.shown[images]
    starts, sizes = table.offset[packets].tolist(), table.size[packets].tolist()
    with SpanReader(path, "video file") as file:
        pairs = zip(starts, sizes, strict=True)
        return [bytes(file.read(start, start + size)) for start, size in pairs]


def row_groups(root: Path) -> list[int]:
    """Return the rows of each row group of the data files, in order."""
    sizes = []
    for path in sorted((root / "data").rglob("*.parquet")):
        with pq.ParquetFile(path) as file:
            sizes += [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    return sizes
