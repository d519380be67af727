"""Repair, undo and the removal of episodes: the dataset is what it was before, or after, and never between."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import roboreel as reel
from roboreel.commit import STORE, WORKSHOP, Workshop, finish_commit, list_changes, undo_change
from roboreel.edit import plan_conversion
from roboreel.repair import repair_dataset
from tests.faults.between import check_between, check_either
from tests.faults.recording import record_apart
from tests.faults.scenario import Remains, Scenario, check_no_litter
from tests.recordings import CAMERAS, FPS
from tests.same_dataset import differing_files, files_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.scenario import Say

    Act = Callable[[Path], object]

__all__ = ["SCENARIOS"]


def damage(root: Path) -> None:
    """Give the rows of two files wrong numbers."""
    for path in sorted(root.glob("data/*/*.parquet"))[1:]:
        table = pq.read_table(path)
        for name in ("index", "frame_index"):
            place = table.schema.get_field_index(name)
            wrong = pa.array(np.asarray(table[name]) + 7)
            table = table.set_column(place, table.schema.field(place), wrong)
        pq.write_table(table, path)


def repair(root: Path) -> None:
    assert len(repair_dataset(root).plans) == 1


def drop(root: Path) -> None:
    assert [plan.leaving for plan in repair_dataset(root, drop=[1]).plans] == [(1,)]


def edit(root: Path) -> None:
    """Cut the end of an episode off, and delete another."""
    reel.edit_dataset(root).trim(0, stop_s=0.2).delete([1]).apply()


def split(root: Path) -> None:
    """Make two episodes of one."""
    reel.edit_dataset(root).cut(0, at=1).apply()


def relabel(root: Path) -> None:
    """Give an episode another task, and say of it what the metadata did not say."""
    edit = reel.edit_dataset(root).set_task([1], "pour").set([0], {"success": True})
    edit.replace_task("task 0", "wipe").apply()


def rename(root: Path) -> None:
    """Give features other names, and remove one."""
    edit = reel.edit_dataset(root).rename(CAMERAS[0], "observation.images.top")
    edit.rename("observation.state", "observation.joints").remove("note").apply()


def encode(root: Path) -> None:
    """Encode a camera again, smaller, at half the rate."""
    edit = reel.edit_dataset(root).resize(CAMERAS[0], 32, 32).resample(FPS / 2)
    edit.reencode(CAMERAS[0], reel.Encoding("h264", keyframe_distance=1)).apply()


def scrub(root: Path) -> None:
    """Delete an episode so that nothing of it remains."""
    reel.edit_dataset(root).delete([0]).scrub().apply()


def verify_for_good(remains: Remains, act: Act) -> None:
    """Check a change that cannot be undone."""
    root = remains.folder / "dataset"
    check_between(remains)
    finish_commit(Workshop(root))
    if is_same(remains, "old"):
        assert "changed" not in remains.said
        act(root)
    assert differing_files(root, remains.folder / "new") == []
    assert list_changes(root) == []
    check_left(remains)


def prepare(folder: Path, act: Act, store: str, *, undo: bool, version: str = "v3.0") -> None:
    """Make a dataset to change, and two beside it: as it is before, and as it is afterwards."""
    root = folder / "dataset"
    record_apart(folder, store)
    if version != "v3.0":
        plan_conversion(root, version, folder / "converted").apply()
        shutil.rmtree(root)
        (folder / "converted").rename(root)
    if act is repair:
        damage(root)
    shutil.copytree(root, folder / "old")
    if undo:
        act(root)
    shutil.copytree(root, folder / "new")
    if not undo:
        act(folder / "new")
    for name in (STORE, WORKSHOP):
        shutil.rmtree(folder / "new" / name, ignore_errors=True)
    assert differing_files(folder / "old", folder / "new")


def change(folder: Path, say: Say, act: Act) -> None:
    act(folder / "dataset")
    say("changed")


def take_back(folder: Path, say: Say) -> None:
    undo_change(folder / "dataset")
    say("undone")


def verify_change(remains: Remains, act: Act) -> None:
    """Check that the change happened or not; do it, and undo it."""
    root = remains.folder / "dataset"
    check_between(remains, renames=act is not repair)
    finish_commit(Workshop(root))
    remains.once(check_either, root, remains.folder / "old", remains.folder / "new")
    is_old = is_same(remains, "old")
    assert not (is_old and "changed" in remains.said)
    remains.go_on(lambda: change_and_undo(remains, act, is_old=is_old))


def change_and_undo(remains: Remains, act: Act, *, is_old: bool) -> None:
    """Change the dataset, unless it is, and undo the change."""
    root = remains.folder / "dataset"
    if is_old:
        act(root)
    assert differing_files(root, remains.folder / "new") == []
    check_left(remains)
    undo_change(root)
    assert is_same(remains, "old"), "undo did not bring the old files back"
    check_left(remains)


def verify_undo(remains: Remains, act: Act) -> None:
    """Check that the change was undone or not, undo it, and check that all is as it was."""
    root = remains.folder / "dataset"
    check_between(remains, "new", "old", renames=act is not repair)
    finish_commit(Workshop(root))
    remains.once(check_either, root, remains.folder / "old", remains.folder / "new")
    is_old = is_same(remains, "old")
    assert is_old or "undone" not in remains.said
    remains.go_on(lambda: undo(remains, is_old=is_old))


def undo(remains: Remains, *, is_old: bool) -> None:
    """Undo the change, unless it is undone."""
    root = remains.folder / "dataset"
    if not is_old:
        assert is_same(remains, "new"), "neither what was before nor what was after"
        undo_change(root)
    assert is_same(remains, "old")
    assert list_changes(root) == []
    check_left(remains)


def is_same(remains: Remains, name: str) -> bool:
    """Whether the dataset has the files of the one beside it, byte by byte."""
    ours, theirs = (files_of(remains.folder / folder) for folder in ("dataset", name))
    return ours.keys() == theirs.keys() and all(
        path.read_bytes() == theirs[file].read_bytes() for file, path in ours.items()
    )


def check_left(remains: Remains) -> None:
    """Check that the dataset can be read, and that nothing is left behind."""
    root = remains.folder / "dataset"
    dataset = reel.open_dataset(root)
    dataset.read(np.arange(len(dataset)))
    check_no_litter(remains.folder)
    left = {path.name for path in (root / WORKSHOP).iterdir()} if (root / WORKSHOP).exists() else {}
    assert not {"open", "staged", "commit", "salvage", "gone", "held"} & set(left), left


def _scenarios(name: str, act: Act, store: str, version: str = "v3.0") -> list[Scenario]:
    prepared = partial(prepare, act=act, store=store, version=version)
    return [
        Scenario(
            f"{name}, {store}",
            partial(change, act=act),
            partial(verify_change, act=act),
            partial(prepared, undo=False),
        ),
        Scenario(
            f"undo of {name}, {store}",
            take_back,
            partial(verify_undo, act=act),
            partial(prepared, undo=True),
        ),
    ]


SCENARIOS = [
    *_scenarios("repair", repair, "image"),
    *_scenarios("drop", drop, "video"),
    *_scenarios("edit", edit, "video"),
    *_scenarios("edit of v2.1", edit, "video", "v2.1"),
    *_scenarios("split", split, "image"),
    *_scenarios("relabel", relabel, "video"),
    *_scenarios("rename", rename, "video"),
    *_scenarios("encode", encode, "video"),
    Scenario(
        "scrub, video",
        partial(change, act=scrub),
        partial(verify_for_good, act=scrub),
        partial(prepare, act=scrub, store="video", undo=False),
    ),
]
