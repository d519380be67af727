"""Threads that an interrupt at any moment cannot leave waiting for ever.

The standard library's executors wait by locks that are written in Python. Ctrl-C can strike between
taking such a lock and entering its block; nobody releases it then, a thread that reports its result
waits for ever, and so do ``shutdown`` and the exit of the interpreter. Here, threads meet at
`queue.SimpleQueue` and `threading.Lock` alone, which are written in C and cannot be interrupted
halfway.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from roboreel.forking import after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Result = TypeVar("Result")


class Job(Generic[Result]):
    """A call that is made in one of the threads of a pool."""

    __slots__ = ("_begun", "_call", "_done", "_error", "_result")

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call: Callable[[], Result] | None = call
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._begun = False
        self._done = threading.Lock()
        self._done.acquire()

    def wait(self) -> None:
        """Wait until the call is made, or the job is cancelled."""
        with self._done:  # Not `acquire` and `release`: an interrupt can strike between the two.
            pass

    def wait_for(self, seconds: float) -> bool:
        """Wait for the call for at most this many seconds; return whether it is finished.

        Not for the main thread: an interrupt between the two lines would leave others waiting.
        """
        if not self._done.acquire(timeout=seconds):
            return False
        self._done.release()
        return True

    @property
    def is_done(self) -> bool:
        """Whether the call is made, or the job was cancelled in time."""
        return not self._done.locked()

    @property
    def is_running(self) -> bool:
        """Whether a thread makes the call now. If not, after `cancel`, none ever will."""
        return self._begun and self._done.locked()

    def result(self) -> Result:
        """Wait for the call; return what it returned, or raise what it raised."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # Otherwise the error's traceback keeps the error, and the job, alive.
        return cast("Result", self._result)

    def cancel(self) -> None:
        """Skip the call if it has not begun. The result is None then."""
        self._call = None

    def call(self) -> None:
        """Make the call, unless it was cancelled. For the pool."""
        self._begun = True  # First: whoever cancels looks at it afterwards.
        call, self._call = self._call, None
        if call is not None:
            try:
                self._result = call()
            except BaseException as error:  # noqa: BLE001  # raised where the result is asked for
                self._error = error

    def finish(self) -> None:
        """Let those who wait go on. For the pool."""
        self._done.release()


class ThreadPool:
    """Threads that make calls, started when there is work for them.

    A pool that nobody refers to any more ends its threads. A forked child starts its own.

    Args:
        threads: How many calls run side by side.
        name: What the threads are called.
        waits_at_exit: Whether the interpreter waits for calls that are being made. Otherwise they
            are left behind: such calls wait for a network, and leave nothing half done.
    """

    def __init__(self, threads: int, name: str = "roboreel", *, waits_at_exit: bool = True) -> None:
        self.threads = threads
        self.name = name
        self._begin_anew()
        after_fork(self, ThreadPool._begin_anew)
        if waits_at_exit:
            _pools.add(self)

    def submit(
        self,
        function: Callable[..., Result],
        *arguments: Any,  # noqa: ANN401
        **keywords: Any,  # noqa: ANN401
    ) -> Job[Result]:
        """Have a call made, and return at once."""
        job = Job(partial(function, *arguments, **keywords))
        self.start(job)
        return job

    def start(self, job: Job[Any]) -> None:
        """Start the call of a job, and return at once.

        An interrupt, or a thread that cannot be started, may leave the job made or not. Whoever must
        know has the job, and can cancel it and see whether it is running.
        """
        self._unused = False
        unfinished = 0
        if len(self._workers) < self.threads:
            # Counted first: an interrupt must not make jobs uncounted, and threads too few for ever.
            unfinished = next(self._submitted) - sum(worker.finished for worker in self._workers)
        self._jobs.put(job)
        # Threads that submit at the same moment may start one too many, which does no harm.
        if unfinished > len(self._workers):
            self._workers.append(_Worker(self._jobs, self.name))

    def map(self, function: Callable[..., Result], *arguments: Iterable[Any]) -> Iterator[Result]:
        """Have a call made for each item; return the results in order.

        Stopping early skips the calls that have not begun.
        """
        several = zip(*arguments)  # noqa: B905  # ends with the shortest, as `map` does
        return _results([self.submit(function, *one) for one in several])

    def close(self) -> None:
        """Skip calls that have not begun, wait for the others, and end the threads.

        An interrupt may strike here too: call it again. A later call of `submit` starts new threads.
        """
        if self._unused:
            return  # At the exit of the interpreter, when what follows may be gone already.
        _dismiss(self._jobs)
        for worker in self._workers:
            worker.wait()
        self._finalizer.detach()
        self._begin_anew()

    def __enter__(self) -> ThreadPool:  # noqa: PYI034  # typing.Self is younger than 3.10
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin_anew(self) -> None:
        self._unused = True
        self._jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._workers: list[_Worker] = []
        self._submitted = count(1)  # Increments in C, so that threads can share it.
        self._finalizer = weakref.finalize(self, _dismiss, self._jobs)
        self._finalizer.atexit = False


def wait_for_all(jobs: Sequence[Job[Any]]) -> None:
    """Wait for all jobs. If one fails, skip those that have not begun and raise its error.

    When this returns, or raises the error of a job, none of the calls is running.
    """
    try:
        for job in jobs:
            job.result()
    except BaseException as error:
        for job in jobs:
            job.cancel()
        if isinstance(error, Exception):  # Whoever interrupts does not want to wait.
            for job in jobs:
                job.wait()
        raise


class _Worker:
    """One thread. It does not know the pool, so that an abandoned pool can be collected."""

    def __init__(self, jobs: SimpleQueue[Job[Any] | None], name: str) -> None:
        self.finished = 0
        self._jobs = jobs
        self._running = threading.Lock()
        self._running.acquire()
        # A daemon: starting a thread waits by a lock in Python too, and a thread that Ctrl-C left
        # waiting there must not hold up the exit. `_close_all` waits for all others.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            # Ctrl-C at one moment of that wait makes Python release a lock that it has not taken.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise

    def wait(self) -> None:
        """Wait for the end of the thread, unless this is that thread."""
        if threading.get_ident() != self._thread.ident:
            with self._running:
                pass
            self._thread.join()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.call()
            self.finished += 1
            job.finish()
            del job  # The next one may be long in coming.
        # For the next thread. One sign per thread would not do: an interrupt in `submit` leaves a
        # thread that the pool does not know, and it would take the sign of another.
        self._jobs.put(None)
        self._running.release()


def _results(jobs: list[Job[Result]]) -> Iterator[Result]:
    try:
        for job in jobs:
            yield job.result()
    finally:
        for job in jobs:
            job.cancel()


def _dismiss(jobs: SimpleQueue[Job[Any] | None]) -> None:
    while True:
        try:
            job = jobs.get_nowait()
        except Empty:
            break
        if job is not None:
            job.cancel()
            job.finish()
    jobs.put(None)


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


_pools: weakref.WeakSet[ThreadPool] = weakref.WeakSet()
atexit.register(_close_all)
