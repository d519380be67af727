"""Importing: what was interrupted goes on, and ends with every episode once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import roboreel as reel
from roboreel.importing import Changes, import_dataset
from roboreel.jobs import InProcess
from tests import foreign
from tests.faults.scenario import Remains, Scenario, check_no_litter

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.scenario import Say

__all__ = ["SCENARIOS"]


def prepare(folder: Path, sources: int) -> None:
    for number in range(sources):
        foreign.write_rlds(folder / "in" / f"part_{number}", (2, 1, 1, 1))


def bring(folder: Path, sources: int) -> None:
    source = folder / "in" / "part_0" if sources == 1 else folder / "in"
    job = None if sources == 1 else folder / "job"
    wanted = Changes(fps=5, task="x")
    import_dataset(source, folder / "new" / "out", changes=wanted, on=InProcess(), job=job)


def act(folder: Path, say: Say, sources: int) -> None:
    bring(folder, sources)
    say("imported")


def verify(remains: Remains, sources: int) -> None:
    """Check that every frame is there once, after the same import ran again."""
    bring_again = "imported" not in remains.said
    if bring_again:
        bring(remains.folder, sources)
    dataset = reel.open_dataset(remains.folder / "new" / "out")
    values = dataset.read(np.arange(len(dataset)))
    assert values["index"].tolist() == list(range(5 * sources))
    expected = np.concatenate([foreign.numbers(range(5), 7, 10)] * sources)
    np.testing.assert_array_equal(values["action"], expected)
    if bring_again:
        check_no_litter(remains.folder)


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
