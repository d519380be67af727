"""`roboreel repair`: what was clean is clean again, and what cannot be known is left alone."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.commit import STORE, Workshop, finish_commit, list_changes, undo_change
from roboreel.errors import (
    EditError,
    EpisodeNotFoundError,
    NotADatasetError,
    RecordingError,
    StaleDatasetError,
)
from roboreel.repair import plan_repair, repair_dataset
from roboreel.repair.planning import ON_REQUEST
from tests.clean import FRONT, LENGTHS, VERSIONS, clean_dataset
from tests.cli.test_cli import roboreel_
from tests.corruptions import CORRUPTIONS
from tests.recordings import FPS, features, record
from tests.same_dataset import differing_files, files_of
from tests.sudden_death import dies_at
from tests.surgery import Folder, remove_footer

REMAIN = {
    "unusable-feature": "which dtype was meant is not known",
    "video-missing": "the file is not there",
    "data-file-missing": "the file is not there",
    "lfs-pointer-data": "the file is not there: git lfs pull",
    "lfs-pointer-video": "the file is not there: git lfs pull",
    "lfs-pointer-json": "the file is not there: git lfs pull",
    "lfs-pointer-tasks": "the file is not there: git lfs pull",
    "template-leaves-the-folder": "where the files should be is not known",
    "symlink-leaves-the-folder": "a link may be meant",
    "camera-without-files": "the files are not there",
    "task-number-twice": "which text belongs to a number is not known",
    "tasks-out-of-order": "LeRobot's tasks or the numbers may be meant",
    "task-is-not-listed": "the table or the episode may be right",
    "zero-byte-data-file": "the rows are lost",
    "episodes-swapped": "rows or table may be right",
    "episode-index-mixed": "the rows may be of either episode",
    "unused-task": "no damage: a task may be used later",
    "shape-differs": "info.json or the files may be right",
    "dtype-differs": "no damage: values are converted when they are read",
    "column-missing": "the values are lost",
    "nulls": "the values are lost",
    "damaged-page": "the values are lost",
    "timestamp-jump": "time is what the robot's clock said: a pause is no error",
    "timestamp-repeated": "when the frame was taken is not known",
    "timestamps-drift": "time is what the robot's clock said",
    "timestamp-jitter": "time is what the robot's clock said",
    "fps-wrong": "info.json or the files may be right",
    "nan": "the values are lost",
    "infinity": "the values are lost",
    "constant-joint": "a joint may stand still",
    "saturated-joint": "a joint may be at its limit",
    "idle-stretch": "the robot may have waited",
    "video-cut-in-half": "the images are lost",
    "video-cut-behind-its-index": "the images are lost",
    "zero-byte-video": "the images are lost",
    "video-short": "the images are lost",
    "video-one-image-short": "the image is lost",
    "video-long": "which images are too many is not known",
    "video-starts-half-a-second-late": "in v2.x only the video itself has times",
    "video-starts-one-frame-late": "in v2.x only the video itself has times",
    "mixed-sizes": "the images would have to be encoded again",
    "mixed-codecs": "the images would have to be encoded again",
    "frozen-feed": "the images are lost",
    "frozen-camera": "the images are lost",
    "swapped-cameras": "a guess, if a good one",
    "swapped-videos": "a guess, if a good one",
    "codec-that-rerun-cannot-show": "the images would have to be encoded again",
    "undecodable-images": "the images are lost",
    "black-images": "the images are lost",
    "blurred-images": "the images are lost",
}
"""What a repair leaves as it is, and why."""
NEED_IMAGES = ("zero-byte-statistics", "image-std-zero")

FIXABLE = [
    pytest.param(
        corruption,
        version,
        id=f"{corruption}-{version}",
        # v2.0 differs from v2.1 in its statistics only.
        marks=[pytest.mark.slow] * (version == "v2.0" and corruption.code < "RR500"),
    )
    for corruption in CORRUPTIONS
    for version in corruption.versions
    if corruption.fixable
]
OTHERS = [(one, one.versions[-1]) for one in CORRUPTIONS if not one.fixable]


def named(name):
    return next(corruption for corruption in CORRUPTIONS if corruption.name == name)


def corrupt(tmp_path, name, version="v3.0"):
    root = clean_dataset(tmp_path / "corrupt", version)
    named(name).apply(root)
    return root


def contents(root):
    return {name: path.read_bytes() for name, path in files_of(root).items()}


def fixable(findings):
    return {one for one in findings if one.fixable and one.code not in ON_REQUEST}


@pytest.mark.parametrize(("corruption", "version"), FIXABLE)
def test_what_was_clean_is_clean_again(corruption, version, tmp_path):
    clean = clean_dataset(tmp_path / "clean", version)
    root = clean_dataset(tmp_path / "corrupt", version)
    corruption.apply(root)
    deep = corruption.name in NEED_IMAGES
    done = repair_dataset(root, deep=deep, trust_values=True, set_aside=True)
    first = done.plans[0]
    assert corruption.code in {one.code for one in first.cured}
    assert fixable(first.findings) == set(first.cured)
    assert not [one for one in done.remaining if one.severity != "note"]
    if corruption.restores == "bytes":
        assert contents(root) == contents(clean)
    elif corruption.restores == "values":
        assert differing_files(root, clean) == []


@pytest.mark.parametrize(("corruption", "version"), OTHERS, ids=str)
def test_what_cannot_be_known_is_left_alone(corruption, version, tmp_path):
    root = corrupt(tmp_path, corruption.name, version)
    before = contents(root)
    plan = plan_repair(root, only=[corruption.code])
    assert corruption.code in {one.code for one in plan.remaining}
    assert not any(one.fixable for one in plan.findings if one.code == corruption.code)
    assert not plan
    assert contents(root) == before
    assert REMAIN[corruption.name]


def test_the_reasons_are_those_of_corruptions_that_remain():
    assert REMAIN.keys() == {one.name for one in CORRUPTIONS if not one.fixable}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_dataset_needs_no_repair(version, tmp_path):
    root = clean_dataset(tmp_path / "d", version)
    before = contents(root)
    done = repair_dataset(root)
    assert done.plans == ()
    assert str(done.last) == "There is nothing to repair."
    assert contents(root) == before
    assert not (root / STORE).exists()


@pytest.mark.parametrize("name", ["rows-missing", "folder-differs-from-template", "orphan-video"])
def test_undo_brings_the_same_bytes_back(name, tmp_path):
    root = corrupt(tmp_path, name)
    before = contents(root)
    repair_dataset(root)
    assert contents(root) != before
    for _ in list_changes(root):
        undo_change(root)
    assert contents(root) == before


def test_what_no_episode_uses_is_set_aside_and_not_deleted(tmp_path):
    root = clean_dataset(tmp_path / "d")
    place = named("orphan-data-file").apply(root)
    orphan = (root / place.files[0]).read_bytes()
    plan_repair(root, set_aside=True).apply()
    assert not (root / place.files[0]).exists()
    assert (root / STORE / "aside" / place.files[0]).read_bytes() == orphan


@pytest.mark.long
def test_a_process_that_dies_leaves_the_old_state_or_the_new(tmp_path):
    template = corrupt(tmp_path, "rows-missing")
    old = contents(template)
    shutil.copytree(template, tmp_path / "new")
    plan_repair(tmp_path / "new").apply()
    new = contents(tmp_path / "new")
    for call in range(1, 60, 6):
        root = shutil.copytree(template, tmp_path / f"dies-{call}")
        died = dies_at(call, lambda path: plan_repair(path).apply(), root)
        finish_commit(Workshop(root))
        assert contents(root) in (old, new)
        if not died:
            assert contents(root) == new
            break
    else:
        pytest.fail("The repair never came to its end.")


def test_a_copy_is_repaired_and_the_dataset_stays(tmp_path):
    root = corrupt(tmp_path, "orphan-data-file")
    Folder(root).edit_info(total_frames=7)
    before = contents(root)
    done = repair_dataset(root, out=tmp_path / "copy", set_aside=True)
    assert {one.code for one in done.cured} == {"RR101", "RR105"}
    assert contents(root) == before
    assert contents(tmp_path / "copy") == contents(clean_dataset(tmp_path / "clean"))
    assert not any(path.name.startswith(".") for path in (tmp_path / "copy").iterdir())
    with pytest.raises(RecordingError, match="already exists"):
        repair_dataset(root, out=tmp_path / "copy")


def test_files_that_become_readable_show_what_else_is_wrong(tmp_path):
    root = clean_dataset(tmp_path / "d")
    folder = Folder(root)
    folder.edit_stats("action", mean=[9.0] * 6)
    remove_footer(root / folder.data(4))
    done = repair_dataset(root, trust_values=True)
    assert [{one.code for one in plan.cured} for plan in done.plans] == [{"RR201"}, {"RR501"}]
    assert differing_files(root, clean_dataset(tmp_path / "clean")) == []


def test_several_damages_are_repaired_together(tmp_path):
    root = clean_dataset(tmp_path / "d")
    for name in ("counts-differ", "gap-in-index", "clip-starts-one-frame-late", "tasks-missing"):
        named(name).apply(root)
    done = repair_dataset(root)
    assert len(done.plans) == 1
    assert differing_files(root, clean_dataset(tmp_path / "clean")) == []


def test_what_is_unknown_to_us_stays(tmp_path):
    root = clean_dataset(tmp_path / "d")
    folder = Folder(root)
    folder.edit_info(total_frames=7, lab={"name": "north", "rig": [1, 2]})
    path = root / folder.episode_table
    table = pq.read_table(path)
    notes = pa.array([f"note {i}" for i in range(len(table))])
    pq.write_table(table.append_column("operator_note", notes), path)
    folder.edit_episode(2, length=3)
    data = root / folder.data(2)
    pq.write_table(pq.read_table(data).append_column("x.unknown", pa.array([7] * 42)), data)
    folder.edit_column(2, "index", lambda values: [value + 5 for value in values])
    assert repair_dataset(root).plans
    assert folder.info["lab"] == {"name": "north", "rig": [1, 2]}
    assert list(folder.info) == [*Folder(clean_dataset(tmp_path / "clean")).info, "lab"]
    assert pq.read_table(path)["operator_note"].to_pylist() == notes.to_pylist()
    assert set(pq.read_table(data)["x.unknown"].to_pylist()) == {7}


@pytest.mark.parametrize("name", ["timestamp-jump", "timestamps-drift", "timestamp-jitter"])
def test_true_times_are_never_changed(name, tmp_path):
    root = corrupt(tmp_path, name)
    before = {name: data for name, data in contents(root).items() if name.startswith("data/")}
    repair_dataset(root)
    assert {name: contents(root)[name] for name in before} == before


def test_without_images_their_statistics_stay_and_are_listed(tmp_path):
    root = corrupt(tmp_path, "image-std-zero")
    done = repair_dataset(root)
    assert done.plans == ()
    assert "RR504" in {one.code for one in done.remaining}


def test_what_changes_after_the_plan_was_made_is_not_overwritten(tmp_path):
    root = corrupt(tmp_path, "counts-differ")
    plan = plan_repair(root)
    Folder(root).edit_info(total_frames=1234)
    with pytest.raises(StaleDatasetError, match=r"info.json.*plan it again"):
        plan.apply()


def test_a_plan_is_a_diff(tmp_path):
    root = corrupt(tmp_path, "counts-differ")
    plan = plan_repair(root, only=["RR101"])
    lines = str(plan).splitlines()
    assert lines[:3] == ["meta/info.json  (RR101)", "- total_episodes: 7", "+ total_episodes: 6"]
    assert lines[-1].startswith("1 file is written, about ")
    assert json.loads(json.dumps(plan.to_json()))["changes"][0]["kind"] == "write"


def test_only_and_ignore_choose_what_is_repaired(tmp_path):
    root = corrupt(tmp_path, "counts-differ")
    named("orphan-video").apply(root)
    repair_dataset(root, only=["RR101"])
    assert {one.code for one in check_dataset(root).at_least("warning")} == {"RR105"}
    assert not plan_repair(root, ignore=["RR105"])


def test_the_index_of_a_video_moves_to_the_front_when_asked_for(tmp_path):
    root = clean_dataset(tmp_path / "d")
    assert "RR411" in {one.code for one in plan_repair(root).remaining}
    done = repair_dataset(root, only=["RR411"])
    assert len(done.plans[0].changes) == 6
    assert done.remaining == ()
    assert differing_files(root, clean_dataset(tmp_path / "clean")) == []


def spike(root):
    """Let a joint be at 55 rad once, after the statistics were computed."""
    Folder(root).edit_column(2, "action", lambda values: [[55.0] * 6, *values[1:]])
    return root


class TestStatisticsThatContradictTheValues:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_they_stay_and_the_plan_says_why(self, version, tmp_path):
        root = spike(clean_dataset(tmp_path / "d", version))
        before = contents(root)
        plan = plan_repair(root)
        assert not plan
        assert {one.code for one in plan.contradictions} <= {"RR501", "RR506"}
        assert "the only sign that values changed" in str(plan)
        assert "--trust-values" in str(plan)
        repair_dataset(root)
        assert contents(root) == before

    @pytest.mark.parametrize("version", VERSIONS)
    def test_they_are_computed_again_when_the_values_are_trusted(self, version, tmp_path):
        root = spike(clean_dataset(tmp_path / "d", version))
        before = contents(root)
        done = repair_dataset(root, trust_values=True)
        [plan] = done.plans
        assert "the values are believed, since training reads them" in str(plan)
        assert set(plan.contradictions) == set(plan.cured)
        old = [one["old"] for change in plan.to_json()["changes"] for one in change["differences"]]
        new = [one["new"] for change in plan.to_json()["changes"] for one in change["differences"]]
        assert any(value == [55.0] * 6 or value == 55.0 for value in new)
        assert not any(value == [55.0] * 6 or value == 55.0 for value in old)
        assert not [one for one in done.remaining if one.severity != "note"]
        undo_change(root)
        assert contents(root) == before

    @pytest.mark.parametrize("version", ["v2.1", "v3.0"])
    def test_what_is_not_a_number_is_computed_and_other_features_stay(self, version, tmp_path):
        root = spike(clean_dataset(tmp_path / "d", version))
        nan = [float("nan")] * 6
        Folder(root).edit_episode_stats(2, "observation.state", mean=nan, std=nan)
        Folder(root).edit_episode_stats(4, "action", mean=nan, std=nan)
        done = repair_dataset(root)
        left = {(one.code, one.episode) for one in done.remaining if one.severity != "note"}
        assert left == {("RR506", 2)} | ({("RR501", None)} if version == "v3.0" else set())
        assert {one.feature for one in done.last.contradictions} == {"action"}

    @pytest.mark.parametrize("feature", ["action", "observation.state"])
    @pytest.mark.parametrize("version", VERSIONS)
    def test_what_is_left_of_damaged_statistics_is_still_a_witness(
        self, version, feature, tmp_path
    ):
        root = spike(clean_dataset(tmp_path / "d", version))
        folder = Folder(root)
        if version != "v2.1":
            folder.edit_stats(feature, std="lost")
        if version == "v2.1":
            folder.edit_episode_stats(2, feature, std="lost")
        if version == "v3.0":
            folder.edit_episode_stats(2, feature, mean=[float("nan")] * 6)
        done = repair_dataset(root)
        assert {one.feature for one in done.last.contradictions} <= {"action", None}
        assert done.last.contradictions
        assert "[55.0" not in "".join(map(str, done.plans))
        if feature != "action":
            assert done.plans
        done = repair_dataset(root, trust_values=True)
        assert "[55.0" in "".join(map(str, done.plans))
        assert not [one for one in done.remaining if one.severity != "note"]

    def test_disordered_quantiles_take_no_witness_along(self, tmp_path):
        root = spike(clean_dataset(tmp_path / "d"))
        named("quantiles-out-of-order").apply(root)
        before = contents(root)
        repair_dataset(root, only=["RR502"])
        assert contents(root) == before

    def test_images_that_were_swapped_are_witnessed_by_them(self, tmp_path):
        root = corrupt(tmp_path, "black-images")
        before = contents(root)
        done = repair_dataset(root, deep=True)
        assert {one.code for one in done.last.contradictions} >= {"RR506"}
        assert contents(root) == before

    def test_the_command_asks_by_an_option_and_says_it_in_json(self, tmp_path):
        root = spike(clean_dataset(tmp_path / "d"))
        done = roboreel_("repair", str(root), "--yes")
        assert done.code == 1
        assert done.out.count("--trust-values") == 1
        assert "images must be decoded" not in done.out
        said = json.loads(roboreel_("repair", str(root), "--dry-run", "--json").out)
        assert {one["code"] for one in said["contradictions"]} == {"RR501", "RR506"}
        assert "the only sign" in said["belief"]
        done = roboreel_("repair", str(root), "--yes", "--json", "--trust-values")
        [plan] = json.loads(done.out)["rounds"]
        assert done.code == 0
        assert plan["believed"] == "values"


def test_there_must_be_a_dataset(tmp_path):
    with pytest.raises(NotADatasetError):
        plan_repair(tmp_path / "nowhere")


class TestDroppedEpisodes:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_they_leave_and_the_others_are_numbered_anew(self, version, tmp_path):
        root = clean_dataset(tmp_path / "d", version)
        place = named("zero-byte-data-file").apply(root)  # of episode 4; in v3.0, of 5 too
        old = reel.open_dataset(clean_dataset(tmp_path / "clean", version))
        before, gone = contents(root), [4, 5] if version == "v3.0" else [4]
        done = repair_dataset(root, drop=[1, *gone])
        assert [one for one in done.remaining if one.severity == "error"] == []
        new = reel.open_dataset(root)
        kept = [episode for episode in range(6) if episode not in (1, *gone)]
        assert new.episodes.lengths.tolist() == [LENGTHS[episode] for episode in kept]
        for number, episode in enumerate(kept):
            read = new.episodes[number].read(["observation.state", FRONT])
            expected = old.episodes[episode].read(["observation.state", FRONT])
            assert all((read[name] == expected[name]).all() for name in expected)
        for _ in list_changes(root):
            undo_change(root)
        assert contents(root) == before
        assert place.files[0] in before

    @pytest.mark.parametrize("store", ["video", "image"])
    @pytest.mark.parametrize("version", VERSIONS)
    def test_dropping_equals_deleting(self, version, store, tmp_path):
        root = clean_dataset(tmp_path / "dropped", version, store=store)
        deleted = clean_dataset(tmp_path / "deleted", version, store=store)
        copied = tmp_path / "copied"
        done = repair_dataset(root, drop=[1, 4])
        reel.edit_dataset(deleted).delete([1, 4]).apply()
        repair_dataset(clean_dataset(tmp_path / "d", version, store=store), drop=[4, 1], out=copied)
        assert [plan.leaving for plan in done.plans] == [(1, 4)]
        assert contents(root) == contents(deleted) == contents(copied)
        if version == "v3.0":
            gone = LENGTHS[1] + LENGTHS[4]
            stats = json.loads((root / "meta/stats.json").read_text())
            assert stats[FRONT]["count"] == [sum(LENGTHS) - gone]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_what_can_be_repaired_is_repaired_before_they_leave(self, version, tmp_path):
        root = clean_dataset(tmp_path / "d", version)
        deleted = clean_dataset(tmp_path / "deleted", version)
        Folder(root).edit_info(total_frames=7)
        before = contents(root)
        repair_dataset(root, drop=[2], out=tmp_path / "copied")
        assert contents(root) == before
        done = repair_dataset(root, drop=[2])
        assert [one.code for one in done.plans[0].cured] == ["RR101"]
        assert str(done.plans[0]).endswith("Then episode 2 will be deleted, by a plan of its own.")
        assert [plan.edit is None for plan in done.plans] == [True, False]
        reel.edit_dataset(deleted).delete([2]).apply()
        assert contents(root) == contents(deleted) == contents(tmp_path / "copied")
        for _ in done.plans:
            undo_change(root)
        assert contents(root) == before

    def test_the_episodes_to_look_at_are_found_under_their_new_numbers(self, tmp_path):
        root = clean_dataset(tmp_path / "d", "v2.1")
        done = repair_dataset(root, drop=[1], episodes=[1, 5])
        assert done.last.findings.at_least("warning") == ()
        assert len(reel.open_dataset(root).episodes) == 5

    def test_only_named_episodes_leave(self, tmp_path):
        root = corrupt(tmp_path, "zero-byte-data-file")
        assert "RR201" in {one.code for one in repair_dataset(root).remaining}
        assert len(reel.open_dataset(root).episodes) == len(LENGTHS)

    def test_one_episode_must_stay(self, tmp_path):
        root = corrupt(tmp_path, "counts-differ")
        before = contents(root)
        with pytest.raises(EditError, match="No episode would stay"):
            repair_dataset(root, drop=range(6))
        with pytest.raises(EpisodeNotFoundError):
            repair_dataset(root, drop=[6])
        assert contents(root) == before


class TestTheCommand:
    def test_it_shows_the_plan_and_refuses_where_nobody_can_be_asked(self, tmp_path):
        root = corrupt(tmp_path, "counts-differ")
        before = contents(root)
        done = roboreel_("repair", str(root))
        assert done.code == 2
        assert "+ total_frames: 97" in done.out
        assert "--yes" in done.err
        assert contents(root) == before

    def test_a_dry_run_only_shows_the_plan(self, tmp_path):
        root = corrupt(tmp_path, "counts-differ")
        before = contents(root)
        done = roboreel_("repair", str(root), "--dry-run")
        assert (done.code, done.err) == (0, "")
        assert "- total_episodes: 7" in done.out
        assert contents(root) == before

    def test_it_repairs_checks_again_and_says_so(self, tmp_path):
        root = corrupt(tmp_path, "counts-differ")
        done = roboreel_("repair", str(root), "--yes")
        assert done.code == 0
        assert "Repaired 3 findings." in done.out
        assert contents(root) == contents(clean_dataset(tmp_path / "clean"))
        assert roboreel_("undo", str(root), "--yes").code == 0

    def test_what_remains_is_listed_and_is_exit_code_1(self, tmp_path):
        root = corrupt(tmp_path, "nan")
        done = roboreel_("repair", str(root), "--yes")
        assert done.code == 1
        assert "There is nothing to repair." in done.out
        assert "RR601" in done.out.partition("These remain:")[2]

    def test_json_tells_what_was_done_and_what_remains(self, tmp_path):
        root = corrupt(tmp_path, "orphan-video")
        done = roboreel_("repair", str(root), "--yes", "--json")
        said = json.loads(done.out)
        assert [change["kind"] for change in said["rounds"][0]["changes"]] == ["aside"]
        assert {one["severity"] for one in said["remaining"]} == {"note"}
        assert done.code == 0

    def test_a_copy_is_written_to_another_folder(self, tmp_path):
        root = corrupt(tmp_path, "counts-differ")
        assert roboreel_("repair", str(root), "--out", str(tmp_path / "copy"), "--yes").code == 0
        assert contents(tmp_path / "copy") == contents(clean_dataset(tmp_path / "clean"))


def test_when_the_only_episode_of_a_file_was_dropped_the_rest_is_clean(tmp_path):
    with reel.create_dataset(
        tmp_path / "d", fps=FPS, features=features(None), compact_on_close=False
    ) as recorder:
        for episode in range(3):
            record(recorder, episode, 3)
            recorder.save_episode()
    done = repair_dataset(tmp_path / "d", drop=[1])
    assert not [found for found in done.remaining if found.severity != "note"]
    assert len(reel.open_dataset(tmp_path / "d").episodes) == 2


def test_rows_get_no_task_from_a_table_whose_numbers_occur_twice(tmp_path):
    root = clean_dataset(tmp_path / "d", "v2.1")
    folder = Folder(root)
    folder.edit_table(folder.task_table, lambda rows: [{**row, "task_index": 0} for row in rows])
    before = contents(root)
    done = repair_dataset(root, ignore=["RR101"])
    assert {"RR115", "RR207"} <= {one.code for one in done.remaining}
    assert contents(root) == before


@pytest.mark.parametrize("choice", [{"only": ["RR207"]}, {"ignore": ["RR101", "RR115"]}])
def test_nor_do_they_if_nobody_asks_about_the_table(tmp_path, choice):
    root = clean_dataset(tmp_path / "d", "v2.1")
    folder = Folder(root)
    folder.edit_table(folder.task_table, lambda rows: [{**row, "task_index": 0} for row in rows])
    before = contents(root)
    done = repair_dataset(root, **choice)
    codes = {one.code for one in done.remaining}
    assert "RR207" in codes
    assert "RR115" not in codes
    assert contents(root) == before
