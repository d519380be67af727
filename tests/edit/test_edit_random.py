"""Random recipes: what stays is equal before and after, through jobs, conversions and other readers."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboreel.commit import list_changes, undo_change
from roboreel.edit import edit_dataset, plan_conversion, plan_merge
from roboreel.edit.edit_job import plan_edit_job
from roboreel.edit.recipe_file import replay_operations
from roboreel.jobs import InProcess, create_job, run_job
from tests.clean import FRONT, LENGTHS, VERSIONS, WRIST, clean_dataset
from tests.commit.test_undo import tree_hash
from tests.edit.edited import Expected, check_edited
from tests.edit.test_edit import carried, recipes

pytestmark = pytest.mark.long

FEW = settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FEATURES = {
    FRONT: "observation.images.top",
    WRIST: None,
    "action": "act",
    "observation.pose": None,
    "observation.state": "observation.joints",
}


@st.composite
def described(draw):
    """Return the operations of a recipe file on features and columns, and new names of features."""
    names = {n: new for n, new in FEATURES.items() if draw(st.booleans())}
    operations: list[dict[str, Any]] = [
        {"do": "remove", "feature": old}
        if new is None
        else {"do": "rename", "feature": old, "name": new}
        for old, new in names.items()
    ]
    episodes = draw(st.lists(st.integers(0, len(LENGTHS) - 1), unique=True, min_size=1))
    value = draw(st.sampled_from([True, 3, 0.5, "Ann"]))
    operations.append({"do": "set", "episodes": episodes, "columns": {"said": value}})
    return operations, names


def as_recipe(operations):
    """Return what a page in a browser would write."""
    keys = {"delete": ("episodes",), "trim": ("episode", "start", "stop"), "cut": ("episode", "at")}
    written = []
    for name, *values in operations:
        if name == "task":
            written.append({"do": "set_task", "episodes": [values[0]], "task": values[1]})
        else:
            written.append({"do": name, **dict(zip(keys[name], values, strict=True))})
    return written


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recipe_file_does_what_it_says_with_and_without_a_job(version, tmp_path):
    clean = clean_dataset(tmp_path / "clean", version)
    place = iter(range(10**6))

    @FEW
    @given(recipe=recipes(), more=described())
    def edits(recipe, more):
        (operations, expected), (features, names) = recipe, more
        if not expected:
            return
        folder = tmp_path / f"d{next(place)}"
        said = json.loads(json.dumps({"operations": [*as_recipe(operations), *features]}))
        root = shutil.copytree(clean, folder / "root")
        before = tree_hash(root)
        plan = replay_operations(edit_dataset(root), said).plan(folder / "out")
        plan.apply()
        check_edited(clean, folder / "out", expected, names=names)
        once = tree_hash(folder / "out")
        shutil.rmtree(folder / "out")
        job = create_job(folder / "job", plan_edit_job(plan, verify=True, task_s=1e-3))
        run_job(job, InProcess())
        job.commit()
        assert tree_hash(folder / "out") == once
        replay_operations(edit_dataset(root), said).apply()
        check_edited(clean, root, expected, names=names)
        undo_change(root)
        assert tree_hash(root) == before
        assert list_changes(root) == []

    edits()


@pytest.mark.parametrize(
    ("version", "other"), [("v2.1", "v3.0"), ("v3.0", "v2.1"), ("v2.0", "v3.0")]
)
def test_edited_converted_there_and_back_rows_and_packets_are_equal(version, other, tmp_path):
    clean = clean_dataset(tmp_path / "clean", version)
    place = iter(range(10**6))

    @FEW
    @given(recipe=recipes())
    def edits(recipe):
        operations, expected = recipe
        if not expected:
            return
        folder = tmp_path / f"d{next(place)}"
        carried(edit_dataset(clean), operations).apply(out=folder / "edited")
        plan_conversion(folder / "edited", other, folder / "there").apply(verify=True)
        plan_conversion(folder / "there", version, folder / "back").apply(verify=True)
        check_edited(clean, folder / "there", expected)
        check_edited(clean, folder / "back", expected)

    edits()


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_the_reader_of_rerun_finds_every_row_of_edited_datasets(version, tmp_path):
    experimental = pytest.importorskip("rerun.experimental")
    from tests.rerun.rrd_rows import rows_of

    root, whole = (clean_dataset(tmp_path / name, version) for name in ("arm", "whole"))
    pose = "observation.pose"  # 4 x 4, which this reader does not take
    edit_dataset(root).delete([1]).trim(2, start=3, stop=15).cut(3, at=11).remove(pose).apply()
    plan_merge([root, whole], tmp_path / "merged", drop=[pose]).apply()
    other = "v3.0" if version == "v2.1" else "v2.1"
    plan_conversion(root, other, tmp_path / "converted").apply()
    edited = [LENGTHS[0], 12, 11, LENGTHS[3] - 11, *LENGTHS[4:]]
    for name, lengths in (("arm", edited), ("merged", [*edited, *LENGTHS]), ("converted", edited)):
        reader = experimental.LeRobotReader(tmp_path / name)
        assert len(reader.episodes()) == len(lengths)
        for episode, length in zip(reader.episodes(), lengths, strict=True):
            out = tmp_path / f"{name}-{episode}.rrd"
            reader.stream(episode).write_rrd(out, application_id="x", recording_id=f"{episode}")
            times = {time for entity, _, time in rows_of(out) if "action" in str(entity)}
            assert len(times - {None}) == length, (name, episode)


def test_what_is_expected_of_random_recipes_can_fail(tmp_path):
    root = clean_dataset(tmp_path / "arm")
    edit_dataset(root).trim(0, start=2).apply(out=tmp_path / "out")
    whole = [Expected(e, 0, n) for e, n in enumerate(LENGTHS)]
    with pytest.raises(AssertionError):
        check_edited(root, tmp_path / "out", whole)
