"""A process that runs tasks for another one: numbers come in by stdin, outcomes go out by stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from roboreel.cores import limit_cores
from roboreel.io.budget import process_budget
from roboreel.jobs.job import open_job
from roboreel.jobs.running import run_task

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


def share_machine(threads: int, memory_bytes: int) -> None:
    """Limit the cores and the memory of this process, which is one of several on a machine."""
    limit_cores(threads)
    process_budget().limit_bytes = memory_bytes


def serve(path: str, numbers: Iterable[str], answers: TextIO) -> None:
    """Run tasks of the job in a folder until there are no more numbers."""
    job = open_job(path)
    for line in numbers:
        outcome = run_task(job, int(line))
        answers.write(json.dumps(asdict(outcome)) + "\n")
        answers.flush()


def main() -> None:
    """Run tasks for the process that started this one: arguments are folder, threads, memory."""
    path, threads, memory_bytes = sys.argv[1:]
    # A Ctrl-C reaches all processes of a terminal; the one that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What an operation prints must not look like an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    share_machine(int(threads), int(memory_bytes))
    try:
        serve(path, iter(sys.stdin.readline, ""), answers)
    except BrokenPipeError:
        os._exit(1)  # The other process is gone; there is nobody to tell.
