"""The folder of all mirrors of a machine, and the limit of bytes that they share."""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import MirrorError
from roboreel.files import user_folder
from roboreel.forking import after_fork
from roboreel.mirror import locks
from roboreel.mirror.block_map import State
from roboreel.mirror.folder import MirrorFolder
from roboreel.mirror.geometry import BLOCK_BYTES
from roboreel.mirror.holes import find_ability, stored_bytes
from roboreel.mirror.locks import FolderLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roboreel.mirror.pins import Pin

DEFAULT_LIMIT_BYTES = 50 * 10**9
MIRROR_FILE = "mirror.json"
# Tables and maps take 0.04 % beside the bytes.
_OWN_SHARE = 256
# So much more than is needed is evicted at once.
_SLACK_SHARE = 50


def mirror_home() -> Path:
    """Return the default folder of mirrors: ``remote`` in the folder of caches."""
    return user_folder("ROBOREEL_CACHE") / "remote"


class MirrorHome:
    """A folder of mirrors, shared by all processes of a machine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.limit_bytes = DEFAULT_LIMIT_BYTES
        """The most that all mirrors together may take, as this process was told."""
        lock = self._open_lock()
        self._lock: FolderLock | None = lock
        self._guard = threading.Lock()
        self._folders: dict[str, MirrorFolder] = {}
        self._damaged: set[str] = set()
        self.ability = find_ability(lock.handle)
        """What the file system can do."""
        if not self.ability.is_sparse:
            warnings.warn(
                "The file system of the mirror has no sparse files: files are fetched and kept "
                f"whole. Give a folder elsewhere as mirror=: {str(path)!r}.",
                UserWarning,
                stacklevel=2,
            )
        after_fork(self, MirrorHome._after_fork)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads and processes from reserving room and evicting."""
        with self._guard:
            if self._lock is None:
                self._lock = self._open_lock()
            with self._lock.held():
                yield

    def folder(self, name: str) -> MirrorFolder:
        """Return a mirror by the name of its folder."""
        with self._guard:
            return self._folder(name)

    def names(self) -> list[str]:
        """Return the names of all mirrors."""
        return sorted(path.parent.name for path in self.path.glob(f"*/{MIRROR_FILE}"))

    def reserve(
        self, folder: MirrorFolder, blocks: NDArray[np.int64], pin: Pin | None = None
    ) -> bool:
        """Reserve room for blocks that this thread has claimed; evict what was not used for longest.

        Args:
            folder: Their mirror.
            blocks: Their numbers.
            pin: A hold that is taken together with the room, or not at all. So no thread that waits
            for room keeps others from theirs.

        Returns:
            Whether there is room.
        """
        with self.locked():
            # Blocks that a killed process was fetching have their room already.
            needed = int((folder.blocks.state[blocks] == State.ABSENT).sum()) * BLOCK_BYTES
            had_pin = pin is None or pin.is_taken
            if pin is not None:
                pin.take()
            fits = self._make_room(needed)
            if not (fits or had_pin or self.ability.can_punch) and pin is not None:
                # The file's own other parts may be in the way, and go only with what is here of
                # these: that is fetched again.
                pin.release()
                fits = self._make_room(needed)
                pin.take()
            if fits:
                folder.blocks.state[blocks] = State.WANTED
                self._note_held(self._held_bytes() + needed)
            elif pin is not None and not had_pin:
                pin.release()
        return fits

    def pin(self, pin: Pin) -> None:
        """Hold segments that need no more room."""
        with self.locked():
            pin.take()

    def give_back(self, folder: MirrorFolder, blocks: NDArray[np.int64]) -> None:
        """Free the room of blocks that were not fetched after all."""
        with self.locked():
            folder.blocks.state[blocks] = State.ABSENT
            self._note_held(max(0, self._held_bytes() - len(blocks) * BLOCK_BYTES))

    @property
    def room_bytes(self) -> int:
        """How many bytes of files fit in the limit."""
        return self.limit_bytes - self.limit_bytes // _OWN_SHARE

    def held_bytes(self) -> int:
        """Return how many bytes all mirrors hold."""
        with self.locked():
            held = self._count()
            self._note_held(held)
        return held

    def forget(self, name: str) -> None:
        """Let go of a mirror that is removed."""
        self._folders.pop(name, None)

    def _make_room(self, needed: int) -> bool:
        """Evict until the bytes fit; return whether they do. The caller holds the lock."""
        held = self._held_bytes()
        if held + needed > self.room_bytes:
            held = self._count()
            missing = held + needed - self.room_bytes
            if missing > 0:
                held -= self._evict(missing, missing + self.room_bytes // _SLACK_SHARE)
            self._note_held(held)
        return held + needed <= self.room_bytes

    def _folder(self, name: str) -> MirrorFolder:
        if name not in self._folders:
            self._folders[name] = MirrorFolder(self.path / name, can_punch=self.ability.can_punch)
        return self._folders[name]

    def _sound_folder(self, name: str) -> MirrorFolder | None:
        """Return a mirror with all its files; None, with one warning, if it is damaged."""
        try:
            folder = self._folder(name)
            folder.refresh()
        except (MirrorError, OSError, ValueError) as error:
            if name not in self._damaged:
                self._damaged.add(name)
                warnings.warn(
                    f"A damaged mirror takes room that cannot be used ({error}). Remove it with "
                    f"`roboreel mirror prune`: {str(self.path / name)!r}.",
                    UserWarning,
                    stacklevel=2,
                )
            return None
        return folder

    def _held_bytes(self) -> int:
        """Return the note of what all mirrors hold. The caller holds the lock."""
        assert self._lock is not None
        os.lseek(self._lock.handle, 0, os.SEEK_SET)
        return int.from_bytes(os.read(self._lock.handle, 8), "little")

    def _note_held(self, held: int) -> None:
        assert self._lock is not None
        os.lseek(self._lock.handle, 0, os.SEEK_SET)
        os.write(self._lock.handle, held.to_bytes(8, "little"))

    def _count(self) -> int:
        """Count the blocks of all mirrors, after those of killed processes are free."""
        held = 0
        for name in self.names():
            folder = self._sound_folder(name)
            if folder is None:
                held += stored_bytes(self.path / name)
                continue
            if self._may_change(folder):
                folder.forget_abandoned()
            held += folder.blocks.count_held() * BLOCK_BYTES
        return held

    def _evict(self, least_bytes: int, wanted_bytes: int) -> int:
        """Evict segments, indexes last and what was used last at the end; return the bytes freed."""
        every = [self._sound_folder(name) for name in self.names()]
        folders = [folder for folder in every if folder is not None and self._may_change(folder)]
        places: list[tuple[int, int, int, int]] = []
        for number, folder in enumerate(folders):
            held = np.flatnonzero(folder.blocks.held_by_segment())
            kept, used = folder.blocks.kept[held].tolist(), folder.blocks.used_s[held].tolist()
            numbers = [number] * len(kept)
            places += zip(kept, used, numbers, held.tolist(), strict=True)
        freed = 0
        for kept, _, number, segment in sorted(places):
            if freed >= (least_bytes if kept else wanted_bytes):
                break
            freed += folders[number].evict(segment)
        return freed

    def _may_change(self, folder: MirrorFolder) -> bool:
        """Whether blocks of a mirror may be evicted here: where mirrors are not shared, of free ones.

        Such a mirror belongs to this process from then on.
        """
        return locks.SHARES or folder.use.hold()

    def _after_fork(self) -> None:
        self._guard = threading.Lock()
        # The handle shares its lock with the parent: a lock of the child needs one of its own. It is
        # opened when it is needed, since the folder may be gone by now.
        self._lock = None

    def _open_lock(self) -> FolderLock:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return FolderLock(self.path / "lock")
        except OSError as error:
            raise MirrorError(
                f"The folder of mirrors cannot be used ({error.strerror}). Give another as mirror=: "
                f"{str(self.path)!r}."
            ) from error


_homes: dict[str, MirrorHome] = {}


def open_home(path: str | os.PathLike[str] | None, limit_bytes: int | None = None) -> MirrorHome:
    """Return the home at a folder; the latest limit that is given to a process counts."""
    folder = (mirror_home() if path is None else Path(path).expanduser()).resolve()
    if str(folder) not in _homes:
        _homes[str(folder)] = MirrorHome(folder)
    home = _homes[str(folder)]
    if limit_bytes is not None:
        home.limit_bytes = limit_bytes
    return home
