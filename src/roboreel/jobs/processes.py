"""Tasks in processes of this machine, each used for many tasks."""

from __future__ import annotations

import json
import subprocess
import threading
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from roboreel.cores import usable_cores
from roboreel.forking import python_command
from roboreel.io.budget import process_budget
from roboreel.jobs.running import Outcome
from roboreel.numbers import check_at_least

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.jobs.executor import Session
    from roboreel.jobs.job import Job

_LEAST_MEMORY = 64 * 1024**2
_START = "from roboreel.jobs.worker import main; main()"


class Processes:
    """Runs tasks in processes of this machine.

    They are new processes, not forks, so this one may have threads, locks and open files.

    Args:
        workers: How many; by default as many as there are cores for them.
        threads: How many cores each uses.
        memory_bytes: The memory budget of each. By default they share this process's among them.

    Raises:
        ValueError: A number is too small.
    """

    def __init__(
        self, workers: int | None = None, *, threads: int = 1, memory_bytes: int | None = None
    ) -> None:
        check_at_least(1, threads=threads)
        self.workers = max(1, usable_cores() // threads) if workers is None else workers
        check_at_least(1, workers=self.workers)
        self.threads = threads
        shared = max(_LEAST_MEMORY, process_budget().limit_bytes // self.workers)
        self.memory_bytes = shared if memory_bytes is None else memory_bytes

    def __repr__(self) -> str:
        return f"Processes({self.workers}, threads={self.threads})"

    @contextmanager
    def open(self, job: Job) -> Iterator[Session]:
        """Make ready to run a job's tasks."""
        arguments = [str(job.path), str(self.threads), str(self.memory_bytes)]
        session = _Pool(python_command(_START, *arguments), self.workers)
        try:
            yield session
        finally:
            session.close()
            job.folder.remove_stale()


class _Pool:
    """A thread for each process; it starts the process, and starts another if that dies."""

    def __init__(self, command: list[str], workers: int) -> None:
        self.slots = workers
        self._command = command
        self._numbers: SimpleQueue[int | None] = SimpleQueue()
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_open = True
        self._children: set[subprocess.Popen[str]] = set()
        self._threads = [
            threading.Thread(target=self._serve, name=f"roboreel-job-{i}", daemon=True)
            for i in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, number: int) -> None:
        self._numbers.put(number)

    def wait(self) -> list[Outcome]:
        return [self._outcomes.get()]

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            children = list(self._children)
        for child in children:
            child.kill()
        for _ in self._threads:
            self._numbers.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        child: subprocess.Popen[str] | None = None
        while (number := self._numbers.get()) is not None:
            try:
                child = child or self._start()
            except OSError as error:  # too many processes, or no memory for one more
                self._outcomes.put(Outcome(number, error=f"No process could be started: {error}."))
                continue
            if child is None:
                break
            outcome = _ask(child, number)
            if outcome is None:
                code = self._end(child)
                child = None
                outcome = Outcome(number, error=_death(code))
            self._outcomes.put(outcome)
        if child is not None:
            self._end(child)

    def _start(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if not self._is_open:
                return None
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
            self._children.add(child)
            return child

    def _end(self, child: subprocess.Popen[str]) -> int:
        with suppress(OSError):
            child.communicate()
        with self._lock:
            self._children.discard(child)
        return child.wait()


def _ask(child: subprocess.Popen[str], number: int) -> Outcome | None:
    """Return how a task ended; None if the process did."""
    if child.stdin is None or child.stdout is None:
        return None
    try:
        child.stdin.write(f"{number}\n")
        child.stdin.flush()
        line = child.stdout.readline()
        return Outcome(**json.loads(line)) if line.endswith("\n") else None
    except (OSError, ValueError):
        return None


def _death(code: int) -> str:
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    return f"The process that ran the task ended {how}: it may have run out of memory."
