"""Recorders, recovery and compaction: every saved episode is whole, and recording goes on."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import av
import numpy as np

import roboreel as reel
from roboreel.commit import WORKSHOP, Workshop, finish_commit
from roboreel.record.compact import compact_dataset
from roboreel.record.journal import read_records
from roboreel.record.recover import recover_dataset
from tests.faults.scenario import Remains, Scenario, check_no_litter
from tests.recordings import CAMERAS, FPS, check_dataset, features, picture, record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.scenario import Say

__all__ = ["SCENARIOS"]

LENGTHS = [3, 3, 3, 3, 3]
"""Frames of the episodes, whichever scenario records them: as many in each, so that none is missed that
comes in place of another."""
FEATURES = ("observation.state", "note", CAMERAS[0])
"""One of each kind that is stored in a way of its own."""


def create(folder: Path, store: str, *, compact: bool = True) -> reel.Recorder:
    """Return a recorder of a new dataset."""
    return reel.create_dataset(
        folder / "dataset",
        fps=FPS,
        features={name: features(store, 1)[name] for name in FEATURES},
        encoding=reel.Encoding("h264") if store == "video" else None,
        compact_on_close=compact,
    )


def record_new(folder: Path, say: Say, store: str) -> None:
    """Record, discard, save and close; files are joined by those who resume."""
    with create(folder, store, compact=False) as recorder:
        say("created")
        record(recorder, 0, LENGTHS[0])
        recorder.save_episode()
        say("saved")
        record(recorder, 1, 1)
        recorder.discard_episode()
        record(recorder, 1, LENGTHS[1])
        recorder.save_episode()
        say("saved")


def leave_open(folder: Path, store: str) -> None:
    """Record an episode, and leave another one open."""
    with create(folder, store) as recorder:
        record(recorder, 0, LENGTHS[0])
        recorder.save_episode()
        record(recorder, 1, LENGTHS[1])


def resume(folder: Path, say: Say) -> None:
    """Go on after an open episode, which is saved first."""
    with reel.resume_dataset(folder / "dataset") as recorder:
        say("saved")
        record(recorder, 2, LENGTHS[2])
        recorder.save_episode()
        say("saved")


def recover(folder: Path, say: Say) -> None:
    """Save the open episode."""
    recover_dataset(folder / "dataset")
    say("saved")


def record_apart(folder: Path, store: str) -> None:
    """Record episodes, each in files of its own."""
    with create(folder, store, compact=False) as recorder:
        for episode in range(3):
            record(recorder, episode, LENGTHS[episode])
            recorder.save_episode()


def compact(folder: Path, say: Say) -> None:
    """Join the files."""
    assert compact_dataset(folder / "dataset")
    say("joined")


def verify(remains: Remains, store: str, before: int) -> None:
    """Check all that must hold, recover, go on, and check again.

    Args:
        remains: What is left.
        store: How images are stored.
        before: Episodes that had been saved before the run.
    """
    root = remains.folder / "dataset"
    promised = before + remains.count("saved")
    if not promised and "created" not in remains.said and not has_info(root):
        with create(remains.folder, store, compact=False) as recorder:
            record(recorder, 0, 2)
            recorder.save_episode()
        check_images(root, [2])
        check_no_litter(remains.folder)
        return
    seen, told = len(reel.open_dataset(root).episodes), read_info(root)
    assert told["total_episodes"] <= seen, "info.json before the table of episodes"
    assert promised <= seen <= promised + 1, f"{promised} episodes were saved, {seen} are there"
    remains.once(check_images, root, LENGTHS[:seen])
    finish_commit(Workshop(root))
    remains.go_on(lambda: recover_what_is_left(remains, promised), promised)


def recover_what_is_left(remains: Remains, promised: int) -> None:
    """Recover, check how much there is, and go on."""
    root = remains.folder / "dataset"
    flushed = flushed_frames(root)
    kept = recover_dataset(root).kept_frames
    if not remains.is_cut:  # which may have torn them
        assert kept == flushed, f"{flushed} frames were on the disk, {kept} were recovered"
    seen = read_info(root)["total_episodes"] - (1 if kept else 0)
    assert promised <= seen <= promised + 1, f"{promised} episodes were saved, {seen} are there"
    lengths = [*LENGTHS[:seen], *([kept] if kept else [])]
    remains.go_on(lambda: check_and_record(remains, lengths), lengths)


def check_and_record(remains: Remains, lengths: list[int]) -> None:
    """Check what there is, record an episode, and check again."""
    root = remains.folder / "dataset"
    remains.once(check_sound, root, lengths)
    with reel.resume_dataset(root, compact_on_close=False) as recorder:
        record(recorder, len(lengths), 2, task="go on")
        recorder.save_episode()
    remains.once(check_sound, root, [*lengths, 2])
    check_no_litter(remains.folder)
    left = {path.name for path in (root / WORKSHOP).iterdir()}
    assert not left & {"open", "staged", "commit", "salvage", "gone", "held"}, left


def flushed_frames(root: Path) -> int:
    """Count what is on the disk of an episode after the saved ones, by the plainest of means."""
    folder, info = root / WORKSHOP / "open", read_info(root)
    if not (folder / "rows.journal").exists():
        return 0
    records, _ = read_records(folder / "rows.journal")
    if not records or f'"episode": {info["total_episodes"]}' not in records[0].decode():
        return 0
    counts = [len(records) - 1]
    for place, feature in enumerate(info["features"].values()):
        if feature["dtype"] == "image":
            path = folder / f"{place}.pictures"
            counts.append(len(read_records(path)[0]) if path.exists() else 0)
        elif feature["dtype"] == "video":
            counts.append(packets(folder / f"{place}.mp4"))
    return min(counts)


def read_info(root: Path) -> dict[str, Any]:
    """Return what info.json says."""
    info: dict[str, Any] = json.loads((root / "meta" / "info.json").read_text())
    return info


def packets(path: Path) -> int:
    """Count the whole packets of a video, as FFmpeg finds them."""
    try:
        with av.open(str(path)) as container:
            found = container.demux(video=0)
            return sum(1 for packet in found if packet.size and not packet.is_corrupt)
    except (FileNotFoundError, av.error.FFmpegError, IndexError):
        return 0


def has_info(root: Path) -> bool:
    """Whether a dataset has been made."""
    return (root / "meta" / "info.json").exists()


def check_sound(root: Path, lengths: list[int]) -> None:
    """Check every value and every image of a dataset, and that nothing is wrong with its files."""
    check_images(root, lengths)
    assert reel.open_dataset(root).problems == ()


def check_images(root: Path, lengths: list[int]) -> None:
    """Check every value and every image of a dataset."""
    dataset = check_dataset(root, lengths)
    cameras = [name for name in CAMERAS if name in dataset.features]
    numbers = [100 * e + i for e, length in enumerate(lengths) for i in range(length)]
    images = dataset.read(np.arange(len(dataset)), cameras, layout="hwc") if numbers else {}
    for place, camera in enumerate(cameras if numbers else []):
        wanted = np.stack([picture(number, place) for number in numbers])
        assert np.abs(images[camera].astype(int) - wanted).max() <= 3, f"images of {camera}"


def _scenarios(store: str) -> list[Scenario]:
    after_open = partial(verify, store=store, before=1)
    opened = partial(leave_open, store=store)
    return [
        Scenario(
            f"record, {store}",
            partial(record_new, store=store),
            partial(verify, store=store, before=0),
        ),
        Scenario(f"resume, {store}", resume, after_open, opened),
        Scenario(f"recover, {store}", recover, after_open, opened),
        Scenario(
            f"compact, {store}",
            compact,
            partial(verify, store=store, before=3),
            partial(record_apart, store=store),
        ),
    ]


SCENARIOS = [*_scenarios("image"), *_scenarios("video")]
