"""A remote dataset for tests that need no server: a client whose far end is a folder."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING

from roboreel.errors import DatasetChangedError, MissingFileError
from roboreel.mirror.file_table import FileTable, RemoteFile
from roboreel.mirror.home import MirrorHome
from roboreel.mirror.mirror import Mirror
from roboreel.mirror.tree import make_places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class FolderClient:
    """Reads files of a folder, and counts."""

    def __init__(self, root: Path, *, pause_s: float = 0.0) -> None:
        self.root = root
        self.url = "test://folder"
        self.pause_s = pause_s
        self.asked: list[tuple[str, int, int]] = []
        self._guard = threading.Lock()

    def list_files(self) -> list[RemoteFile]:
        paths = sorted(path for path in self.root.rglob("*") if path.is_file())
        return [self._describe(path.relative_to(self.root).as_posix()) for path in paths]

    def find(self, name: str) -> RemoteFile | None:
        return self._describe(name) if (self.root / name).is_file() else None

    def read(self, file: RemoteFile, start: int, stop: int) -> bytes:
        with self._guard:
            self.asked.append((file.name, start, stop))
        time.sleep(self.pause_s)
        if not (self.root / file.name).exists():
            raise MissingFileError(f"There is no remote file {file.name!r}.")
        if self._describe(file.name).etag != file.etag:
            raise DatasetChangedError(f"{file.name!r} has changed.")
        return (self.root / file.name).read_bytes()[start:stop]

    def read_whole(self, file: RemoteFile) -> Iterator[bytes]:
        yield (self.root / file.name).read_bytes()

    def begin_anew(self) -> None:
        self._guard = threading.Lock()

    def _describe(self, name: str) -> RemoteFile:
        data = (self.root / name).read_bytes()
        return RemoteFile(name, len(data), f'"{hashlib.md5(data).hexdigest()}"', 10**18)


def mirror_folder(
    client: FolderClient, home: Path, *, limit_bytes: int = 10**9, name: str = "mirror"
) -> Mirror:
    """Return a mirror of a folder, in a home of its own; it is not registered."""
    opened = MirrorHome(home)
    opened.limit_bytes = limit_bytes
    folder = opened.path / name
    if not folder.exists():
        for part in (folder, folder / "files", folder / "bytes"):
            part.mkdir()
        files = client.list_files()
        make_places(folder / "files", files)
        FileTable(folder / "table.jsonl").add(files)
        (folder / "mirror.json").write_text("{}")
    mirror = Mirror(opened, opened.folder(name), client, "test://folder", is_listed=True)
    with opened.locked():
        mirror.folder.doubt_if_restarted()
    return mirror
