"""Merging and converting: the new dataset is there as a whole, or not at all."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import roboreel as reel
from roboreel.edit import plan_conversion, plan_merge
from tests.faults.between import check_either
from tests.faults.recording import LENGTHS, record_apart
from tests.faults.scenario import Remains, Scenario, check_no_litter
from tests.recordings import frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.scenario import Say

    Act = Callable[[Path], object]

__all__ = ["SCENARIOS"]

RECORDED = [(e, i) for e in range(3) for i in range(LENGTHS[e])]
"""Episode and frame of every row."""


def prepare(folder: Path, act: Act, store: str) -> None:
    """Make the sources, and beside them what comes of them."""
    record_apart(folder, store)
    shutil.copytree(folder / "dataset", folder / "other")
    act(folder)
    (folder / "new" / "out").rename(folder / "expected")
    (folder / "new").rmdir()


def merge(folder: Path) -> None:
    plan_merge([folder / "dataset", folder / "other"], folder / "new" / "out").apply()


def convert(folder: Path) -> None:
    plan_conversion(folder / "dataset", "v2.1", folder / "new" / "out").apply()


def copy(folder: Path, say: Say, act: Act) -> None:
    act(folder)
    say("copied")


def verify(remains: Remains, act: Act, times: int) -> None:
    """Check that the new dataset is whole; make it, unless it is there."""
    root = remains.folder / "new" / "out"
    if "copied" not in remains.said and not root.exists():
        act(remains.folder)
    remains.once(check_either, root, remains.folder / "expected")
    dataset = reel.open_dataset(root)
    values = dataset.read(np.arange(len(dataset)))
    assert values["index"].tolist() == list(range(times * len(RECORDED)))
    expected = [frame(e, i)["observation.state"] for e, i in RECORDED * times]
    np.testing.assert_array_equal(values["observation.state"], np.stack(expected))
    if "copied" not in remains.said:
        check_no_litter(remains.folder)


def _scenario(name: str, act: Act, store: str, times: int) -> Scenario:
    return Scenario(
        f"{name}, {store}",
        partial(copy, act=act),
        partial(verify, act=act, times=times),
        partial(prepare, act=act, store=store),
    )


SCENARIOS = [_scenario("merge", merge, "video", 2), _scenario("convert", convert, "image", 1)]
