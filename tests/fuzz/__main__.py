"""Feeds every parser and damages datasets of every kind in turn, in child processes.

``python -m tests.fuzz --seconds 600``; run it again to go on. Inputs that reached something new are kept in ``.fuzz/``, and
so are findings: each becomes a test. Ends with 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.child import FOUND
from tests.measured import COUNTS, add_counts
from tests.mutation import KINDS

PROJECT = Path(__file__).resolve().parents[2]
DAMAGED = {f"damaged {kind}": kind for kind in KINDS}
GRACE_S = 600
"""What a child may take longer than it was told, on a busy machine. An input has 20 s: see `child`."""


def main() -> None:
    """Run slices of all targets until the time is up."""
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--slice", type=int, default=30, help="seconds of one of them at a time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", help="names of parsers and kinds of datasets")
    parser.add_argument("--state", type=Path, default=PROJECT / ".fuzz")
    parser.add_argument("--counts", type=Path, default=COUNTS)
    given = parser.parse_args()
    names = given.only or [*TARGETS, *DAMAGED]
    stop_s = time.monotonic() + given.seconds
    failed: dict[str, str] = {}

    def feed(name: str) -> None:
        if time.monotonic() < stop_s and name not in failed:
            inputs, problem = run_slice(name, given.state / name, given.slice)
            section, unit = ("dataset", "damaged") if name in DAMAGED else ("parser", "inputs")
            numbers = {unit: inputs, "findings": int(problem is not None)}
            add_counts(section, name, numbers, given.counts)
            if problem is not None:
                failed[name] = problem
                print(f"{name}: {problem}", flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        waiting = []
        for name in cycle(names):
            if time.monotonic() >= stop_s or len(failed) == len(names):
                break
            waiting.append(pool.submit(feed, name))
            while sum(not future.done() for future in waiting) > given.jobs:
                time.sleep(0.1)
    for future in waiting:
        future.result()
    sys.exit(bool(failed))


def run_slice(name: str, state: Path, seconds: int) -> tuple[int, str | None]:
    """Feed one parser, or damage datasets of a kind; return the number of inputs, and what is wrong."""
    state.mkdir(parents=True, exist_ok=True)
    (state / "count").unlink(missing_ok=True)
    module, what = ("damage", DAMAGED[name]) if name in DAMAGED else ("child", name)
    command = [sys.executable, "-m", f"tests.fuzz.{module}", what, str(state)]
    command.append(f"--seconds={seconds}")
    if module == "child" and importlib.util.find_spec("atheris") is None:
        command.append("--plain")
    fast = Path("/dev/shm")
    with TemporaryDirectory(dir=fast if os.access(fast, os.W_OK) else None) as scratch:
        problem = _run(command, scratch, state / "output.txt", seconds + GRACE_S)
    count = state / "count"
    inputs = int.from_bytes(count.read_bytes(), "little") if count.exists() else 0
    return inputs, problem


def _run(command: list[str], scratch: str, output: Path, timeout_s: int) -> str | None:
    environment = {**os.environ, "ROBOREEL_FUZZ_FOLDER": scratch}
    with output.open("w") as file:
        try:
            done = subprocess.run(
                command, cwd=PROJECT, env=environment, stdout=file, stderr=file, timeout=timeout_s,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"hangs: {output}"
    if done.returncode == 0:
        return None
    lines = output.read_text(errors="replace").strip().splitlines() or [""]
    if done.returncode == FOUND:
        return lines[-1]
    # Whatever killed it would end a user's process, too.
    shutil.copy(output, output.with_suffix(f".{time.time_ns()}.txt"))
    return f"ended with {done.returncode}: {output}"


if __name__ == "__main__":
    main()
