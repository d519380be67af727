"""Folders whose files have their bytes elsewhere: which paths they are, and who brings the bytes."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from roboreel.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Result = TypeVar("Result")


class SourceBytes(Protocol):
    """The bytes of one file, which are fetched before they are handed out."""

    @property
    def size_bytes(self) -> int:
        """How large the file is."""

    @property
    def identity(self) -> tuple[int, int, int]:
        """Differs from that of other files and versions."""

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``, which lie inside the file."""

    def fetch(self, spans: Iterable[tuple[int, int]], *, keep: bool = False) -> None:
        """Have spans at hand, all of them in as few rounds as possible; ``keep`` evicts them last."""

    def close(self) -> None:
        """Let go of the file."""


class SpanSource(Protocol):
    """A folder whose files are empty; their bytes come from a source."""

    @property
    def root(self) -> str:
        """The folder, with a separator at its end."""

    @property
    def url(self) -> str:
        """Where the files come from, without any secret."""

    @property
    def room_bytes(self) -> int:
        """How many bytes it keeps."""

    def open(self, path: Path, noun: str) -> SourceBytes:
        """Return the bytes of a file.

        Raises:
            MissingFileError: There is no such file.
        """

    @property
    def failure(self) -> RemoteError | None:
        """The last error of the network since `forget_failure`, even if somebody caught it."""

    def forget_failure(self) -> None:
        """Begin anew."""

    def look_for(self, names: Sequence[str]) -> None:
        """Find out which of some files exist, if the source has no list of them."""

    def size_of(self, path: Path) -> int | None:
        """Return how large a file is; None if there is none."""

    def fetch(self, wanted: Mapping[Path, Sequence[tuple[int, int]]]) -> int:
        """Have spans of several files at hand, in as few rounds as possible.

        Returns:
            How many bytes were missing.
        """


_sources: dict[str, SpanSource] = {}


def add_source(source: SpanSource) -> None:
    """Have the files below a folder read from a source."""
    _sources[source.root] = source


def drop_source(root: str) -> None:
    """Forget a source."""
    _sources.pop(root, None)


def sources() -> list[SpanSource]:
    """Return all sources of the process."""
    return list(_sources.values())


def source_of(path: Path) -> SpanSource | None:
    """Return where the bytes of a file come from; None for a plain file."""
    if not _sources:
        return None
    text = f"{path}{os.sep}"
    for root, source in list(_sources.items()):
        if text.startswith(root):
            return source
    return None


def has_sources() -> bool:
    """Whether any file of this process has its bytes elsewhere."""
    return bool(_sources)


def fetch(wanted: Mapping[Path, Sequence[tuple[int, int]]]) -> int:
    """Have spans of several files at hand, in as few rounds as possible; plain files are at hand.

    Returns:
        How many bytes were missing.

    Raises:
        RemoteError: They cannot be fetched.
    """
    by_source: dict[str, dict[Path, Sequence[tuple[int, int]]]] = {}
    for path, spans in wanted.items():
        source = source_of(path)
        if source is not None:
            by_source.setdefault(source.root, {})[path] = spans
    return sum(_sources[root].fetch(spans_of) for root, spans_of in by_source.items())


def size_of(path: Path) -> int:
    """Return how large a file is, wherever its bytes are.

    Raises:
        OSError: There is no such file.
    """
    source = source_of(path)
    size = None if source is None else source.size_of(path)
    return path.stat().st_size if size is None else size


def version_of(path: Path) -> tuple[int, int] | None:
    """Return size and time of a file, which change when the file is replaced.

    Returns:
        None for a file of a source, which knows when one has changed: there, the time is that of
        the last bytes that came.

    Raises:
        OSError: There is no such file.
    """
    if source_of(path) is not None:
        return None
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def stat_below(root: Path, file: str) -> os.stat_result:
    """Return what the file system says of a file, by its path below a folder.

    Without making a `Path`, which takes longer: before v3.0 a dataset has several files per episode.

    Raises:
        OSError: There is no such file.
    """
    return os.stat(f"{root}/{file}")  # noqa: PTH116


def exists(path: Path) -> bool:
    """Whether there is a file at a path."""
    source = source_of(path)
    return path.is_file() if source is None else source.size_of(path) is not None


def look_for(root: Path, names: Sequence[str]) -> None:
    """Make files of a source without a list known, so that they are found in their folders."""
    source = source_of(root)
    if source is not None:
        source.look_for(names)


def raise_failure(root: Path) -> None:
    """Raise the last network error, if a caller caught it and took it for bad data.

    Raises:
        RemoteError: There was one below this folder since `forget_failures`.
    """
    source = source_of(root)
    if source is not None and source.failure is not None:
        raise source.failure


def forget_failures(root: Path) -> None:
    """Begin anew for `raise_failure`."""
    source = source_of(root)
    if source is not None:
        source.forget_failure()


def refuse_source(root: Path, what: str) -> None:
    """Raise if a folder has its bytes elsewhere.

    Args:
        root: A folder.
        what: What is to be done with it: ``"edited in place"``.

    Raises:
        RemoteError: It does.
    """
    source = source_of(root)
    if source is not None:
        raise RemoteError(
            f"A remote dataset cannot be {what}: it is only read. Download it first, and take the "
            f"copy: {source.url!r}."
        )


class Stop:
    """Asks threads that wait for the network to give up."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


class _Threads(threading.local):
    stop: Stop | None = None


_threads = _Threads()


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """Make this thread stop waiting for the network on request, inside the ``with`` block."""
    before, _threads.stop = _threads.stop, stop
    try:
        yield
    finally:
        _threads.stop = before


def carry_stop(call: Callable[[], Result]) -> Callable[[], Result]:
    """Return a call for another thread that gives up when this thread is asked to stop."""
    stop = _threads.stop
    if stop is None:
        return call

    def stopped() -> Result:
        with stoppable(stop):
            return call()

    return stopped


def check_stop() -> None:
    """Raise if this thread has been asked to stop.

    Raises:
        RemoteError: It is.
    """
    if _threads.stop is not None and _threads.stop.is_set:
        raise RemoteError("The read was stopped while it waited for the network.")
