"""Chunks into recordings: writing on one core, while on another the next are made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rerun.chunk import ChunkStore, LazyChunkStream

from roboreel.rerun.columns import chunks_of
from roboreel.storage.files import atomic_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    from rerun.chunk import Chunk
    from typing_extensions import Self  # for type checkers alone: typing has it from 3.11 on

    from roboreel.rerun.columns import Piece

__all__ = ["RecordingWriter"]

# Recordings up to this size are held as a whole.
_SMALL_BYTES = 2**22


class RecordingWriter:
    """Writes recordings of one application; files appear whole.

    Rerun's writer does not hold the interpreter's lock, but waits for it whenever it fetches a
    chunk from Python. So a thread gets a small recording all at once, and writes it while the
    next is being made; of a large one, the thread makes each chunk while the one before is written.

    Args:
        application_id: What the recordings have in common.
        on_written: Called after each file, when it is there.
    """

    def __init__(self, application_id: str, on_written: Callable[[], object]) -> None:
        self._application_id = application_id
        self._on_written = on_written
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="roboreel-recording")
        self._unfinished: _Unfinished | None = None

    def write(self, pieces: Iterator[Piece], path: Path, recording_id: str) -> None:
        """Write a recording; it is there after the next call, at the latest."""
        first, size_bytes = [], 0
        for piece in pieces:
            first += piece.chunks
            size_bytes += piece.size_bytes
            if size_bytes > _SMALL_BYTES:
                break
        names = {"application_id": self._application_id, "recording_id": recording_id}
        with ExitStack() as stack:
            temporary = stack.enter_context(atomic_file(path, sync=False))
            self.finish()
            if size_bytes > _SMALL_BYTES:
                further = self._made_ahead(chunks_of(pieces))
                stream = LazyChunkStream.from_iter(chain(first, further))
                stream.write_rrd(temporary, **names)
            else:
                store = ChunkStore.from_chunks(first)
                written = self._thread.submit(store.write_rrd, temporary, **names)
                self._unfinished = _Unfinished(written, stack.pop_all())
                return
        self._on_written()

    def finish(self) -> None:
        """Wait for the recording that is being written, and let its file appear."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            with unfinished.file:
                try:
                    unfinished.written.result()
                finally:  # Also when interrupted: the file is removed after it was made, not before.
                    wait([unfinished.written])
            self._on_written()

    def _made_ahead(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        made = self._thread.submit(next, chunks, None)
        while (chunk := made.result()) is not None:
            made = self._thread.submit(next, chunks, None)
            yield chunk

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.finish()
        finally:
            self._thread.shutdown()


@dataclass(frozen=True, slots=True)
class _Unfinished:
    written: Future[None]
    file: ExitStack
    """Closes the file: it then appears, or, after an error, is removed."""
