"""Mirrors of remote datasets: whatever was fetched before, every byte that is read is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.mirror.geometry import BLOCK_BYTES, SEGMENT_BYTES
from roboreel.mirror.home import MirrorHome
from roboreel.mirror.mirror import Mirror
from roboreel.mirror.opening import _make
from tests.faults.scenario import Remains, Scenario, check_no_litter
from tests.mirror.remote_folder import FolderClient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.scenario import Say

__all__ = ["SCENARIOS"]

SIZES = {"a.bin": 2 * SEGMENT_BYTES + 17, "sub/b.bin": 3 * BLOCK_BYTES, "c.bin": 10}


def prepare(folder: Path) -> None:
    """Write what is far away."""
    chance = np.random.default_rng(0)
    for name, size in SIZES.items():
        path = folder / "far" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.bytes(size))


def read_some(folder: Path) -> None:
    """Read parts of all files through a mirror that has room for one of three segments."""
    client, home = FolderClient(folder / "far"), MirrorHome(folder / "home")
    home.limit_bytes = SEGMENT_BYTES + 8 * BLOCK_BYTES
    _make(home, "mirror", client.list_files(), {"url": client.url, "is_listed": True})
    mirror = Mirror(home, home.folder("mirror"), client, client.url, is_listed=True)
    mirror.folder.refresh()
    with home.locked():
        mirror.folder.doubt_if_restarted()
    spans = [("c.bin", 0, 10), ("sub/b.bin", BLOCK_BYTES, 3 * BLOCK_BYTES)]
    starts = (0, SEGMENT_BYTES + 5, 2 * SEGMENT_BYTES - BLOCK_BYTES, 3 * BLOCK_BYTES)
    spans += [("a.bin", start, start + 2 * BLOCK_BYTES) for start in starts]
    for name, start, stop in spans:
        file = mirror.open(mirror.folder.tree / name, "file")
        expected = (folder / "far" / name).read_bytes()
        stop = min(stop, len(expected))
        assert file.read(start, stop) == expected[start:stop], f"{name} from {start}"
        file.close()


def act(folder: Path, say: Say) -> None:
    read_some(folder)
    say("read")


def verify(remains: Remains) -> None:
    """Read again, in a process that finds what was left."""
    read_some(remains.folder)
    check_no_litter(remains.folder)
    names = {path.name for path in (remains.folder / "home").iterdir()}
    assert names == {"lock", "mirror"}, names


SCENARIOS = [Scenario("mirror", act, verify, prepare, maps=True)]
