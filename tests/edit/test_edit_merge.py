"""Datasets merged, converted and split: by copying, and equal to the last bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import roboreel as reel
from roboreel.edit import (
    edit_dataset,
    plan_conversion,
    plan_merge,
    plan_split,
    verify_copy,
)
from roboreel.errors import EditError, NotADatasetError
from roboreel.format.statistics import read_episode_stats
from tests.clean import FRONT, LENGTHS, VERSIONS, clean_dataset
from tests.edit.edited import Expected, check_edited, row_groups

WHOLE = [Expected(e, 0, n) for e, n in enumerate(LENGTHS)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("store", ["video", "image"])
def test_a_merge_has_the_episodes_of_all(version, store, tmp_path):
    first = clean_dataset(tmp_path / "a", version, store=store)
    second = clean_dataset(tmp_path / "b", version, store=store)
    edit_dataset(second).delete([0, 3]).set_task([1], "fold the cloth").apply()
    plan = plan_merge([first, second], tmp_path / "out")
    assert {one.how for one in plan.files} <= {"copied", "rewritten"}
    plan.apply()
    verify_copy(plan)
    out = tmp_path / "out"
    check_edited(first, out, WHOLE)
    rest = [
        Expected(e, 0, int(n)) for e, n in enumerate(reel.open_dataset(second).episodes.lengths)
    ]
    check_edited(second, out, rest, first=len(WHOLE))
    assert "fold the cloth" in reel.open_dataset(out).manifest.tasks.values()
    assert json.loads((out / "meta/info.json").read_text())["splits"] == {"train": "0:10"}


@pytest.mark.parametrize("version", ["v3.0", "v2.0"])
def test_statistics_of_a_merge_equal_those_of_the_values(version, tmp_path):
    first = clean_dataset(tmp_path / "a", version)
    second = clean_dataset(tmp_path / "b", version)
    edit_dataset(second).delete([1]).apply()
    plan_merge([first, second], tmp_path / "out").apply()
    merged = reel.open_dataset(tmp_path / "out")
    computed = merged.compute_stats()
    for name in ("action", "observation.state", "index", "episode_index", "task_index"):
        for key in ("min", "max", "mean", "std"):
            stored, right = getattr(merged.stats[name], key), getattr(computed[name], key)
            assert np.allclose(stored, right.reshape(stored.shape)), (name, key)
        for key, stored in merged.stats[name].quantiles.items():
            assert np.allclose(stored, computed[name].quantiles[key].reshape(stored.shape))


@pytest.mark.parametrize(("first", "second"), [("v3.0", "v2.1"), ("v2.1", "v3.0")])
def test_datasets_of_different_versions_are_merged(first, second, tmp_path):
    one = clean_dataset(tmp_path / "a", first)
    other = clean_dataset(tmp_path / "b", second)
    plan = plan_merge([one, other], tmp_path / "out")
    plan.apply()
    verify_copy(plan)
    check_edited(one, tmp_path / "out", WHOLE)
    check_edited(other, tmp_path / "out", WHOLE, first=len(WHOLE))


def test_what_differs_is_renamed_dropped_or_padded_as_told(tmp_path):
    first, second = clean_dataset(tmp_path / "a"), clean_dataset(tmp_path / "b")
    edit_dataset(second).rename(FRONT, "observation.images.top").remove("observation.pose").apply()
    edit_dataset(second).remove("observation.temperature").apply()
    edit_dataset(first).remove("next.done").apply()
    out = tmp_path / "out"
    with pytest.raises(EditError, match="rename a feature"):
        plan_merge([first, second], out)
    rename = {"observation.images.top": FRONT}
    with pytest.raises(EditError, match=r"observation\.pose"):
        plan_merge([first, second], out, rename=rename)
    pad = {"observation.temperature": 20.0, "next.done": 0.0}
    plan_merge([first, second], out, rename=rename, drop=["observation.pose"], pad=pad).apply()
    names = {"observation.pose": None}
    check_edited(first, out, WHOLE, names=names, added=["next.done"])
    merged = reel.open_dataset(out)
    assert set(merged.episodes[7]["observation.temperature"].tolist()) == {20.0}
    assert not merged.episodes[0]["next.done"].any()
    assert merged.episodes[6]["next.done"].tolist() == [False] * 19 + [True]
    stats = dict(read_episode_stats(merged.manifest))
    assert stats[7]["observation.temperature"].mean.item() == 20.0
    with pytest.raises(EditError, match="only numbers can"):
        plan_merge([first, second], out, drop=["observation.pose"], pad={**pad, FRONT: 0})


def test_different_codecs_stay_in_files_of_their_own(tmp_path):
    first = clean_dataset(tmp_path / "a", "v2.1")
    second = clean_dataset(tmp_path / "b", "v2.1")
    coarse = reel.Encoding("h264", keyframe_distance=5)
    edit_dataset(second).reencode(FRONT, coarse).resize(FRONT, 24, 32).apply()
    with pytest.raises(EditError, match=r"\[48, 64, 3\].*\[24, 32, 3\]"):
        plan_merge([first, second], tmp_path / "out")
    edit_dataset(second).resize(FRONT, 48, 64).apply()
    plan_conversion(first, "3.0", tmp_path / "a3").apply()
    plan = plan_merge([tmp_path / "a3", second], tmp_path / "out")
    plan.apply()
    verify_copy(plan)
    assert len(list((tmp_path / "out/videos" / FRONT).rglob("*.mp4"))) == 2


def test_different_rates_are_refused_unless_resampled(tmp_path):
    first, second = clean_dataset(tmp_path / "a"), clean_dataset(tmp_path / "b")
    edit_dataset(second).resample(15).apply()
    with pytest.raises(EditError, match="different frames per second"):
        plan_merge([first, second], tmp_path / "out")
    plan_merge([first, second], tmp_path / "out", fps=15).apply()
    merged = reel.open_dataset(tmp_path / "out")
    assert merged.fps == 15
    halves = [-(-n // 2) for n in LENGTHS]
    assert merged.episodes.lengths.tolist() == halves * 2
    rows = reel.open_dataset(first).episodes[2]["observation.state"][::2]
    assert np.array_equal(merged.episodes[2]["observation.state"], rows)


@pytest.mark.parametrize("store", ["video", "image"])
@pytest.mark.parametrize("old", VERSIONS)
@pytest.mark.parametrize("new", VERSIONS)
def test_a_conversion_copies_every_row_and_packet(old, new, store, tmp_path):
    if old == new:
        return
    root = clean_dataset(tmp_path / "d", old, store=store)
    (root / "meta/modality.json").write_text("{}")
    plan = plan_conversion(root, new, tmp_path / "out")
    assert "re-encoded" not in {one.how for one in plan.files}
    plan.apply()
    verify_copy(plan)
    out = tmp_path / "out"
    check_edited(root, out, WHOLE)
    assert reel.open_dataset(out).version == new
    assert (out / "meta/modality.json").exists()
    if new == "v3.0":
        assert row_groups(out) == list(LENGTHS)
        assert len(list((out / "data").rglob("*.parquet"))) == (1 if old != "v3.0" else 3)
    back = plan_conversion(out, old, tmp_path / "back")
    back.apply()
    verify_copy(back)
    check_edited(root, tmp_path / "back", WHOLE)


def test_a_converted_episode_has_statistics_of_its_values_and_images(tmp_path):
    root = clean_dataset(tmp_path / "d", "v2.0")
    plan_conversion(root, "2.1", tmp_path / "out").apply()
    stats = dict(read_episode_stats(reel.open_dataset(tmp_path / "out").manifest))
    right = dict(
        read_episode_stats(reel.open_dataset(clean_dataset(tmp_path / "c", "v2.1")).manifest)
    )
    assert np.allclose(stats[2]["action"].mean, right[2]["action"].mean)
    sampled = reel.open_dataset(root).episodes[2][FRONT][::10]  # three in a second
    assert np.allclose(stats[2][FRONT].mean.reshape(-1), sampled.mean(axis=(0, 2, 3)) / 255)


def test_a_clip_behind_a_deleted_one_is_cut_out_for_v2(tmp_path):
    root = clean_dataset(tmp_path / "d")
    clean = clean_dataset(tmp_path / "clean")
    edit_dataset(root).delete([0, 2]).apply()
    plan = plan_conversion(root, "2.1", tmp_path / "out")
    plan.apply()
    verify_copy(plan)
    check_edited(clean, tmp_path / "out", [WHOLE[e] for e in (1, 3, 4, 5)])


def test_an_edit_list_hides_what_is_before_a_clip_that_starts_between_keyframes(tmp_path):
    root, clean = clean_dataset(tmp_path / "d"), clean_dataset(tmp_path / "clean")
    edit_dataset(root).trim(1, start=3).apply()
    plan = plan_conversion(root, "2.1", tmp_path / "out")
    plan.apply()
    verify_copy(plan)
    check_edited(clean, tmp_path / "out", [WHOLE[0], Expected(1, 3, 12), *WHOLE[2:]])


def test_hidden_images_are_not_scrubbed_images(tmp_path):
    root = clean_dataset(tmp_path / "d", "v2.1")
    edit = edit_dataset(root).trim(1, start=3).scrub()
    with pytest.raises(EditError, match="a lossless cut can start at the frames 0, 2, 4"):
        edit.plan()
    plan = edit.allow_reencoding().plan()
    assert [one.pieces for one in plan.files if one.how == "re-encoded"] == [(1,), (1,)]
    plan.apply()
    table = reel.open_dataset(root).frame_reader.videos.table(
        root / f"videos/chunk-000/{FRONT}/episode_000001.mp4"
    )
    assert len(table.size) == LENGTHS[1] - 3


def test_a_split_shares_out_all_episodes(tmp_path):
    root = clean_dataset(tmp_path / "d")
    plans = plan_split(root, {"train": 0.5, "val": 0.5}, tmp_path / "parts", seed=3)
    for plan in plans.values():
        plan.apply()
        verify_copy(plan)
    lengths = [
        int(n)
        for name in plans
        for n in reel.open_dataset(tmp_path / "parts" / name).episodes.lengths
    ]
    assert sorted(lengths) == sorted(LENGTHS)


def test_a_linked_copy_shares_bytes_only_when_asked(tmp_path):
    root = clean_dataset(tmp_path / "d")
    video = "videos/observation.images.front/chunk-000/file-000.mp4"
    for link in (False, True):
        out = tmp_path / f"out{link}"
        edit_dataset(root).delete([5]).apply(out=out, link=link)
        assert (out / video).samefile(root / video) is link


def test_scrubbed_images_are_gone_from_the_file_and_from_the_store(tmp_path):
    root = clean_dataset(tmp_path / "d")
    clean = clean_dataset(tmp_path / "clean")
    edit_dataset(root).delete([4]).apply()
    edit_dataset(root).delete([1]).scrub().apply()
    check_edited(clean, root, [WHOLE[e] for e in (0, 2, 3, 5)])
    assert not list((root / ".roboreel").rglob("*.mp4"))
    videos = reel.open_dataset(root).frame_reader.videos
    sizes = [len(videos.table(path).size) for path in (root / "videos" / FRONT).rglob("*.mp4")]
    assert sum(sizes) == sum(LENGTHS[e] for e in (0, 2, 3, 5))
    with pytest.raises(EditError, match="lossless cut"):
        edit_dataset(root).trim(1, start=1).scrub().plan()


def test_there_must_be_datasets_to_merge(tmp_path):
    root = clean_dataset(tmp_path / "d")
    with pytest.raises(EditError, match="two datasets or more"):
        plan_merge([root], tmp_path / "out")
    with pytest.raises(NotADatasetError):
        plan_merge([root, tmp_path / "nothing"], tmp_path / "out")
    shutil.rmtree(root / "meta")


def test_versions_that_do_not_exist_are_refused(tmp_path):
    with pytest.raises(EditError, match=r"no version '4\.0'"):
        plan_conversion(clean_dataset(tmp_path / "d"), "4.0", tmp_path / "out")


def num_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed on Linux")
@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_merge_of_many_datasets_keeps_only_a_few_of_them_open(version, tmp_path):
    source = clean_dataset(tmp_path / "a", version)
    before, most = num_open_files(), 0

    def watch(*_: object) -> None:
        nonlocal most
        most = max(most, num_open_files())

    plan = plan_merge([source] * 40, tmp_path / "out")
    watch()
    plan.apply(on_progress=watch)
    assert most - before < 3 * 8 + 6
    verify_copy(plan)
    assert len(reel.open_dataset(tmp_path / "out").episodes) == 40 * len(LENGTHS)
