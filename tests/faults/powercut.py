"""What a disk may hold after a power cut, computed from the log of a process that was not cut.

Two models. *Strict* keeps only what was synced: data by a sync of its file, names by a sync of their
folder. All else may be there, or not, or in part. *Ordered* is what ext4 does by default: names change in
order, and a file's data is on the disk before a rename of it is; data that was only appended may be
missing.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.library import Call, Operation

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    Torn: TypeAlias = Callable[[bytearray], bytearray]
    Kept: TypeAlias = tuple[Sequence["Change"], dict[int, Torn]]

__all__ = ["MODELS", "Disk", "Snapshot", "snapshot"]

ROOT = 0
"""The node of the folder that is watched."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: of a file's data, or of names."""

    at: int
    """Number of the call."""
    file: int | None = None
    """The file whose data changes."""
    offset: int = 0
    data: bytes | None = None
    """What is written; None if the file is cut or grown to ``offset``."""
    removed: tuple[int, str] | None = None
    """Folder and name that goes."""
    added: tuple[int, str, int] | None = None
    """Folder, name and what it now names."""

    @property
    def folders(self) -> set[int]:
        return {place[0] for place in (self.removed, self.added) if place is not None}


@dataclass(slots=True)
class Snapshot:
    """A folder as it was before: the numbers, names and contents of all there is."""

    names: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    """By folder, what each name stands for."""
    contents: dict[int, bytes] = field(default_factory=dict)
    links: dict[int, str] = field(default_factory=dict)
    inodes: dict[int, int] = field(default_factory=dict)
    """The number here of each file, by its number on the disk."""
    times_ns: dict[int, int] = field(default_factory=dict)
    """When each file was last changed."""

    def digest(self, *, without: str | None = None) -> str:
        """Return what tells equal trees from others: by names and contents, not by numbers or times.

        Args:
            without: How the paths begin that do not matter.
        """
        total = blake2b(digest_size=16)
        for path, node in self._walk(ROOT, ""):
            if without is not None and path.startswith(without):
                continue
            if node in self.names:
                content = b"folder"
            elif node in self.links:
                content = b"link" + os.fsencode(self.links[node])
            else:
                content = b"file" + self.contents.get(node, b"")
            total.update(b"%d %d " % (len(os.fsencode(path)), len(content)))
            total.update(os.fsencode(path))
            total.update(content)
        return total.hexdigest()

    def write(self, target: Path) -> None:
        """Write all that there is into a new folder."""
        target.mkdir()
        for path, node in self._walk(ROOT, ""):
            if node in self.names:
                (target / path).mkdir()
            elif node in self.links:
                (target / path).symlink_to(self.links[node])
            else:
                (target / path).write_bytes(self.contents.get(node, b""))
                if node in self.times_ns:
                    time_ns = self.times_ns[node]
                    os.utime(target / path, ns=(time_ns, time_ns))

    def _walk(self, folder: int, path: str) -> Iterator[tuple[str, int]]:
        for name, node in sorted(self.names.get(folder, {}).items()):
            yield f"{path}{name}", node
            if node in self.names:
                yield from self._walk(node, f"{path}{name}/")


def snapshot(folder: Path) -> Snapshot:
    """Return all that a folder holds."""
    found = Snapshot()

    def look(path: Path, node: int) -> None:
        for entry in sorted(path.iterdir()):
            number = len(found.names) + len(found.contents) + len(found.links)
            found.names[node][entry.name] = number
            if entry.is_symlink():
                found.links[number] = str(entry.readlink())
            elif entry.is_dir():
                found.names[number] = {}
                look(entry, number)
            else:
                found.contents[number] = entry.read_bytes()
                found.inodes[entry.stat().st_ino] = number
                found.times_ns[number] = entry.stat().st_mtime_ns

    look(folder, ROOT)
    return found


class Disk:
    """The changes that a process made to a folder, and the states that a power cut leaves.

    Args:
        folder: The folder that was watched.
        before: What it held.
        calls: The log.
    """

    def __init__(self, folder: Path, before: Snapshot, calls: Sequence[Call]) -> None:
        self._folder = str(folder.resolve())
        self._before = before
        self._inodes = dict(before.inodes)
        self._next = 1_000_000
        self._live = {node: dict(names) for node, names in before.names.items()}
        self._links = dict(before.links)
        self.changes: list[Change] = []
        self._syncs: dict[int, list[int]] = {}
        """Numbers of the calls that synced a file or a folder."""
        self.num_calls = len(calls)
        for at, call in enumerate(calls):
            if call.ok:
                self._follow(at, call)

    # -- from calls to changes

    def _follow(self, at: int, call: Call) -> None:
        operation = call.operation
        if operation in (Operation.CREATE, Operation.MKDIR, Operation.SYMLINK):
            self._create(at, call)
        elif operation in (Operation.WRITE, Operation.TRUNCATE, Operation.GROW):
            self._change_data(at, call)
        elif operation in (Operation.UNLINK, Operation.RMDIR):
            self._apply(Change(at, removed=self._place(call.path)))
        elif operation == Operation.RENAME:
            self._move(at, self._place(call.path), self._place(call.other))
        elif operation == Operation.LINK:
            folder, name = self._place(call.path)
            self._apply(Change(at, added=(*self._place(call.other), self._live[folder][name])))
        elif operation == Operation.SYNC:
            self._syncs.setdefault(self._synced(call), []).append(at)

    def _create(self, at: int, call: Call) -> None:
        self._next += 1
        node = self._next
        if call.operation == Operation.CREATE:
            self._inodes[call.inode] = node
        elif call.operation == Operation.MKDIR:
            self._live[node] = {}
        else:
            self._links[node] = call.other
        self._apply(Change(at, added=(*self._place(call.path), node)))

    def _change_data(self, at: int, call: Call) -> None:
        data = call.data if call.operation == Operation.WRITE else None
        self._apply(Change(at, self._inodes[call.inode], call.offset, data))

    def _move(self, at: int, source: tuple[int, str], target: tuple[int, str]) -> None:
        node = self._live[source[0]][source[1]]
        self._apply(Change(at, removed=source, added=(*target, node)))

    def _synced(self, call: Call) -> int:
        if call.inode in self._inodes and not Path(call.path).is_dir():
            return self._inodes[call.inode]
        parts = self._parts(call.path)
        return self._node(parts)

    def _apply(self, change: Change) -> None:
        _rename(self._live, change)
        self.changes.append(change)

    def _parts(self, path: str) -> list[str]:
        return [part for part in path.removeprefix(self._folder).split("/") if part]

    def _node(self, parts: Sequence[str]) -> int:
        node = ROOT
        for part in parts:
            node = self._live[node][part]
        return node

    def _place(self, path: str) -> tuple[int, str]:
        *parents, name = self._parts(path)
        return self._node(parents), name

    # -- from changes to states

    def whole(self) -> Snapshot:
        """Return the folder as the process left it."""
        return self._state(self.changes, {})

    def cut(self, at: int, model: str, chance: random.Random) -> Snapshot:
        """Return a folder as a power cut before the call of that number may leave it."""
        made = [change for change in self.changes if change.at < at]
        kept, torn = MODELS[model](self, made, at, chance)
        return self._state(kept, torn)

    def killed(self, at: int, *, torn: bool) -> Snapshot:
        """Return the folder as a process leaves it that ends before a call, or half-way through it."""
        kept = [change for change in self.changes if change.at < at]
        if torn:
            (half,) = [change for change in self.changes if change.at == at]
            data = half.data or b""
            kept.append(replace(half, data=data[: len(data) // 2]))
        return self._state(kept, {})

    def last_sync(self, node: int, at: int) -> int:
        """Return the number of the last call before ``at`` that synced a node; -1 if none did."""
        return _last_before(self._syncs.get(node, ()), at)

    def last_sync_of_any(self, at: int) -> int:
        """Return the number of the last sync before a call."""
        return max((_last_before(calls, at) for calls in self._syncs.values()), default=-1)

    def _state(self, kept: Sequence[Change], torn: dict[int, Torn]) -> Snapshot:
        before = self._before
        # A folder that was made and lost again is one without names.
        names = {node: dict(before.names.get(node, {})) for node in self._live}
        contents = {node: bytearray(data) for node, data in before.contents.items()}
        for change in kept:
            if change.file is not None:
                _store(contents.setdefault(change.file, bytearray()), change)
            else:
                _rename(names, change)
        for node, tear in torn.items():
            contents[node] = tear(contents.get(node, bytearray()))
        found = {node: bytes(data) for node, data in contents.items()}
        times_ns = {n: t for n, t in before.times_ns.items() if found[n] == before.contents[n]}
        return Snapshot(names, found, self._links, {}, times_ns)


def _last_before(calls: Sequence[int], at: int) -> int:
    place = bisect_left(calls, at)
    return calls[place - 1] if place else -1


def _rename(names: dict[int, dict[str, int]], change: Change) -> None:
    if change.removed is not None:
        names.setdefault(change.removed[0], {}).pop(change.removed[1], None)
    if change.added is not None:
        folder, name, node = change.added
        names.setdefault(folder, {})[name] = node


def _store(content: bytearray, change: Change) -> None:
    if change.data is None:
        content[change.offset :] = bytes(max(0, change.offset - len(content)))
        return
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + len(change.data)] = change.data


# -- the models: which changes are kept, and what happens to the ends of files


def _is_synced(disk: Disk, change: Change, at: int) -> bool:
    nodes = change.folders if change.file is None else {change.file}
    return any(disk.last_sync(node, at) > change.at for node in nodes)


def _nothing_unsynced(disk: Disk, made: Sequence[Change], at: int, chance: random.Random) -> Kept:
    return [change for change in made if _is_synced(disk, change, at)], {}


def _some_unsynced(disk: Disk, made: Sequence[Change], at: int, chance: random.Random) -> Kept:
    """Keep, of each file and each folder, the first few changes that were not synced."""
    until: dict[int, float] = {}
    kept = []
    for change in made:
        nodes = sorted(change.folders) if change.file is None else [change.file]
        for node in nodes:
            until.setdefault(node, chance.choice((-1, at, chance.randrange(at + 1))))
        if _is_synced(disk, change, at) or all(change.at < until[node] for node in nodes):
            kept.append(change)
    return kept, {}


def _zero_tails(disk: Disk, made: Sequence[Change], at: int, chance: random.Random) -> Kept:
    """Keep all names and sizes; data that was not synced may read as zeros."""
    torn: dict[int, Torn] = {}
    for node in {change.file for change in made if change.file is not None}:
        pending = [c for c in made if c.file == node and c.data and not _is_synced(disk, c, at)]
        if pending and chance.random() < 0.8:
            torn[node] = _zeroed(pending[chance.randrange(len(pending)) :])
    return made, torn


def _zeroed(lost: Sequence[Change]) -> Torn:
    """Return what writes zeros over some changes, also where they replaced other bytes in place."""

    def tear(content: bytearray) -> bytearray:
        for change in lost:
            stop = min(len(content), change.offset + len(change.data or b""))
            content[change.offset : stop] = bytes(max(0, stop - change.offset))
        return content

    return tear


def _ordered(disk: Disk, made: Sequence[Change], at: int, chance: random.Random) -> Kept:
    """Keep names up to some moment after the last sync; appended data may be missing."""
    first = disk.last_sync_of_any(at) + 1
    until = chance.randint(first, max(first, at))
    kept = [c for c in made if c.file is not None or c.at < until]
    renamed = {c.added[2]: c.at for c in kept if c.added is not None and c.removed is not None}
    for node in {change.file for change in made if change.file is not None}:
        pending = [
            c
            for c in made
            if c.file == node and not _is_synced(disk, c, at) and c.at > renamed.get(node, -1)
        ]
        if pending and chance.random() < 0.5:
            lost = chance.choice(pending)
            kept = [c for c in kept if c.file != node or c.at < lost.at]
    return kept, {}


MODELS = {
    "strict": _nothing_unsynced,
    "strict, in part": _some_unsynced,
    "strict, zero tails": _zero_tails,
    "ordered": _ordered,
}
