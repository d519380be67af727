"""Work done ahead of time in threads, with results in order."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

__all__ = ["Prefetcher"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class Prefetcher(Generic[Task, Result]):
    """Does tasks ahead of time; at most ``ahead`` of them are begun and not yet taken.

    Args:
        work: Called with each task, in one of the threads.
        tasks: The tasks; the next one is drawn when a result is taken.
        threads: How many tasks run side by side.
        ahead: How many tasks may be running or finished, and not yet taken.
    """

    def __init__(
        self, work: Callable[[Task], Result], tasks: Iterator[Task], *, threads: int, ahead: int
    ) -> None:
        self._work = work
        self._tasks = tasks
        self._ahead = ahead
        self._stopped = threading.Event()
        self._begun: deque[tuple[Task, Future[Result | None]]] = deque()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="roboreel-loader")

    def __iter__(self) -> Iterator[tuple[Task, Result]]:
        """Yield tasks with their results, in order; an error of the work is raised here."""
        try:
            # The first one runs alone: whoever waits for it waits for nothing else.
            self._begin(1)
            wait([future for _, future in self._begun])
            self._begin(self._ahead)
            while self._begun:
                task, future = self._begun.popleft()
                result = future.result()
                assert result is not None  # It is None only after a stop.
                del future
                self._begin(self._ahead)
                yield task, result
                del result  # The next one may need its memory.
        finally:
            self.close()

    def close(self) -> None:
        """Drop what is not begun, and wait for what is; no thread is left afterwards."""
        self._stopped.set()
        for _, future in self._begun:
            future.cancel()
        self._begun.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, ahead: int) -> None:
        while len(self._begun) < ahead:
            task = next(self._tasks, None)
            if task is None:
                return
            self._begun.append((task, self._pool.submit(self._run, task)))

    def _run(self, task: Task) -> Result | None:
        # When the interpreter exits, threads finish what is queued: do nothing then.
        return None if self._stopped.is_set() else self._work(task)
