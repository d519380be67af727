"""The makers of clean, corrupt and wild datasets make what they say."""

import hashlib

import av
import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from tests.clean import (
    CAMERAS,
    LENGTHS,
    NUM_ROWS,
    VERSIONS,
    clean_dataset,
    film,
    rows_of,
    shown,
    task_of,
)
from tests.corruptions import CORRUPTIONS, THE_SIXTEEN
from tests.video_factory import number_of
from tests.wild import WILD
from tests.wild_videos import rotate

WILD_CASES = [(wild, version) for wild in WILD for version in wild.versions]
CASES = [(corruption, version) for corruption in CORRUPTIONS for version in corruption.versions]


def named(name):
    return next(corruption for corruption in CORRUPTIONS if corruption.name == name)


def contents(root):
    return {
        str(path.relative_to(root)): (
            path.is_symlink(),
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("store", ["video", "image"])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_row_and_image_of_the_clean_dataset_tells_its_number(version, store, tmp_path):
    dataset = reel.open_dataset(clean_dataset(tmp_path / "clean", version, store=store))
    assert dataset.problems == ()
    assert dataset.episodes.lengths.tolist() == list(LENGTHS)
    values = dataset.read(np.arange(NUM_ROWS), [*CAMERAS, "observation.state", "task"])
    assert values["observation.state"][:, 0].tolist() == list(range(NUM_ROWS))
    assert list(values["task"]) == [task_of(row) for row in range(NUM_ROWS)]
    for camera in CAMERAS:
        images = values[camera].transpose(0, 2, 3, 1)
        assert [number_of(image) for image in images] == shown(camera, range(NUM_ROWS))


def test_two_copies_of_a_clean_dataset_are_equal(tmp_path):
    first, second = (clean_dataset(tmp_path / name) for name in "ab")
    assert contents(first) == contents(second)


@pytest.mark.parametrize(("corruption", "version"), CASES, ids=lambda case: str(case))
def test_a_corruption_changes_files_and_names_one_of_them(corruption, version, tmp_path):
    root = clean_dataset(tmp_path / "clean", version)
    before = contents(root)
    place = corruption.apply(root)
    assert contents(root) != before
    assert place.files or place.episodes
    assert set(place.episodes) <= set(range(len(LENGTHS)))
    known = {*before, *contents(root)}
    folders = {folder for file in known for folder in file.split("/")[:1]}
    assert set(place.files) <= known | folders


def test_the_sixteen_are_among_the_corruptions_and_names_are_unique():
    names = [corruption.name for corruption in CORRUPTIONS]
    assert len(names) == len(set(names))
    assert set(THE_SIXTEEN) <= set(names)
    assert len(THE_SIXTEEN) == 16
    assert len(names) >= 36


def test_a_damaged_page_leaves_the_neighbours_readable(tmp_path):
    place = named("damaged-page").apply(clean_dataset(tmp_path / "clean"))
    with pq.ParquetFile(tmp_path / "clean" / place.files[0]) as file:
        assert file.read_row_group(0).num_rows == LENGTHS[2]
        assert file.read_row_group(1, ["timestamp"]).num_rows == LENGTHS[3]
        with pytest.raises(OSError, match="page header"):
            file.read_row_group(1, ["action"])


def test_row_groups_are_whole_without_the_footer(tmp_path):
    root = clean_dataset(tmp_path / "clean")
    before = (root / "data/chunk-000/file-002.parquet").read_bytes()
    place = named("parquet-without-footer").apply(root)
    after = (root / place.files[0]).read_bytes()
    assert before.startswith(after)
    assert not after.endswith(b"PAR1")
    assert len(after) > len(before) // 2


def test_a_shifted_video_shows_the_same_images_later(tmp_path):
    place = named("video-starts-half-a-second-late").apply(clean_dataset(tmp_path / "a", "v2.1"))
    with av.open(str(tmp_path / "a" / place.files[0])) as container:
        frames = list(container.decode(video=0))
    assert frames[0].time == pytest.approx(0.5, abs=0.001)
    numbers = [number_of(frame.to_ndarray(format="rgb24")) for frame in frames]
    assert numbers == shown(CAMERAS[1], rows_of(2))


def test_a_rotated_video_says_so_and_stores_the_same_images(tmp_path):
    film(tmp_path / "a.mp4", CAMERAS[0], range(4))
    rotate(tmp_path / "a.mp4")
    with av.open(str(tmp_path / "a.mp4")) as container:
        frames = list(container.decode(video=0))
    assert {frame.rotation % 180 for frame in frames} == {90}
    assert [number_of(frame.to_ndarray(format="rgb24")) for frame in frames] == [0, 1, 2, 3]


@pytest.mark.parametrize(("wild", "version"), WILD_CASES, ids=lambda case: str(case))
def test_a_wild_dataset_says_what_is_true_for_each_row(wild, version, tmp_path):
    truth = wild.make(tmp_path / "wild", version)
    assert (tmp_path / "wild").is_dir()
    assert wild.write.__doc__
    expected = NUM_ROWS if truth.opens else 0
    assert len(truth.rows) == len(truth.tasks) == expected
    assert all(len(numbers) == expected for numbers in truth.images.values())
    assert truth.opens or truth.says


def test_every_point_of_the_issue_has_a_wild_dataset():
    assert {wild.point for wild in WILD} == {f"A{number}" for number in range(1, 11)}
