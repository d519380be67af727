"""Datasets of the wild are read as they are: each value is the row's own, or an error says why not."""

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import DatasetError
from tests.clean import CAMERAS, NUM_ROWS
from tests.video_factory import number_of
from tests.wild import WILD

CASES = [(wild, version) for wild in WILD for version in wild.versions]


def read_one(dataset, row, feature):
    """Return a value of one row, or the error that says why there is none."""
    try:
        return dataset.read([row], [feature], layout="hwc")[feature][0]
    except DatasetError as error:
        return error


def read_rows(dataset, feature):
    """Return what each row has: at once, and row by row if there is an error."""
    try:
        return list(dataset.read(np.arange(NUM_ROWS), [feature], layout="hwc")[feature])
    except DatasetError:
        return [read_one(dataset, row, feature) for row in range(NUM_ROWS)]


def compare(values, truth, expected, meaning):
    """Check each row against what is true."""
    assert len(values) == len(expected) == NUM_ROWS
    for row, (value, true) in enumerate(zip(values, expected, strict=True)):
        if isinstance(value, DatasetError):
            assert true is None or row in truth.refusable, (row, value)
            assert not truth.says or any(said in str(value) for said in truth.says), value
        else:
            assert meaning(value) == true, row


@pytest.mark.parametrize(("wild", "version"), CASES, ids=str)
def test_every_row_of_a_wild_dataset_is_its_own(wild, version, tmp_path):
    truth = wild.make(tmp_path / "wild", version)
    if not truth.opens:
        with pytest.raises(DatasetError) as raised:
            reel.open_dataset(tmp_path / "wild")
        assert all(said in str(raised.value) for said in truth.says)
        return
    dataset = reel.open_dataset(tmp_path / "wild")
    compare(read_rows(dataset, "observation.state"), truth, truth.rows, lambda v: int(v[0]))
    compare(read_rows(dataset, "task"), truth, truth.tasks, str)
    for camera in CAMERAS:
        images = read_rows(dataset, camera)
        compare(images, truth, truth.images[camera], lambda image: number_of(image[..., :3]))
