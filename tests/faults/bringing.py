"""Importing: what was interrupted goes on, and ends with every episode once."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import roboreel as reel
from roboreel.importing import Changes, import_dataset
from roboreel.jobs import InProcess
from tests.faults.between import check_either
from tests.faults.scenario import Remains, Scenario, check_no_litter
from tests.importing import foreign

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.scenario import Say

__all__ = ["SCENARIOS"]


def prepare(folder: Path, sources: int) -> None:
    """Write recordings, and beside them what comes of them."""
    for number in range(sources):
        foreign.write_rlds(folder / "in" / f"part_{number}", (2, 2, 2, 2))
    bring(folder, sources)
    (folder / "new" / "out").rename(folder / "expected")
    for name in ("new", "job"):
        shutil.rmtree(folder / name, ignore_errors=True)


def bring(folder: Path, sources: int) -> None:
    source = folder / "in" / "part_0" if sources == 1 else folder / "in"
    job = None if sources == 1 else folder / "job"
    wanted = Changes(fps=5, task="x")
    import_dataset(source, folder / "new" / "out", changes=wanted, on=InProcess(), job=job)


def act(folder: Path, say: Say, sources: int) -> None:
    bring(folder, sources)
    say("imported")


def verify(remains: Remains, sources: int) -> None:
    """Check that every frame is there once, after the same import ran again; before, the first of them."""
    root, expected = remains.folder / "new" / "out", remains.folder / "expected"
    bring_again = "imported" not in remains.said
    if bring_again:
        if (root / "meta" / "info.json").exists():
            remains.once(check_first, root, expected)
        bring(remains.folder, sources)
    remains.once(check_either, root, expected)
    action = reel.open_dataset(root).read(np.arange(8 * sources), ["action"])["action"]
    np.testing.assert_array_equal(action, np.tile(foreign.numbers(range(8), 7, 10), (sources, 1)))
    if bring_again:
        check_no_litter(remains.folder)


def check_first(root: Path, expected: Path) -> None:
    """Check that every value is that of the first episodes of a whole dataset."""
    found, whole = reel.open_dataset(root), reel.open_dataset(expected)
    rows = np.arange(len(found))
    assert len(rows) == 2 * len(found.episodes)
    for name, values in whole.read(rows).items() if len(rows) else ():
        np.testing.assert_array_equal(found.read(rows, [name])[name], values)


SCENARIOS = [
    Scenario(
        name,
        partial(act, sources=sources),
        partial(verify, sources=sources),
        partial(prepare, sources=sources),
        moves=sources == 1,  # A job names its sources.
    )
    for name, sources in (("import, image", 1), ("import of several, image", 2))
]
