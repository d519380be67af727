"""Ctrl-C may strike between any two lines of the recorder: it goes on, or says how to go on."""

from __future__ import annotations

import linecache
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import roboreel as reel
import roboreel.record
from roboreel.errors import RecordingError
from tests.recordings import FPS, check_dataset, features, frame

if TYPE_CHECKING:
    from types import FrameType

FOLDER = str(Path(roboreel.record.__file__).parent)
ROUNDS = (2, 1)


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line that the recorder's code executes.

    Not where a ``with`` block is left: a tracer sees its line again, before the lock is released,
    but Python handles no signal there.
    """

    def __init__(self, line: int) -> None:
        self.left = line
        self.where = ""
        self._last: dict[int, int] = {}

    def __enter__(self) -> Interrupt:  # noqa: PYI034  # typing.Self is younger than 3.10
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, current: FrameType, event: str, _: Any) -> Any:
        if not current.f_code.co_filename.startswith(FOLDER):
            return None
        if event == "call":
            self._last[id(current)] = 0
        if event == "line" and not self._leaves_a_block(current):
            self.left -= 1
            if self.left == 0:
                self.where = f"{Path(current.f_code.co_filename).name}:{current.f_lineno}"
                raise KeyboardInterrupt
        return self._trace

    def _leaves_a_block(self, current: FrameType) -> bool:
        before, line = self._last.get(id(current), 0), current.f_lineno
        self._last[id(current)] = line
        text = linecache.getline(current.f_code.co_filename, line).lstrip()
        return line < before and text.startswith("with ")


class Robot:
    """A program that records, and may be interrupted anywhere."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recorder: Any = None
        self.saved = 0

    def run(self) -> None:
        self.create()
        for length in ROUNDS:
            self.add(length)
            self.save()
        self.add(1)
        self.recorder.discard_episode()
        self.recorder.close()

    def create(self) -> None:
        self.recorder = reel.create_dataset(
            self.root, fps=FPS, features=features("image", 1), compact_on_close=False
        )

    def add(self, count: int) -> None:
        for _ in range(count):
            episode, i = self.recorder.num_episodes, self.recorder.open_frames
            self.recorder.add_frame(frame(episode, i, dict(self.recorder.features)), task="task")

    def save(self) -> None:
        self.recorder.save_episode()
        self.saved += 1


def go_on(robot: Robot) -> None:
    """Do what a program does after Ctrl-C: try to go on, and resume if the recorder says so."""
    if robot.recorder is None:
        robot.create()
    try:
        try:
            robot.add(1)
        except RecordingError as error:
            if "call save_episode again" not in str(error):
                raise
        robot.save()
    except RecordingError as error:
        assert "resume_dataset" in str(error)  # noqa: PT017
        robot.recorder.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            robot.recorder = reel.resume_dataset(robot.root)
        robot.add(1)
        robot.save()
    robot.recorder.close()


def count_lines(root: Path) -> int:
    with Interrupt(10**9) as counter:
        Robot(root).run()
    return 10**9 - counter.left


@pytest.mark.long
@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.slow)])
def test_after_an_interrupt_anywhere_recording_goes_on(tmp_path, step):
    Robot(tmp_path / "first").run()  # Which also loads modules.
    total = count_lines(tmp_path / "whole")
    assert total > 300
    for line in range(1, total, step):
        robot = Robot(tmp_path / str(line))
        with Interrupt(line) as interrupt, pytest.raises(KeyboardInterrupt):
            robot.run()
        try:
            go_on(robot)
            dataset = reel.open_dataset(robot.root)
            lengths = dataset.episodes.lengths.tolist()
            assert len(lengths) >= robot.saved
            assert check_dataset(robot.root, lengths).problems == ()
            images = dataset.read(range(len(dataset)), list(dataset.cameras), layout="hwc")
            for name, several in images.items():
                moments = [(e, i) for e, n in enumerate(lengths) for i in range(n)]
                for (e, i), image in zip(moments, several, strict=True):
                    assert (image == frame(e, i)[name]).all()
        except Exception as error:
            raise AssertionError(f"line {line}, {interrupt.where}") from error
