"""The anonymous memory of a child process, measured from outside."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

__all__ = ["anonymous_bytes", "peak_of"]


def anonymous_bytes(pid: int) -> int | None:
    """Return the anonymous memory of a process; None if it is gone or is ending."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    found = [line for line in text.splitlines() if line.startswith("Anonymous:")]
    return int(found[0].split()[1]) * 1024 if found else None


def peak_of(program: str, *arguments: str, seconds: float = 120) -> tuple[int, str]:
    """Run a program and return the most memory that it took, and what it printed.

    Memory counts from the line "ready" on, which the program prints when it has imported what it
    needs, less what it had then. It prints "returned N" for bytes that the caller holds.
    """
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "ready":
            raise AssertionError(process.communicate()[0])
        before = most = anonymous_bytes(process.pid) or 0
        process.stdin.write("go\n")
        process.stdin.flush()
        deadline = time.monotonic() + seconds
        while process.poll() is None:
            most = max(most, anonymous_bytes(process.pid) or 0)
            assert time.monotonic() < deadline, "It hangs."
            time.sleep(0.002)
        return most - before, process.stdout.read()
    finally:
        process.kill()
        process.communicate()
