"""Records in child processes that die at a chosen call to the system, or are killed.

Run as a program, so that what is forked has no threads: ``python -m tests.recording_crash``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import roboreel as reel
import roboreel.dataset
import roboreel.record.recorder
from tests.recordings import FPS, features, record

DIED = 77
CALLS = ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir", "write", "ftruncate")


def script(root: Path, log: Any) -> None:
    """Record, discard, save, close, resume, compact: all that changes files."""
    with reel.create_dataset(root, fps=FPS, features=features("image", 1)) as recorder:
        log("created")
        record(recorder, 0, 3)
        recorder.save_episode()
        log("saved")
        record(recorder, 1, 1)
        recorder.discard_episode()
        log("discarded")
        record(recorder, 1, 2)
        recorder.save_episode()
        log("saved")
    with reel.resume_dataset(root) as recorder:
        record(recorder, 2, 2)
        recorder.save_episode()
        log("saved")
        record(recorder, 3, 2)  # left open
    with reel.resume_dataset(root) as recorder:  # which recovers it
        log("saved")
        record(recorder, 4, 1)
        recorder.save_episode()
        log("saved")


LENGTHS = [3, 2, 2, 2, 1]


def die_at(call: int) -> None:
    """End this process at its n-th call that changes something on disk."""
    left = call

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def counted(*given: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if name == "write":  # half of it reaches the disk
                    real(given[0], bytes(given[1])[: len(given[1]) // 2])
                os._exit(DIED)
            # What a sync is for cannot be seen by killing a process, only that it is called.
            return None if name == "fsync" else real(*given, **more)

        setattr(os, name, counted)

    for name in CALLS:
        wrap(name)


def run(folder: Path, call: int) -> int:
    """Let a child run the script until its n-th call; return its exit code."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        try:
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            write = os.write
            die_at(call)
            script(folder / "dataset", lambda word: write(log, f"{word}\n".encode()))
        except BaseException:  # noqa: BLE001  # the child must end here, whatever happens
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def endless(root: Path, log: Any, store: str) -> None:
    """Record short episodes for ever, and say when each frame and episode is in."""
    encoding = reel.Encoding("h264") if store == "video" else None
    wanted = features(store, 2)
    with reel.create_dataset(root, fps=FPS, features=wanted, encoding=encoding) as recorder:
        log("created")
        for episode in range(1000):
            for i in range(3 + episode % 3):
                record_one(recorder, episode, i)
                log("frame")
                time.sleep(0.005)
            recorder.save_episode()
            log("saved")


def record_one(recorder: reel.Recorder, episode: int, i: int) -> None:
    """Add one frame."""
    from tests.recordings import frame

    values = frame(episode, i, dict(recorder.features))
    recorder.add_frame(values, task=f"task {episode % 2}")


def kill(folder: Path, store: str, after_s: float) -> None:
    """Let a child record, and kill it some time after it began."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        endless(folder / "dataset", lambda word: os.write(log, f"{word}\n".encode()), store)
        os._exit(0)
    time.sleep(after_s)
    os.kill(child, 9)
    os.waitpid(child, 0)


def main() -> None:
    """Make the remains of many crashes, a folder each."""
    mode, folder = sys.argv[1], Path(sys.argv[2])
    if mode == "calls":
        first, step = int(sys.argv[3]), int(sys.argv[4])
        for call in range(first, 100_000, step):
            code = run(folder / str(call), call)
            if code == 0:
                return
            if code != DIED:
                sys.exit(f"The script failed at call {call}.")
    else:
        for number, after_s in enumerate(sys.argv[3:]):
            kill(folder / str(number), mode, float(after_s))


if __name__ == "__main__":
    main()
