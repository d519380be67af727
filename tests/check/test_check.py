"""`roboreel check` finds each corruption under its code, and nothing in clean datasets."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.check.checks import Check
from roboreel.check.run import CHECKS, SCANS
from roboreel.check.scanning import PASS_CODES
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.errors import CorruptFileError, EpisodeNotFoundError, NotADatasetError
from roboreel.findings import RULES, TIERS
from roboreel.schema import Depth, Feature
from tests.clean import LENGTHS, VERSIONS, clean_dataset
from tests.corruptions import CORRUPTIONS
from tests.factory import SHARED, edit_info, needs_shared, write_dataset, write_dataset_v2
from tests.recordings import CAMERAS, FPS, SIZE, features, frame
from tests.surgery import Folder

CHEAP = ("metadata", "numbers")
CASES = [
    (corruption, version)
    for corruption in CORRUPTIONS
    for version in corruption.versions
    if RULES[corruption.code].tier in CHEAP
]


def codes(findings):
    return {found.code for found in findings}


@pytest.fixture(scope="module")
def clean_codes(tmp_path_factory):
    """The notes on each clean dataset: of a corrupt one they say nothing new."""
    root = tmp_path_factory.mktemp("clean")
    return {
        version: codes(check_dataset(clean_dataset(root / version, version), tier="numbers"))
        for version in VERSIONS
    }


@pytest.mark.parametrize(("corruption", "version"), CASES, ids=str)
def test_a_corruption_is_found_under_its_code_at_its_place(
    corruption, version, tmp_path, clean_codes
):
    root = clean_dataset(tmp_path / "d", version)
    place = corruption.apply(root)
    findings = check_dataset(root, tier="numbers")
    assert any(found.code == corruption.code and place.is_named_by(found) for found in findings)
    allowed = {corruption.code, *corruption.also, *clean_codes[version]}
    assert codes(findings) <= allowed, [str(found) for found in findings]


@pytest.mark.parametrize("store", ["video", "image"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_dataset_has_notes_at_most(version, store, tmp_path):
    findings = check_dataset(clean_dataset(tmp_path / "d", version, store=store))
    assert [str(found) for found in findings.at_least("warning")] == []


@needs_shared
@pytest.mark.parametrize(
    "name", [path.name for path in SHARED.iterdir()] if SHARED.is_dir() else []
)
def test_what_lerobot_and_others_wrote_has_notes_at_most(name):
    findings = check_dataset(SHARED / name)
    assert [str(found) for found in findings.at_least("warning")] == []


@needs_shared
def test_known_defects_of_lerobot_are_notes_that_name_it():
    found = check_dataset(SHARED / "lerobot_v30_video", only=["RR505"])
    assert any("averages over the episodes" in str(note) for note in found)
    assert any("LeRobot 0.4.0 to 0.5.1" in str(note) for note in found)


@pytest.mark.parametrize("store", ["video", "image"])
def test_what_the_recorder_writes_has_notes_at_most(store, tmp_path):
    """Arrays, texts, booleans, two cameras and depth; episodes of one frame among others."""
    declared = features(store)
    if store == "video":
        declared["depth"] = Feature("video", (*SIZE, 1), depth=Depth())
    with reel.create_dataset(
        tmp_path / "d", fps=FPS, features=declared, encoding=reel.Encoding("h264")
    ) as recorder:
        for episode, length in enumerate([1, 12, 1, 20]):
            for i in range(length):
                ramp = np.add.outer(np.arange(SIZE[0]), np.arange(SIZE[1])) + 3.0 * i
                images = {
                    name: np.stack([4 * ramp % 250] * 3, 2).astype(np.uint8) for name in CAMERAS
                }
                depth = {"depth": (1 + ramp / 40).astype(np.float32)} if store == "video" else {}
                values = {**frame(episode, i), **images, **depth}
                recorder.add_frame(values, task=f"task {episode % 2}")
            recorder.save_episode()
    for tier in TIERS:
        findings = check_dataset(tmp_path / "d", tier=tier)
        assert [str(found) for found in findings.at_least("warning")] == []


@pytest.mark.parametrize("version", ["2.0", "2.1", "3.0"])
def test_what_the_demo_arm_writes_has_notes_at_most(version, tmp_path):
    spec = DemoSpec(episodes=3, frames=40, cameras=1, size=(48, 64), version=version)
    make_demo_dataset(tmp_path / "d", spec)
    findings = check_dataset(tmp_path / "d")
    assert [str(found) for found in findings.at_least("warning")] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_without_statistics_only_these_are_missing(version, tmp_path):
    if version == "v3.0":
        write_dataset(tmp_path, [12, 3, 40])
    else:
        write_dataset_v2(tmp_path, [12, 3, 40], version=version)
    findings = check_dataset(tmp_path)
    assert codes(findings.at_least("warning")) == {"RR503"}
    counters = {"index", "timestamp", "frame_index", "episode_index", "task_index"}
    assert not counters & {found.feature for found in findings}


def test_an_empty_dataset_is_clean(tmp_path):
    write_dataset(tmp_path, [])
    assert len(check_dataset(tmp_path)) == 0


class TestTheAccount:
    def test_every_rule_is_checked_or_says_why_not(self, tmp_path):
        findings = check_dataset(clean_dataset(tmp_path / "d"), tier="numbers")
        assert {*findings.checked, *findings.not_checked} == RULES.keys() - {"RR001"}
        assert not set(findings.checked) & findings.not_checked.keys()
        assert findings.not_checked["RR401"] == "Needs --tier index."

    def test_every_rule_of_the_cheap_tiers_has_a_check(self):
        checked = {code for check in CHECKS for code in check.codes}
        checked |= {code for scan in SCANS for code in scan.codes} | {*PASS_CODES, "RR001"}
        cheap = {code for code, rule in RULES.items() if rule.tier in CHEAP}
        assert cheap <= checked

    def test_the_metadata_tier_opens_no_data_file(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        for path in root.glob("data/**/*.parquet"):
            path.write_bytes(b"no Parquet")
        assert len(check_dataset(root, tier="metadata")) == 0
        assert codes(check_dataset(root, tier="numbers")) == {"RR201"}

    def test_only_and_ignore_take_codes_and_their_beginnings(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        folder = Folder(root)
        folder.edit_info(total_frames=7)
        folder.edit_column(2, "task_index", lambda values: [99] * len(values))
        everything = codes(check_dataset(root, tier="numbers"))
        assert {"RR101", "RR207"} <= everything
        assert codes(check_dataset(root, only=["RR2"])) == {"RR207"}
        assert codes(check_dataset(root, only=["101"])) == {"RR101"}
        assert codes(check_dataset(root, tier="numbers", ignore=["RR2xx"])) == everything - {
            "RR207"
        }
        with pytest.raises(ValueError, match="No rule has the code 'RR9'"):
            check_dataset(root, only=["RR9"])

    def test_a_code_that_is_spelled_out_is_read_for(self, tmp_path):
        assert check_dataset(clean_dataset(tmp_path / "d"), only=["RR611"]).tier == "deep"

    def test_a_check_that_raises_is_not_checked_and_says_so(self, tmp_path, monkeypatch):
        def fails(context):
            raise CorruptFileError(f"Broken: {str(context.root)!r}.")

        monkeypatch.setattr("roboreel.check.run.CHECKS", (Check(("RR104", "RR105"), fails),))
        findings = check_dataset(clean_dataset(tmp_path / "d"), tier="metadata")
        (found,) = findings
        assert (found.code, found.severity) == ("RR001", "warning")
        assert str(found).startswith("Could not check RR104, RR105: Broken")
        assert findings.not_checked["RR104"].startswith("Broken")
        assert "RR104" not in findings.checked
        assert findings.exit_code() == 2

    def test_findings_are_also_the_problems_of_the_dataset(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        edit_info(root, total_episodes=9)
        problems = reel.open_dataset(root).problems
        assert problems
        assert list(check_dataset(root, only=["RR101"])) == list(problems)

    def test_no_problem_of_the_dataset_is_left_out_at_the_cheapest_tier(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        start = f"videos/{CAMERAS[0]}/from_timestamp"
        Folder(root).edit_episode(1, **{start: None})
        (problem,) = reel.open_dataset(root).problems
        assert problem.code == "RR404"
        assert problem in list(check_dataset(root, tier="metadata"))
        assert problem in list(check_dataset(root, only=["RR404"]))

    def test_progress_is_reported_file_by_file(self, tmp_path):
        calls = []
        check_dataset(
            clean_dataset(tmp_path / "d"),
            tier="numbers",
            on_progress=lambda *call: calls.append(call),
        )
        assert calls == [("Data files", done, 3) for done in range(4)]


class TestSomeEpisodes:
    def test_only_their_files_are_read_and_only_they_are_named(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        folder = Folder(root)
        for episode in (2, 4):
            folder.edit_column(episode, "task_index", lambda values: [99] * len(values))
        (root / folder.data(0)).unlink()
        findings = check_dataset(root, tier="numbers", episodes=[2, 3])
        assert {(found.code, found.episode) for found in findings.errors} == {("RR207", 2)}
        assert findings.not_checked["RR501"] == "Only some episodes were read."

    def test_an_episode_that_does_not_exist_is_an_error(self, tmp_path):
        with pytest.raises(EpisodeNotFoundError, match="Episode 99 does not exist"):
            check_dataset(clean_dataset(tmp_path / "d"), episodes=[99])


class TestWhatCannotBeOpened:
    def test_no_dataset_is_an_error(self, tmp_path):
        with pytest.raises(NotADatasetError):
            check_dataset(tmp_path / "nothing")

    def test_damaged_metadata_is_a_finding_and_nothing_else_is_checked(self, tmp_path):
        root = clean_dataset(tmp_path / "d", "v2.1")
        (root / "meta" / "episodes.jsonl").write_text("nonsense\n")
        findings = check_dataset(root)
        assert [(found.code, found.file) for found in findings] == [
            ("RR111", "meta/episodes.jsonl")
        ]
        assert findings.checked == ()
        assert findings.not_checked["RR202"] == "The metadata cannot be read."
        assert findings.exit_code() == 1


class TestFiles:
    def test_a_missing_file_of_several_episodes_names_them(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        (root / Folder(root).data(2)).unlink()
        (found,) = check_dataset(root, tier="numbers", ignore=["RR6"])
        assert str(found) == "The data file of episodes 2 and 3 is missing."

    def test_a_folder_without_any_of_its_files_is_one_finding(self, tmp_path, monkeypatch):
        monkeypatch.setattr("roboreel.check.structure._MANY", 5)
        root = clean_dataset(tmp_path / "d", "v2.1")
        files = sorted((root / "data").rglob("*.parquet"))
        for path in files[1:]:
            path.unlink()
        assert [one.episode for one in check_dataset(root, only=["RR104"])] == [1, 2, 3, 4, 5]
        files[0].unlink()
        (found,) = check_dataset(root, only=["RR104"])
        assert "All 6 data files of this folder are missing" in found.message
        assert (found.file, found.episode) == ("data/chunk-000/episode_000000.parquet", None)

    def test_cameras_before_chunks_are_misplaced_not_missing(self, tmp_path):
        root = clean_dataset(tmp_path / "d", "v2.1")
        for path in sorted((root / "videos").glob("*/*/*.mp4")):
            chunk, camera, name = path.parts[-3:]
            (root / "videos" / camera / chunk).mkdir(parents=True, exist_ok=True)
            path.rename(root / "videos" / camera / chunk / name)
        (found,) = check_dataset(root, tier="metadata")
        assert found.code == "RR110"
        assert str(found).startswith("12 files lie in other folders than the path template says")

    def test_hidden_files_and_folders_are_no_orphans(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        for name in ("data/.recording/x.parquet", "data/chunk-000/.1.tmp-file-007.parquet"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(b"")
        assert len(check_dataset(root, tier="metadata")) == 0

    def test_snapshots_of_the_hub_are_links_and_clean(self, tmp_path):
        store = clean_dataset(tmp_path / "blobs")
        root = tmp_path / "snapshots" / "abc"
        for path in store.rglob("*"):
            if path.is_file():
                link = root / path.relative_to(store)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.path.relpath(path, link.parent))
        assert len(check_dataset(root, tier="metadata")) == 0

    def test_a_link_to_nowhere_is_a_missing_file(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        path = root / Folder(root).data(2)
        path.unlink()
        path.symlink_to(root / "data" / "nowhere.parquet")
        assert codes(check_dataset(root, tier="metadata")) == {"RR104"}


class TestRows:
    def test_rows_of_episodes_that_are_not_listed_are_a_warning(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        folder = Folder(root)
        file = folder.data(5)
        groups = folder.row_groups(file)
        stranger = groups[-1].set_column(
            groups[-1].schema.get_field_index("episode_index"),
            "episode_index",
            pa.array([77] * len(groups[-1])),
        )
        folder.write_row_groups(file, [*groups, stranger])
        findings = check_dataset(root, only=["RR202", "RR204"])
        assert [(found.code, found.severity) for found in findings] == [("RR204", "warning")]
        assert "name episode 77" in str(findings[0])

    def test_an_episode_in_two_pieces_is_not_its_own(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        folder = Folder(root)
        file = folder.data(2)
        first, second = folder.row_groups(file)
        pieces = [first.slice(0, 5), second, first.slice(5)]
        folder.write_row_groups(file, pieces)
        assert {found.episode for found in check_dataset(root, only=["RR204"])} == {2, 3}

    def test_frames_that_start_late_or_twice_say_so(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        folder = Folder(root)
        folder.edit_column(1, "frame_index", lambda values: [value + 1 for value in values])
        folder.edit_column(2, "frame_index", lambda values: [*values[:3], 2, *values[4:]])
        folder.edit_column(3, "frame_index", lambda values: [*values[:3], 50, *values[4:]])
        says = {found.episode: str(found) for found in check_dataset(root, only=["RR206"])}
        assert says[1].startswith("Frames are counted from 1, not from 0,")
        assert says[2].startswith("Frames are counted twice")
        assert says[3].startswith("Frames are left out")

    def test_an_unreadable_row_group_hides_nothing_else(self, tmp_path):
        from tests.surgery import damage_page

        root = clean_dataset(tmp_path / "d")
        folder = Folder(root)
        folder.edit_column(3, "task_index", lambda values: [99] * len(values))
        damage_page(root / folder.data(2), 0, "episode_index")
        findings = check_dataset(root, tier="numbers")
        assert {("RR213", 2), ("RR207", 3)} <= {(f.code, f.episode) for f in findings}

    @pytest.mark.parametrize("limit", [1, 700, 3000])
    def test_blocks_of_any_size_tell_the_same(self, limit, tmp_path, monkeypatch):
        root = clean_dataset(tmp_path / "d", episodes_per_file=6)
        folder = Folder(root)
        folder.edit_column(2, "action", lambda values: [*values[:-1], [np.nan] * 6])
        folder.edit_episode_stats(4, "action", mean=[9.0] * 6)
        path = root / folder.data(0)
        table = pq.read_table(path)
        expected = list(check_dataset(root, tier="numbers"))
        assert {"RR601", "RR506"} <= codes(expected)
        monkeypatch.setattr("roboreel.check.data_file._BLOCK_BYTES", limit)
        assert list(check_dataset(root, tier="numbers")) == expected
        pq.write_table(table, path, row_group_size=13)
        assert list(check_dataset(root, tier="numbers")) == expected
        pq.write_table(table, path)
        assert list(check_dataset(root, tier="numbers")) == expected


class TestColumns:
    def test_what_is_wrong_in_all_files_is_said_once(self, tmp_path):
        root = clean_dataset(tmp_path / "d", "v2.1")
        Folder(root).edit_feature("action", shape=[7], names=None)
        (found,) = check_dataset(root, only=["RR210"])
        assert str(found) == (
            "'action' has values of shape (6,), but float32 of shape (7,) is declared, in 6 data "
            "files."
        )

    def test_counters_that_can_be_derived_are_a_note(self, tmp_path):
        root = clean_dataset(tmp_path / "d", "v2.1")
        for path in root.glob("data/**/*.parquet"):
            pq.write_table(pq.read_table(path).drop_columns(["frame_index", "index"]), path)
        findings = check_dataset(root, only=["RR2"])
        assert {(f.code, f.feature, f.severity) for f in findings} == {
            ("RR211", "frame_index", "note"),
            ("RR211", "index", "note"),
        }

    def test_whole_doubles_for_integers_are_a_note_and_fractions_an_error(self, tmp_path):
        feature = {"mode": Feature("int64", (1,))}
        write_dataset(tmp_path, [4], features=feature)
        path = next(tmp_path.glob("data/**/*.parquet"))
        table = pq.read_table(path)
        place = table.schema.get_field_index("mode")
        for values, severity in (([1.0, 2, 3, 4], "note"), ([1.5, 2, 3, 4], "error")):
            pq.write_table(table.set_column(place, "mode", pa.array(values)), path)
            (found,) = check_dataset(tmp_path, only=["RR210"])
            assert found.severity == severity

    @pytest.mark.parametrize(
        ("dtype", "values"),
        [
            ("int8", np.array([1, 2, 3, 400])),
            ("uint8", np.array([1, 2, 3, -4])),
            ("int64", np.array([1, 2, 3, 2**63], np.uint64)),
            ("int8", np.array([1.0, 2, 3, 400])),
            ("int64", np.array([1.0, 2, 3, 2.0**60])),
        ],
    )
    def test_numbers_that_reading_refuses_are_an_error(self, dtype, values, tmp_path):
        write_dataset(tmp_path, [4], features={"mode": Feature(dtype, (1,))})
        path = next(tmp_path.glob("data/**/*.parquet"))
        table = pq.read_table(path)
        place = table.schema.get_field_index("mode")
        pq.write_table(table.set_column(place, "mode", pa.array(values)), path)
        with pytest.raises(CorruptFileError):
            reel.open_dataset(tmp_path).read([0], ["mode"])
        (found,) = check_dataset(tmp_path, only=["RR210"])
        assert found.severity == "error"
        assert "cannot hold them all" in str(found)


class TestTime:
    def test_long_episodes_in_float32_are_on_time(self, tmp_path):
        write_dataset(tmp_path, [60_000], features={}, fps=10)
        assert len(check_dataset(tmp_path, only=["RR3"], tier="numbers")) == 0

    def test_timestamps_of_the_clock_do_not_start_at_0(self, tmp_path):
        root = clean_dataset(tmp_path / "d", "v2.1")
        folder = Folder(root)
        folder.edit_column(1, "timestamp", lambda values: [value + 100 for value in values])
        (found,) = check_dataset(root, only=["RR3"], tier="numbers")
        assert (found.code, found.episode) == ("RR303", 1)
        assert "start at 100.0000 s, not at 0" in str(found)

    def test_without_video_a_jump_is_a_warning(self, tmp_path):
        root = clean_dataset(tmp_path / "d", store="image")
        folder = Folder(root)
        folder.edit_column(1, "timestamp", lambda v: [*v[:5], *(value + 1 for value in v[5:])])
        (found,) = check_dataset(root, only=["RR3"], tier="numbers")
        assert (found.code, found.severity, found.rows) == ("RR301", "warning", (25, 26))


class TestStatistics:
    def test_nan_in_stored_statistics_of_an_episode_is_found(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        Folder(root).edit_episode_stats(3, "action", std=[float("nan")] * 6)
        (found,) = check_dataset(root, only=["RR506"])
        assert (found.episode, found.feature, found.severity) == (3, "action", "warning")

    def test_where_episodes_have_the_only_statistics_a_wrong_one_is_an_error(self, tmp_path):
        root = clean_dataset(tmp_path / "d", "v2.1")
        Folder(root).edit_episode_stats(3, "action", max=[9.0] * 6)
        (found,) = check_dataset(root, only=["RR5"], tier="numbers")
        assert (found.code, found.severity) == ("RR506", "error")

    def test_statistics_over_the_last_axis_are_right_too(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        folder = Folder(root)
        stats = json.loads((root / folder.stats_file).read_text())["observation.pose"]
        low, high, mean, std = (np.array(stats[key]) for key in ("min", "max", "mean", "std"))
        pooled = np.sqrt((std**2 + (mean - mean.mean(0)) ** 2).mean(0))
        quantiles = {key: np.mean(stats[key], axis=0).tolist() for key in ("q01", "q10", "q50")}
        quantiles |= {key: np.mean(stats[key], axis=0).tolist() for key in ("q90", "q99")}
        folder.edit_stats(
            "observation.pose",
            min=low.min(0).tolist(),
            max=high.max(0).tolist(),
            mean=mean.mean(0).tolist(),
            std=pooled.tolist(),
            **quantiles,
        )
        assert len(check_dataset(root, only=["RR5"], tier="numbers")) == 0

    def test_unreadable_rows_leave_statistics_unchecked(self, tmp_path):
        root = clean_dataset(tmp_path / "d")
        (root / Folder(root).data(0)).unlink()
        findings = check_dataset(root, tier="numbers")
        assert findings.not_checked["RR501"] == "Some data files cannot be read."
        assert "RR506" in findings.checked


class TestContent:
    def test_nan_names_the_joint_and_the_rows(self, tmp_path):
        root = clean_dataset(tmp_path / "d")

        def spoil(values):
            for row in (4, 6):
                values[row][2] = np.nan
            return values

        Folder(root).edit_column(3, "action", spoil)
        (found,) = check_dataset(root, only=["RR601"])
        start = sum(LENGTHS[:3])
        assert found.rows == (start + 4, start + 7)
        assert str(found) == ("'action' (joint_2) is NaN in 2 rows of episode 3, first at frame 4.")

    def test_a_gripper_at_its_two_limits_is_not_saturated(self, tmp_path):
        write_dataset(tmp_path, [60], features={"action": Feature("float32", (2,))})
        path = next(tmp_path.glob("data/**/*.parquet"))
        table = pq.read_table(path)
        rows = np.arange(60)
        values = np.stack([rows % 2, np.minimum(rows, 30)], axis=1).astype(np.float32)
        action = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 2)
        place = table.schema.get_field_index("action")
        pq.write_table(table.set_column(place, "action", action), path)
        (found,) = check_dataset(tmp_path, only=["RR604"])
        assert str(found) == "'action' (1) is at its greatest value, 30, in 50% of all rows."
