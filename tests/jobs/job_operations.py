"""Operations for tests of jobs: cheap, and failing on demand."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from roboreel.files import write_atomically
from roboreel.jobs import Operation, Plan


def squares(count=7, *, cost_s=0.01, **options):
    """Plan to write the square of each number; the result is their sum."""
    numbers = np.arange(count)
    return Plan(
        "tests.jobs.job_operations:SQUARES", options, {"n": numbers}, np.full(count, cost_s)
    )


def _lines(path):
    return Path(path).read_text().split() if Path(path).exists() else []


def _fill(path, options):
    """Write bytes; if somebody is to find a full disk, wait until that has happened."""
    try:
        path.write_bytes(bytes(options["bytes"]))
    except OSError:
        Path(options["full_seen"]).touch()
        raise
    for _ in range(6_000):
        if "full_seen" not in options or Path(options["full_seen"]).exists():
            return
        time.sleep(0.02)


def _run(task, folder):
    options, n = task.options, task.inputs["n"]
    (folder / "square.txt").write_text(f"{n * n}\n")
    if "bytes" in options:
        _fill(folder / "rest", options)
    waits = options.get("waits", {"numbers": []})
    while n in waits["numbers"] and len(_lines(options["log"])) < waits["others"]:
        time.sleep(0.02)
    if "log" in options:
        with Path(options["log"]).open("a") as log:
            log.write(f"{n}\n")
    if n in options.get("fails", ()):
        raise ValueError(f"{n} is unlucky")
    needs = options.get("fails_unless", {"numbers": []})
    if n in needs["numbers"] and not Path(needs["file"]).exists():
        raise OSError(28, "No space left on device", str(folder))
    if n in options.get("dies_once", {}).get("numbers", ()):
        mark = Path(options["dies_once"]["folder"], str(n))
        if not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(options.get("sleep_s", 0))
    return {"square": n * n}


def _commit(plan, parts):
    lines = [(part.folder / "square.txt").read_text() for part in parts]
    if "out" in plan.options:
        write_atomically(Path(plan.options["out"]), "".join(lines))
    return {"sum": sum(map(int, lines)), "count": len(lines)}


SQUARES = Operation(run=_run, commit=_commit)
NOT_ONE = "text"
