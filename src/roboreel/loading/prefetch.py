"""Work done ahead of time in threads, with results in order."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from roboreel.io.sources import Stop, stoppable
from roboreel.loading.fetch_ahead import FetchAhead
from roboreel.threads import Job, ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Task = TypeVar("Task")
Result = TypeVar("Result")


class Readers(Protocol):
    """What the work is done with, and is ended after it."""

    def stop(self) -> None:
        """Wait no longer than needed for work that is being done."""

    def close(self) -> None:
        """End; no work is being done any more."""


class Prefetcher(Generic[Task, Result]):
    """Does tasks ahead of time; at most ``ahead`` of them are begun and not yet taken.

    A forked child may go on taking results: it does anew what was being done at the fork.

    Args:
        work: Called with each task, in one of the threads.
        tasks: The tasks; the next one is drawn when a result is taken.
        threads: How many tasks run side by side.
        ahead: How many tasks may be running or finished, and not yet taken.
        readers: What the work is done with; closed at the end.
    """

    def __init__(
        self,
        work: Callable[[Task], Result],
        tasks: Iterator[Task],
        *,
        threads: int,
        ahead: int,
        readers: Readers | None = None,
    ) -> None:
        self._work = work
        self._tasks = tasks
        self._ahead = ahead
        self._readers = readers
        self._begun: deque[tuple[Task, Job[Result]]] = deque()
        self._stop = Stop()
        self._pid = os.getpid()
        self._pool = ThreadPool(threads, "roboreel-loader")

    def __iter__(self) -> Iterator[tuple[Task, Result]]:
        """Yield tasks with their results, in order; an error of the work is raised here."""
        try:
            # The first one runs alone: whoever waits for it waits for nothing else.
            self._begin(1)
            for _, job in self._begun:
                job.wait()
            self._begin(self._ahead)
            while self._begun:
                self._redo_after_fork()
                task, job = self._begun.popleft()
                result = job.result()
                del job
                self._begin(self._ahead)
                yield task, result
                del result  # The next one may need its memory.
        finally:
            self.close()

    def close(self) -> None:
        """Drop what is not begun, and wait for what is; no thread is left afterwards."""
        self._begun.clear()
        self._stop.is_set = True  # Whoever waits for the network waits no longer.
        if self._readers is not None:
            self._readers.stop()
        if isinstance(self._tasks, FetchAhead):
            self._tasks.close()
        self._pool.close()
        if self._readers is not None:
            self._readers.close()

    def _begin(self, ahead: int) -> None:
        while len(self._begun) < ahead:
            task = next(self._tasks, None)
            if task is None:
                return
            self._begun.append((task, self._pool.submit(self._run, task)))

    def _redo_after_fork(self) -> None:
        """Begin again what threads of the parent were doing: a child does not have them."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._begun = deque(
            (task, job if job.is_done else self._pool.submit(self._run, task))
            for task, job in self._begun
        )

    def _run(self, task: Task) -> Result:
        with stoppable(self._stop):
            return self._work(task)
