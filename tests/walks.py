"""How many files of ``src/roboreel`` one action walks through, and how many calls that takes.

``python -m tests.walks`` prints both for the usual actions; another tree is measured with its
``src`` as PYTHONPATH. Modules of ``cli/`` are not counted, nor is what runs at import.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

import roboreel as reel
from roboreel.cli import app
from tests.importing.ros_files import START_NS, Sent, header, write_mcap
from tests.written.make import STATE, recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SOURCE = str(Path(reel.__file__).parent) + "/"


def walk(action: Callable[[], object]) -> Counter[str]:
    """Return the calls of functions that an action makes, by file."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        path = code.co_filename
        # The bodies of modules and classes are not optimized: they run at import.
        if event == "call" and path.startswith(SOURCE) and code.co_flags & CO_OPTIMIZED:
            calls[path.removeprefix(SOURCE)] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Counter({path: n for path, n in calls.items() if not path.startswith("cli/")})


def command(*words: object) -> None:
    """Run a command of the command line; one that finds something ends with 1."""
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code in (0, 1), done.output


def write_joints(path: Path) -> Path:
    """Write an MCAP file of 90 messages."""
    kind = "sensor_msgs/msg/JointState"
    times = [START_NS + i * 33_333_333 for i in range(90)]
    sent = [Sent("/joints", kind, t, {"header": header(t), "position": [0.1, 0.2]}) for t in times]
    return write_mcap(path, sent)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        roots = [recorded(home / name, [20] * 5, "video") for name in "abcd"]
        joints = write_joints(home / "joints.mcap")
        opened = []
        actions: dict[str, Callable[[], object]] = {
            "open": lambda: opened.append(reel.open_dataset(roots[0])),
            "first batch of numbers": lambda: opened[0].read(range(8), [STATE]),
            "edit delete": lambda: command("edit", "delete", roots[1], "1", "--yes"),
            "repair --drop-episodes": lambda: command(
                "repair", roots[2], "--drop-episodes", "1", "--yes"
            ),
            "import of an MCAP": lambda: command("import", joints, "--out", home / "out"),
            "check": lambda: command("check", roots[3]),
        }
        for name, action in actions.items():
            calls = walk(action)
            print(f"{name:<24}{len(calls):>5} files {calls.total():>8} calls")


if __name__ == "__main__":
    main()
