"""Compaction: fewer files, the same dataset."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roboreel as reel
from roboreel.commit import Commit
from roboreel.errors import UnsupportedVersionError
from roboreel.findings import finding
from roboreel.format import limits, read_manifest
from roboreel.record import compact
from roboreel.record.compact import compact_dataset, group_tail, plan_compaction
from tests.factory import edit_info, write_dataset_v2
from tests.recordings import CAMERAS, FPS, check_dataset, decoded, features, frame, record

LENGTHS = [3, 1, 4, 2, 5]


def write(root: Path, store: str | None = "image", lengths: list[int] = LENGTHS) -> None:
    encoding = reel.Encoding("h264") if store == "video" else None
    with reel.create_dataset(
        root, fps=FPS, features=features(store), encoding=encoding, compact_on_close=False
    ) as recorder:
        for episode, length in enumerate(lengths):
            record(recorder, episode, length)
            recorder.save_episode()


def files(root: Path) -> list[int]:
    kinds = ("data", "meta/episodes", "videos")
    return [sum(path.is_file() for path in (root / kind).rglob("*.*")) for kind in kinds]


@given(st.lists(st.integers(0, 120), max_size=12), st.integers(1, 100))
def test_groups_are_the_tail_in_order_and_within_the_limit(sizes, limit):
    groups = group_tail(sizes, limit)
    listed = [file for group in groups for file in group]
    assert listed == list(range(len(sizes) - len(listed), len(sizes)))
    for group in groups:
        assert sum(sizes[file] for file in group) <= limit
    before = len(sizes) - len(listed) - 1
    assert before < 0 or sizes[before] * 2 >= limit
    for first, second in pairwise(groups):  # no group could take one more
        assert sum(sizes[file] for file in (*first, second[0])) > limit


@pytest.mark.parametrize("store", ["image", "video", None])
def test_small_files_become_one_of_each_kind(tmp_path, store):
    root = tmp_path / "d"
    write(root, store)
    before = reel.open_dataset(root).stats
    cameras = 2 if store == "video" else 0
    assert files(root) == [5, 5, 5 * cameras]
    plan = compact_dataset(root, dry_run=True)
    assert files(root) == [5, 5, 5 * cameras]
    assert compact_dataset(root) == plan
    assert files(root) == [1, 1, cameras]
    assert check_dataset(root, LENGTHS).problems == ()
    after = reel.open_dataset(root).stats
    assert all(after[name] == stats for name, stats in before.items())
    assert not compact_dataset(root)


def test_joining_many_files_holds_one_at_a_time(tmp_path):
    for number in range(24):
        values = np.random.default_rng(number).bytes(4_000_000)
        pq.write_table(pa.table({"picture": [values]}), tmp_path / f"{number:02}.parquet")
    program = """
import sys
from pathlib import Path
import pyarrow as pa
from roboreel.parquet.writing import join_parquet
join_parquet(sorted(Path(sys.argv[1]).glob("*.parquet")), Path(sys.argv[1]) / "joined")
print(pa.default_memory_pool().max_memory())
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    most = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert pq.read_metadata(tmp_path / "joined").num_rows == 24
    assert most < 60_000_000  # All of them take 96 MB.


def test_the_images_stay_at_their_times(tmp_path):
    write(tmp_path / "d", "video")
    compact_dataset(tmp_path / "d")
    table = read_manifest(tmp_path / "d").episodes
    for camera in CAMERAS:
        (path,) = (tmp_path / "d" / "videos" / camera).rglob("*.mp4")
        grey = decoded(path)
        for episode, length in enumerate(LENGTHS):
            start = round(table.clips[camera].start_s[episode] * FPS)
            expected = [frame(episode, i)[camera][0, 0, 0] for i in range(length)]
            assert np.abs(np.subtract(grey[start : start + length], expected)).max() <= 2


@pytest.mark.parametrize("store", ["image", "video"])
def test_files_stay_within_the_limits_and_recording_goes_on(tmp_path, store, monkeypatch):
    root = tmp_path / "d"
    write(root, store)
    sizes = [path.stat().st_size for path in sorted((root / "data").rglob("*.parquet"))]
    # So small that two data files fit into one, and no three.
    monkeypatch.setattr(limits, "_MEGABYTE", 1)
    edit_info(root, data_files_size_in_mb=int(max(sizes) * 2.4))
    plan = compact_dataset(root)
    assert [len(group) for group in plan.data] == [2, 2, 1]
    assert check_dataset(root, LENGTHS).problems == ()
    with reel.resume_dataset(root, compact_on_close=False) as recorder:
        record(recorder, 5, 2)
        recorder.save_episode()
    assert check_dataset(root, [*LENGTHS, 2]).problems == ()


def test_a_joined_file_has_the_name_of_its_first_part_and_begins_with_it(tmp_path):
    write(tmp_path / "d", "video")
    reader = reel.open_dataset(tmp_path / "d")  # follows the old metadata
    compact_dataset(tmp_path / "d")
    values = reader.read(np.arange(3), ["observation.state", "index"])
    assert values["index"].tolist() == [0, 1, 2]


def test_large_files_and_what_lies_before_them_stay(tmp_path, monkeypatch):
    root = tmp_path / "d"
    write(root, None, [2, 60, 2, 2])
    sizes = [path.stat().st_size for path in sorted((root / "data").rglob("*.parquet"))]
    monkeypatch.setattr(limits, "_MEGABYTE", 1)
    edit_info(root, data_files_size_in_mb=sizes[1] * 2 - 100)
    assert sizes[1] * 2 >= sizes[1] * 2 - 100 > sizes[0] * 2
    plan = compact_dataset(root)
    names = [f"data/chunk-000/file-{number:03d}.parquet" for number in range(4)]
    assert plan.data == ((names[2], names[3]),)
    assert check_dataset(root, [2, 60, 2, 2]).problems == ()


def test_videos_of_another_encoding_are_not_joined(tmp_path):
    root = tmp_path / "d"
    write(root, "video", [2, 2])
    other = reel.Encoding("h264", crf=40, options={"refs": "3"})
    with reel.resume_dataset(root, encoding=other, compact_on_close=False) as recorder:
        for episode in (2, 3):
            record(recorder, episode, 2)
            recorder.save_episode()
    plan = compact_dataset(root)
    assert [len(group) for group in plan.videos[CAMERAS[0]]] in ([2, 2], [4])
    assert check_dataset(root, [2, 2, 2, 2]).problems == ()


def test_a_table_of_other_columns_is_left_as_it_is(tmp_path):
    import pyarrow.parquet as pq

    root = tmp_path / "d"
    write(root, "image", [2, 2, 2, 2])
    for number in (0, 1):
        path = root / f"meta/episodes/chunk-000/file-{number:03d}.parquet"
        table = pq.read_table(path)
        pq.write_table(table.append_column("mood", [["good"]]), path)
    plan = compact_dataset(root)
    assert [len(group) for group in plan.data] == [2]
    assert len(plan.episodes) == 2
    check_dataset(root, [2, 2, 2, 2])


def test_what_is_not_in_order_or_has_problems_is_left_alone(tmp_path):
    root = tmp_path / "d"
    write(root, None)
    manifest = read_manifest(root)
    assert plan_compaction(manifest)
    assert not plan_compaction(
        replace(manifest, problems=(finding("RR203", "Something is wrong."),))
    )
    swapped = replace(manifest.episodes, data_file=manifest.episodes.data_file[::-1].copy())
    assert not plan_compaction(replace(manifest, episodes=swapped))


def test_other_versions_have_nothing_to_join(tmp_path):
    write_dataset_v2(tmp_path / "d", [2])
    with pytest.raises(UnsupportedVersionError):
        compact_dataset(tmp_path / "d")


def test_recording_day_after_day_keeps_one_file(tmp_path):
    root = tmp_path / "d"
    with reel.create_dataset(root, fps=FPS, features=features("image")) as recorder:
        record(recorder, 0, 2)
        recorder.save_episode()
    for episode in range(1, 4):
        with reel.resume_dataset(root) as recorder:
            record(recorder, episode, 2)
            recorder.save_episode()
        assert files(root) == [1, 1, 0]
    check_dataset(root, [2] * 4)


def test_a_failed_compaction_is_a_warning_and_harms_nothing(tmp_path):
    root = tmp_path / "d"
    write(root, "video")
    recorder = reel.resume_dataset(root)
    broken = next((root / "videos" / CAMERAS[0]).rglob("*.mp4"))
    shutil.copy(broken, tmp_path / "whole.mp4")
    broken.write_bytes(b"noise")
    with pytest.warns(UserWarning, match="The small files were not joined"):
        recorder.close()
    shutil.copy(tmp_path / "whole.mp4", broken)
    check_dataset(root, LENGTHS)
    assert json.loads((root / "meta" / "info.json").read_text())["total_episodes"] == 5


def test_the_old_table_leaves_before_the_files_that_it_names(tmp_path, monkeypatch):
    """Otherwise an error between the two removals leaves a table of files that are gone."""
    removed = []

    class Watched(Commit):
        def remove(self, target):
            removed.append(target.split("/")[0])
            super().remove(target)

    write(tmp_path / "d", "video", [2, 2, 1])
    monkeypatch.setattr(compact, "Commit", Watched)
    compact_dataset(tmp_path / "d")
    assert removed == sorted(removed, key=("meta", "data", "videos").index)
    assert set(removed) == {"meta", "data", "videos"}
