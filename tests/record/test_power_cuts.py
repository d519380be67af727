"""After a power cut, saved episodes are whole, and of the open one there is what can be read."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import roboreel as reel
from roboreel.commit import WORKSHOP
from roboreel.record.recover import recover_dataset
from tests.record.power_cuts import Sync, Write, chop, states_after_cut
from tests.recordings import CAMERAS, FPS, check_dataset, features, frame, record

FRAMES = 8


def test_what_was_synced_is_always_there():
    states = list(states_after_cut([Write(b"ab"), Sync(), Write(b"cdef"), Write(b"gh")]))
    assert all(state.content.startswith(b"ab") for state in states)
    contents = {state.content for state in states}
    assert {b"ab", b"abcdef", b"abcdef\0\0", b"abcd\0\0\0\0", b"ab\0\0\0\0\0\0"} <= contents


@pytest.fixture(scope="module", params=["image", "video"])
def crashed(request, tmp_path_factory):
    """A dataset with an open episode, and the writes to each file of its journal."""
    root = tmp_path_factory.mktemp("crashed") / "d"
    encoding = reel.Encoding("h264") if request.param == "video" else None
    logs: dict[str, list[Write | Sync]] = {}
    real = os.write

    def write(handle: int, data: bytes) -> int:
        name = Path(f"/proc/self/fd/{handle}").readlink().name
        logs.setdefault(name, []).append(Write(bytes(data)))
        return real(handle, data)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to tell which file is written to")
    recorder = reel.create_dataset(
        root, fps=FPS, features=features(request.param), encoding=encoding, compact_on_close=False
    )
    record(recorder, 0, 2)
    recorder.save_episode()
    logs.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "write", write)
        record(recorder, 1, FRAMES)
        recorder.close()
    folder = root / WORKSHOP / "open"
    for video in folder.glob("*.mp4"):  # FFmpeg writes these.
        logs[video.name] = chop(video.read_bytes(), 700)
    assert set(logs) >= {path.name for path in folder.iterdir()}
    return root, {name: logs[name] for name in sorted(logs) if (folder / name).exists()}


def check_recovery(root: Path) -> int:
    """Recover, read every value and image, and go on recording; return how many frames were kept."""
    plan = recover_dataset(root, dry_run=True)
    done = recover_dataset(root)
    assert plan == done
    lost = done.kept_frames < FRAMES
    assert bool(done.problems) >= (lost and done.found_frames > done.kept_frames)
    lengths = [2, done.kept_frames] if done.kept_frames else [2]
    dataset = check_dataset(root, lengths)
    assert dataset.problems == ()
    rows = np.arange(len(dataset))
    images = dataset.read(rows, list(CAMERAS), layout="hwc")
    moments = [(e, i) for e, length in enumerate(lengths) for i in range(length)]
    for camera in CAMERAS:
        wanted = np.array([frame(e, i)[camera][0, 0, 0] for e, i in moments], float)
        assert np.abs(images[camera].mean(axis=(1, 2, 3)) - wanted).max() <= 2
    with reel.resume_dataset(root, open_episode="raise") as recorder:
        record(recorder, len(lengths), 1)
        recorder.save_episode()
    check_dataset(root, [*lengths, 1])
    return done.kept_frames


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_any_file_of_the_journal_may_be_lost_zeroed_or_torn(crashed, tmp_path, step):
    root, logs = crashed
    states = [(name, state) for name, log in logs.items() for state in states_after_cut(log)]
    assert len(states) > 50
    for number, (name, state) in enumerate(states[3::step]):
        copy = tmp_path / str(number)
        shutil.copytree(root, copy)
        (copy / WORKSHOP / "open" / name).write_bytes(state.content)
        try:
            check_recovery(copy)
        except Exception as error:
            raise AssertionError(f"{name} {state.label}") from error
        shutil.rmtree(copy)


def test_without_a_cut_everything_is_kept(crashed, tmp_path):
    shutil.copytree(crashed[0], tmp_path / "d")
    assert check_recovery(tmp_path / "d") == FRAMES


def test_all_files_of_the_journal_may_be_empty_at_once(crashed, tmp_path):
    shutil.copytree(crashed[0], tmp_path / "d")
    for path in (tmp_path / "d" / WORKSHOP).rglob("*"):
        if path.is_file() and path.name != "lock":
            path.write_bytes(b"")
    assert check_recovery(tmp_path / "d") == 0
