"""The work of a worker process: read batches until it is stopped, or its parent is gone."""

from __future__ import annotations

import pickle
import signal
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roboreel.cores import limit_cores
from roboreel.errors import SampleError
from roboreel.io.batch_buffers import make_blocks_by
from roboreel.io.budget import process_budget
from roboreel.loading.batches import Loaded
from roboreel.loading.workers.blocks import SharedBlocks
from roboreel.loading.workers.transfer import Sender

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from roboreel.loading.batches import BatchReader, Step


@dataclass(frozen=True, slots=True)
class Share:
    """What one of several workers may use."""

    cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Batches to read."""

    steps: list[Step]
    returned: list[int]
    """Blocks of shared memory that nothing refers to any more."""


def serve_until_closed(connection: Connection, share: Share) -> None:
    """Read batches for the process at the other end. The target of a process."""
    # Ctrl-C reaches all processes of a terminal; the one that trains ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        serve(connection, share)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # The training process has closed the connection, or is gone.


def serve(connection: Connection, share: Share) -> None:
    """Unpickle a reader of batches, and read what is asked for."""
    limit_cores(share.cores)
    pickled = connection.recv_bytes()
    try:
        reader: BatchReader = pickle.loads(pickled)  # of our own parent
        reader.samples.enter_worker()
    except Exception as error:  # noqa: BLE001  # raised in the training process
        connection.send(_portable(Loaded(error=error)))
        return
    connection.send(Loaded())
    # After unpickling: a dataset takes the whole budget along.
    process_budget().limit_bytes = share.memory_bytes
    blocks = SharedBlocks()
    make_blocks_by(blocks.make)
    sender = Sender(connection, blocks, reader.samples.reducers)
    while True:
        task: Task = connection.recv()
        sender.release(task.returned)
        _send(sender, reader.load(task.steps))


def _send(sender: Sender, batches: list[Loaded]) -> None:
    try:
        sender.send([_portable(loaded) for loaded in batches])
    except (EOFError, OSError):
        raise
    except Exception as error:  # noqa: BLE001  # what pickle raises for a user's value
        wrong = SampleError(
            f"A batch cannot be sent from its worker: {error!r}. Have the transform return "
            "arrays, tensors, numbers and texts, or use workers=0."
        )
        sender.send([Loaded(error=wrong) for _ in batches])


def _portable(loaded: Loaded) -> Loaded:
    """Return a batch whose error can be pickled and has the traceback of the worker."""
    if loaded.error is None:
        return loaded
    error: Any = loaded.error
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        copy = pickle.loads(pickle.dumps(error))  # our own
    except Exception:  # noqa: BLE001  # any class of a user
        copy = SampleError(f"{type(error).__name__}: {error}")
    return replace(loaded, error=copy, trace=trace)
