"""Batches of remote datasets, fetched further ahead than they are decoded."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from roboreel.errors import DatasetError
from roboreel.io.sources import Stop, sources, stoppable
from roboreel.threads import Job, ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Task = TypeVar("Task")

_MOST_BYTES = 256 * 2**20
_MOST_TASKS = 16
_THREADS = 4
_HITS = 8
"""After so many tasks in a row that lacked nothing, only every fourth is looked at."""
_LOOKED_AT = 4


class FetchAhead(Generic[Task]):
    """Hands out tasks; what the next ones need is being fetched, within a limit of bytes.

    A task is handed out whether or not its bytes are there: its reader waits for what is missing.

    Args:
        tasks: The tasks, in order.
        fetch: Fetches what a task needs, and returns how many bytes were missing.
    """

    def __init__(self, tasks: Iterator[Task], fetch: Callable[[Task], int]) -> None:
        self._tasks = tasks
        self._fetch = fetch
        self._begun: deque[tuple[Task, Job[int]]] = deque()
        self._stop = Stop()
        self._mean_bytes = 0.0
        self._is_first = True
        self._hits = 0
        self._passed = 0
        # What is fetched must still be there when it is read.
        self._most_bytes = min([_MOST_BYTES, *(source.room_bytes // 4 for source in sources())])
        self._pool = ThreadPool(_THREADS, "roboreel-ahead")

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        if self._is_first:  # It is waited for: nothing else is asked of the network meanwhile.
            self._is_first = False
            return next(self._tasks)
        if not self._begun:
            self._begin()
        if not self._begun:
            raise StopIteration
        task, job = self._begun.popleft()
        if job.is_done:
            self._mean_bytes = max(0.9 * self._mean_bytes, float(job.result()))
        self._begin()
        return task

    def close(self) -> None:
        """Stop fetching; no thread is left afterwards."""
        self._stop.is_set = True
        self._begun.clear()
        self._pool.close()

    def _begin(self) -> None:
        while len(self._begun) < _MOST_TASKS and self._ahead_bytes() < self._most_bytes:
            try:
                task = next(self._tasks)
            except StopIteration:
                return
            self._begun.append((task, self._pool.submit(self._try, task, self._is_passed())))

    def _is_passed(self) -> bool:
        """Whether to skip a task: while a mirror has all bytes, it is not asked for each task."""
        self._passed = 0 if self._hits < _HITS else (self._passed + 1) % _LOOKED_AT
        return self._passed != 0

    def _ahead_bytes(self) -> float:
        """Return about how many bytes are fetched and not yet handed out."""
        return sum(
            job.result() if job.is_done else self._mean_bytes for _, job in list(self._begun)
        )

    def _try(self, task: Task, is_passed: bool) -> int:
        if is_passed:
            return 0
        try:
            with stoppable(self._stop):
                missing = self._fetch(task)
            self._hits = 0 if missing else self._hits + 1
            return missing
        except DatasetError:
            return 0  # Whoever reads the batch meets it again, and in its place.
