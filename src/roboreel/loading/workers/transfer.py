"""Batches on their way from a worker to the training process.

A message is a small pickle; the arrays in it lie in blocks of shared memory. Those that were read
there are not copied, other large ones are copied there once, and small ones travel along.
"""

from __future__ import annotations

import ctypes
import io
import pickle
import weakref
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.forking import before_fork
from roboreel.loading.workers import segments

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Mapping
    from multiprocessing.connection import Connection

    from roboreel.loading.workers.blocks import SharedBlocks

# Fewer bytes than this are not worth a block.
_LEAST_BYTES = 2**16
_ALIGNMENT = 64
_MOST_LOST = 4


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the bytes of an array lie."""

    block: int
    start: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Message:
    pickled: bytes
    parts: list[_Place | bytes]
    """The arrays of the pickle, in its order."""
    new: list[tuple[int, int]]
    """Number and size of the blocks that are handed over right after the message."""
    dropped: list[int]
    """Blocks that are not used any more."""
    shortage: str
    """Why arrays travel along that should lie in shared memory."""


class Sender:
    """Sends values from a worker, and holds their memory until it is given back.

    Args:
        connection: To the training process.
        blocks: The worker's shared memory.
        reducers: How values of a framework are pickled, by type.
    """

    def __init__(
        self,
        connection: Connection,
        blocks: SharedBlocks,
        reducers: Mapping[type[Any], Callable[[Any], Any]],
    ) -> None:
        self._connection = connection
        self._blocks = blocks
        self._reducers = reducers
        self._out: defaultdict[int, deque[list[memoryview]]] = defaultdict(deque)

    def send(self, value: object) -> None:
        """Send a value.

        Raises:
            Exception: It cannot be pickled. Nothing was sent then.
        """
        file, found = io.BytesIO(), list[pickle.PickleBuffer]()
        pickler = pickle.Pickler(file, protocol=5, buffer_callback=found.append)
        pickler.dispatch_table = dict(self._reducers)
        pickler.dump(value)
        parts, held = self._placed([buffer.raw() for buffer in found])
        new = [number for number in held if number in self._blocks.tickets]
        message = _Message(
            file.getvalue(),
            parts,
            [(number, self._blocks.size_of(number)) for number in new],
            self._blocks.dropped[:],
            self._blocks.shortage,
        )
        del self._blocks.dropped[: len(message.dropped)]
        self._blocks.shortage = ""
        self._connection.send_bytes(pickle.dumps(message, protocol=5))
        for number, views in held.items():
            # They keep the arrays, and so the block, from being used again.
            self._out[number].append(views)
        for number in new:
            segments.give(self._connection, self._blocks.tickets.pop(number))

    def release(self, numbers: list[int]) -> None:
        """Let go of blocks that the training process has given back."""
        for number in numbers:
            self._out[number].popleft()

    def _placed(
        self, views: list[memoryview]
    ) -> tuple[list[_Place | bytes], dict[int, list[memoryview]]]:
        """Return where each array lies, and what keeps each block in use."""
        places = [self._find(view) for view in views]
        strays = [number for number, place in enumerate(places) if place is None]
        if sum(views[number].nbytes for number in strays) >= _LEAST_BYTES:
            for number, copied in zip(
                strays, self._copies([views[n] for n in strays]), strict=True
            ):
                views[number], places[number] = copied, self._find(copied)
        held: defaultdict[int, list[memoryview]] = defaultdict(list)
        for view, place in zip(views, places, strict=True):
            if place is not None:
                held[place.block].append(view)
        both = zip(views, places, strict=True)
        return [bytes(view) if place is None else place for view, place in both], held

    def _copies(self, views: list[memoryview]) -> list[memoryview]:
        """Return copies of arrays that were made elsewhere, in one block."""
        starts = np.cumsum([0, *(-(-view.nbytes // _ALIGNMENT) * _ALIGNMENT for view in views)])
        block = self._blocks.make(int(starts[-1]))
        parts = [
            block[start : start + view.nbytes]
            for start, view in zip(starts.tolist(), views, strict=False)
        ]
        for part, view in zip(parts, views, strict=True):
            part[...] = np.frombuffer(view, np.uint8)
        return [part.data for part in parts]

    def _find(self, view: memoryview) -> _Place | None:
        if not view.nbytes:
            return None
        address = int(np.frombuffer(view, np.uint8).ctypes.data)
        found = self._blocks.find(address, view.nbytes)
        return None if found is None else _Place(*found, view.nbytes)


class Receiver:
    """Receives the values of one worker, and knows its blocks.

    Args:
        connection: To the worker.
        returned: Receives the number of a block once nothing refers to it any more.
        on_shortage: Called with the reason, when a batch did not fit into shared memory.
        most_blocks: Blocks that may be mapped, each of which may take an open file. If the caller
            keeps so many batches, further ones are copied to memory of this process.
    """

    def __init__(
        self,
        connection: Connection,
        returned: deque[int],
        on_shortage: Callable[[str], None],
        most_blocks: int,
    ) -> None:
        self._connection = connection
        self._returned = returned
        self._most_blocks = most_blocks
        self._on_shortage = on_shortage
        self._blocks: dict[int, mmap.mmap] = {}
        self._leases: list[weakref.finalize[Any, Any]] = []
        self._num_lost = 0
        before_fork(self, Receiver._keep_all)

    def receive(self) -> Any:  # noqa: ANN401  # what was sent
        """Return what the worker sent; its arrays are those in shared memory."""
        message: _Message = pickle.loads(self._connection.recv_bytes())  # our own
        for number in message.dropped:
            self._blocks.pop(number, None)
        for number, size_bytes in message.new:
            self._blocks[number] = segments.receive(self._connection, size_bytes)
        if message.shortage:
            self._on_shortage(message.shortage)
        used = {part.block for part in message.parts if isinstance(part, _Place)}
        leases = {number: self._lease(number) for number in used}
        buffers = [self._buffer(part, leases) for part in message.parts]
        return pickle.loads(message.pickled, buffers=buffers)  # of our own worker

    def _buffer(
        self, part: _Place | bytes, leases: Mapping[int, memoryview]
    ) -> memoryview | bytearray:
        """Return the bytes of an array; writable, as all arrays are that are handed out."""
        if not isinstance(part, _Place):
            return bytearray(part)
        view = leases[part.block][part.start : part.start + part.size_bytes]
        shares = len(self._blocks) <= self._most_blocks and self._num_lost < _MOST_LOST
        return view if shares else bytearray(view)

    def _lease(self, number: int) -> memoryview:
        # One object per use: arrays and tensors keep it alive, and its end returns the block.
        memory = self._blocks[number]
        lease = (ctypes.c_char * len(memory)).from_buffer(memory)
        end = weakref.finalize(lease, self._returned.append, number)
        end.atexit = False
        self._leases = [*(other for other in self._leases if other.alive), end]
        return memoryview(lease).cast("B")

    def _keep_all(self) -> None:
        """Never return the blocks that are in use: a forked child will see them too.

        Whoever forks again and again gets copies of the next batches, so that no more are lost.
        """
        for end in self._leases:
            self._num_lost += end.detach() is not None
        self._leases = []
