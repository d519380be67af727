"""Worker processes that read the batches of one epoch."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
import weakref
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from roboreel.errors import DatasetError, WorkerError
from roboreel.forking import spawning_safely
from roboreel.io.budget import process_budget
from roboreel.loading.ahead import cores_of_rank
from roboreel.loading.skipping import OF_THE_DATASET
from roboreel.loading.workers.transfer import Receiver
from roboreel.loading.workers.worker import Share, Task, serve_until_closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roboreel.loading.batches import BatchReader, Loaded, Step

# Whoever leaves the loop waits so long for a batch that is being read; then its worker is ended.
_GRACE_S = 5.0
# Blocks of shared memory of all workers, and of each: far below what a process may have open.
_MOST_BLOCKS, _LEAST_BLOCKS = 256, 32


class WorkerPool:
    """Processes that read batches, started by ``spawn``: nothing of this process is copied.

    Args:
        reader: Reads batches; a copy of it works in each process.
        workers: How many processes.

    Raises:
        WorkerError: The reader cannot be pickled.
    """

    def __init__(self, reader: BatchReader, workers: int) -> None:
        pickled = _pickled(reader)
        cores, budget = cores_of_rank(), process_budget().limit_bytes
        share = Share(max(1, cores // workers), budget // workers)
        most_blocks = max(_LEAST_BLOCKS, _MOST_BLOCKS // workers)
        self._warned = False
        self._pid = os.getpid()
        _pools.add(self)
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._workers: list[_Worker] = []
        try:
            with _without_interrupts():
                for _ in range(workers):
                    self._workers.append(_Worker(pickled, share, self._warn, most_blocks))
        except BaseException:
            self.close()
            raise
        for worker in self._workers:
            self._idle.put(worker)

    def load(self, steps: list[Step]) -> list[Loaded]:
        """Return the batches of some steps, read by one of the workers. For as many threads.

        Their arrays lie in memory that is used again once nothing refers to them any more.

        Raises:
            WorkerError: The worker ended, or could not start; or it is the worker of another
                process, from which this one was forked.
        """
        if self._pid != os.getpid():
            raise WorkerError(
                "This process was forked inside a loop over a loader, whose workers serve the "
                "process before. Begin a loop of its own here, or use workers=0."
            )
        worker = self._idle.get()
        try:
            return worker.load(steps)
        finally:
            self._idle.put(worker)  # One that ended says so again: nobody waits for it.

    def stop(self) -> None:
        """Wait no longer than a grace period for batches that are being read."""
        for worker in self._workers:
            worker.deadline_s = time.monotonic() + _GRACE_S

    def close(self) -> None:
        """End all processes; no batch is being read any more. A forked child lets go of them."""
        for worker in self._workers:
            worker.hang_up()
        # Asked for each: at the exit of the interpreter there is none left, and modules may be gone.
        for worker in self._workers:
            if self._pid == os.getpid():
                worker.end()

    def kill(self) -> None:
        """End all processes at once, at the exit of the interpreter: nothing is left to close."""
        if self._pid == os.getpid():
            for worker in self._workers:
                worker.kill()
        self._workers = []

    def _warn(self, shortage: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{shortage}. Batches are copied instead, which is slower. Enlarge it (with "
                "Docker: --shm-size=8g), lower `prefetch` or `workers`, or keep fewer batches.",
                RuntimeWarning,
                stacklevel=2,
            )


class _Worker:
    """One process, as seen from this one; for one thread at a time."""

    def __init__(
        self, pickled: bytes, share: Share, on_shortage: Callable[[str], None], most_blocks: int
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._pickled: bytes | None = pickled
        self._returned: deque[int] = deque()
        self._receiver = Receiver(self._connection, self._returned, on_shortage, most_blocks)
        self.deadline_s = float("inf")
        self._process = context.Process(
            target=serve_until_closed, args=(other, share), name="roboreel-worker", daemon=True
        )
        with spawning_safely():
            self._process.start()
        other.close()

    def load(self, steps: list[Step]) -> list[Loaded]:
        """Have batches read, and wait for them."""
        try:
            self._introduce()
            returned = [self._returned.popleft() for _ in range(len(self._returned))]
            # `send` would leave a view of its buffer in the error of a worker that is gone, which
            # Python 3.13 reports when it is collected.
            self._connection.send_bytes(pickle.dumps(Task(steps, returned)))
            self._wait()
            batches: list[Loaded] = self._receiver.receive()
        except (EOFError, OSError) as error:
            raise self._describe_end(steps) from error
        return [_with_trace(loaded) for loaded in batches]

    def hang_up(self) -> None:
        """Let the process end by itself."""
        self._connection.close()

    def kill(self) -> None:
        """Kill the process and wake up the threads that wait for it."""
        self._process.kill()

    def end(self) -> None:
        """Wait for the end of the process."""
        self._process.join(_GRACE_S)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()

    def _introduce(self) -> None:
        """Hand over the reader, before the first batch."""
        if self._pickled is None:
            return
        self._connection.send_bytes(self._pickled)
        self._wait()
        started: Loaded = self._connection.recv()
        if isinstance(started.error, DatasetError):
            raise started.error
        if started.error is not None:
            raise WorkerError(
                "A worker process cannot make the samples or the transform from their pickles. "
                "Make sure that it can import their modules, or use workers=0."
                f"\n\n{started.trace}"
            )
        self._pickled = None

    def _wait(self) -> None:
        while not self._connection.poll(0.5):
            if time.monotonic() > self.deadline_s:
                self._process.kill()  # It only reads; the end of its connection wakes us up.

    def _describe_end(self, steps: list[Step]) -> WorkerError:
        process = self._process
        with suppress(ValueError):  # Closed meanwhile.
            process.join(_GRACE_S)
        code = process.exitcode
        samples = ", ".join(str(number) for step in steps for number in step.samples.tolist())
        if code is not None and code < 0:
            return WorkerError(
                f"A worker process (pid {process.pid}) was ended by {_signal_name(-code)} while "
                f"it read a batch. If memory ran out, use fewer workers, a lower prefetch or a "
                f"smaller batch. Samples: {samples}."
            )
        if self._pickled is not None:
            return WorkerError(
                f"A worker process ended with exit code {code} before its first batch; its own "
                "message stands above. Workers import the main script again: start training "
                "below `if __name__ == '__main__':`, or use workers=0."
            )
        return WorkerError(
            f"A worker process (pid {process.pid}) ended with exit code {code} while it read a "
            f"batch. Samples: {samples}."
        )


class _WorkerTraceback(Exception):  # noqa: N818  # the cause of an error, not one of its own
    """Where an error was raised in a worker."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


def _with_trace(loaded: Loaded) -> Loaded:
    if loaded.error is None:
        return loaded
    loaded.error.__cause__ = _WorkerTraceback(loaded.trace)
    return replace(loaded, trace="")


def _pickled(reader: BatchReader) -> bytes:
    try:
        return pickle.dumps(reader)
    except OF_THE_DATASET:
        raise
    except Exception as error:
        raise WorkerError(
            f"The samples and the transforms cannot be sent to worker processes: {error}. Define "
            "functions at the top of a module, without lambdas and local functions, or use "
            "workers=0."
        ) from error


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C, so that processes that start inherit this until they can ignore it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _kill_all() -> None:
    # An iterator that is still open is closed only when the modules are gone.
    for pool in list(_pools):
        pool.kill()


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()
atexit.register(_kill_all)
