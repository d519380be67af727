"""What a mirror needs from a network client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from roboreel.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.mirror.file_table import RemoteFile


class NoRangesError(RemoteError):
    """The server sends whole files only."""


class Client(Protocol):
    """Reads the files below one address. Safe to use from several threads.

    Errors are a MissingFileError, a DatasetChangedError, a NoRangesError or another RemoteError; no
    text of theirs holds a secret.
    """

    @property
    def url(self) -> str:
        """What it reads, without any secret; with the commit, if there is one."""

    def list_files(self) -> list[RemoteFile] | None:
        """Return all files; None if the server has no list."""

    def find(self, name: str) -> RemoteFile | None:
        """Return what is known of a file; None if there is none."""

    def read(self, file: RemoteFile, start: int, stop: int) -> bytes | memoryview:
        """Return the bytes ``[start, stop)`` of a file, which is still as it was listed."""

    def read_whole(self, file: RemoteFile) -> Iterator[bytes | memoryview]:
        """Yield all bytes of a file, in order."""

    def begin_anew(self) -> None:
        """Forget all connections: this is a forked child."""
