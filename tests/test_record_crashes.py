"""A recorder may die anywhere: the dataset opens, saved episodes are whole, recording goes on."""

import os
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest

import roboreel as reel
from roboreel.commit import WORKSHOP, Workshop, finish_commit
from roboreel.record.journal import read_records
from roboreel.record.recover import recover_dataset
from tests.recording_crash import LENGTHS
from tests.recordings import FPS, check_dataset, decoded, features, record

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PROJECT = Path(__file__).resolve().parents[1]


def crash(folder: Path, *arguments: object) -> list[Path]:
    """Return the folders that crashed recorders left."""
    command = [sys.executable, "-m", "tests.recording_crash", arguments[0], folder, *arguments[1:]]
    done = subprocess.run(
        list(map(str, command)), cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return sorted(folder.iterdir(), key=lambda path: int(path.name))


def words(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().split() if log.exists() else []


def flushed_frames(root: Path, saved: int) -> int:
    """Count what is on disk of an episode after the saved ones, by the plainest of means."""
    folder = root / WORKSHOP / "open"
    if not (folder / "rows.journal").exists():
        return 0
    records, _ = read_records(folder / "rows.journal")
    if not records or f'"episode": {saved}' not in records[0].decode():
        return 0
    counts = [len(records) - 1]
    info = reel.open_dataset(root).features
    for place, feature in enumerate(info.values()):
        if feature.dtype == "image":
            path = folder / f"{place}.pictures"
            counts.append(len(read_records(path)[0]) if path.exists() else 0)
        elif feature.dtype == "video":
            counts.append(packets(folder / f"{place}.mp4"))
    return min(counts)


def packets(path: Path) -> int:
    try:
        with av.open(str(path)) as container:
            found = container.demux(video=0)
            return sum(1 for p in found if p.size and not p.is_corrupt)
    except (FileNotFoundError, av.error.FFmpegError, IndexError):
        return 0


def check_remains(folder: Path, lengths: list[int]) -> None:
    """Check all that must hold for what one crash left, and go on from there."""
    root = folder / "dataset"
    if "created" not in words(folder) and not (root / "meta" / "info.json").exists():
        with reel.create_dataset(root, fps=FPS, features=features("image", 1)) as recorder:
            record(recorder, 0, 2)
            recorder.save_episode()
        check_dataset(root, [2])
        return
    saved = words(folder).count("saved")
    seen = len(reel.open_dataset(root).episodes)
    assert seen in (saved, saved + 1)
    check_dataset(root, lengths[:seen])

    finish_commit(Workshop(root))
    seen = len(reel.open_dataset(root).episodes)
    assert seen in (saved, saved + 1)
    flushed = flushed_frames(root, seen)
    plan = recover_dataset(root, dry_run=True)
    done = recover_dataset(root)
    assert not (root / WORKSHOP / "open").exists()
    assert done.kept_frames == plan.kept_frames == flushed
    lengths = [*lengths[:seen], *([flushed] if flushed else [])]
    assert check_dataset(root, lengths).problems == ()
    assert not recover_dataset(root).set_aside

    with reel.resume_dataset(root) as recorder:
        record(recorder, len(lengths), 2, task="go on")
        recorder.save_episode()
    assert check_dataset(root, [*lengths, 2]).problems == ()


@pytest.mark.parametrize("kind", ["dies", "fails"])
@pytest.mark.parametrize(
    ("first", "step"),
    [(7, 41), pytest.param(1, 1, marks=pytest.mark.slow)],
    ids=["some calls", "every call"],
)
def test_any_call_that_changes_the_disk_may_be_the_last_or_fail(tmp_path, kind, first, step):
    remains = crash(tmp_path, kind, first, step)
    assert len(remains) > 300 / step
    for folder in remains:
        try:
            check_remains(folder, LENGTHS)
        except Exception as error:  # noqa: PERF203
            raise AssertionError(f"call {folder.name} {kind}") from error


@pytest.mark.parametrize("store", ["image", "video"])
@pytest.mark.parametrize(
    "count", [4, pytest.param(150, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_a_recorder_may_be_killed_at_any_time(tmp_path, store, count):
    lengths = [3 + episode % 3 for episode in range(1000)]
    remains = crash(tmp_path, store, *np.linspace(1.2, 0.05, count).round(4))
    assert len(remains) == count
    for folder in remains:
        check_remains(folder, lengths)


def test_recovered_images_are_those_of_their_frames(tmp_path):
    recorder = reel.create_dataset(
        tmp_path / "d", fps=FPS, features=features("video", 1), encoding=reel.Encoding("h264")
    )
    record(recorder, 0, 7)
    recorder.close()
    assert recover_dataset(tmp_path / "d").kept_frames == 7
    (path,) = (tmp_path / "d" / "videos").glob("*/*/*.mp4")
    greys = decoded(path)
    assert [round(grey / 8) for grey in greys] == list(range(7))
