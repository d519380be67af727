"""Records in child processes whose n-th call to the system is their last, or fails; or kills them.

Run as a program, so that what is forked has no threads: ``python -m tests.recording_crash``.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import roboreel as reel
import roboreel.dataset
import roboreel.record.recorder
from tests.recordings import FPS, features, record

if TYPE_CHECKING:
    from collections.abc import Callable

DIED = 77
AT_ONCE = 4
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
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "An episode was open")
        recorder = reel.resume_dataset(root)  # which recovers it
    with recorder:
        log("saved")
        record(recorder, 4, 1)
        recorder.save_episode()
        log("saved")


LENGTHS = [3, 2, 2, 2, 1]


def spoil(call: int, kind: str) -> Callable[[], bool]:
    """End this process at its n-th call that changes something on disk, or have that call fail.

    Returns:
        Whether that call has been made.
    """
    left = call

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def counted(*given: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if name == "write":  # half of it reaches the disk
                    real(given[0], bytes(given[1])[: len(given[1]) // 2])
                if kind == "fails":
                    raise OSError(errno.EIO, "Input/output error")
                os._exit(DIED)
            # What a sync is for cannot be seen by killing a process, only that it is called.
            return None if name == "fsync" else real(*given, **more)

        setattr(os, name, counted)

    for name in CALLS:
        wrap(name)
    return lambda: left <= 0


def start_spoilt(folder: Path, call: int, kind: str) -> int:
    """Let a child run the script, its n-th call spoilt; return its process."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        try:
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            write = os.write
            # What goes wrong and is not an error is told at least.
            warnings.simplefilter("error")
            reached = spoil(call, kind)
            try:
                script(folder / "dataset", lambda word: write(log, f"{word}\n".encode()))
            except (OSError, reel.DatasetError, UserWarning):
                if not reached():
                    raise
            os._exit(DIED if reached() else 0)
        except BaseException:  # noqa: BLE001  # the child must end here, whatever happens
            import traceback

            traceback.print_exc()
            os._exit(1)
    return child


def exit_code(child: int) -> int:
    """Wait for a child to end."""
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


def start_endless(folder: Path, store: str) -> int:
    """Let a child record for ever; return its process."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        endless(folder / "dataset", lambda word: os.write(log, f"{word}\n".encode()), store)
        os._exit(0)
    return child


def spoil_calls(folder: Path, kind: str, first: int, step: int) -> None:
    """Spoil the first call, the one a step later, and so on until the script gets through."""
    for wave in range(first, 100_000, step * AT_ONCE):
        calls = range(wave, wave + step * AT_ONCE, step)
        children = [start_spoilt(folder / str(call), call, kind) for call in calls]
        codes = dict(zip(calls, map(exit_code, children), strict=True))
        failed = [call for call, code in codes.items() if code not in (0, DIED)]
        if failed:
            sys.exit(f"The script failed at call {failed[0]}.")
        if 0 in codes.values():
            return


def kill_after(folder: Path, store: str, times_s: list[float]) -> None:
    """Kill recorders, each some time after it began."""
    for wave in range(0, len(times_s), AT_ONCE):
        numbers = range(wave, min(wave + AT_ONCE, len(times_s)))
        start_s = time.monotonic()
        children = {number: start_endless(folder / str(number), store) for number in numbers}
        for number in sorted(children, key=times_s.__getitem__):
            time.sleep(max(0.0, start_s + times_s[number] - time.monotonic()))
            os.kill(children[number], signal.SIGKILL)
            os.waitpid(children[number], 0)


def main() -> None:
    """Make the remains of many crashes, a folder each."""
    mode, folder = sys.argv[1], Path(sys.argv[2])
    if mode in ("dies", "fails"):
        spoil_calls(folder, mode, int(sys.argv[3]), int(sys.argv[4]))
    else:
        kill_after(folder, mode, list(map(float, sys.argv[3:])))


if __name__ == "__main__":
    main()
