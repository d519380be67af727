"""The makers of clean, corrupt and wild datasets make what they say."""

import hashlib

import numpy as np
import pytest

import roboreel as reel
from tests.clean import (
    CAMERAS,
    LENGTHS,
    NUM_ROWS,
    VERSIONS,
    clean_dataset,
    shown,
    task_of,
)
from tests.corruptions import CORRUPTIONS, THE_SIXTEEN
from tests.video_factory import number_of

CASES = [(corruption, version) for corruption in CORRUPTIONS for version in corruption.versions]


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
