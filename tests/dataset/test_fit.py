"""Images brought to a size of other proportions."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roboreel as reel
from roboreel.image import box_of
from roboreel.schema import Feature
from tests.factory import NUMBERS, write_dataset
from tests.recordings import FPS, features, record

SIDES = st.integers(1, 2000)


@given(SIDES, SIDES, SIDES, SIDES)
def test_a_padded_image_keeps_its_proportions_in_the_middle(height, width, tall, wide):
    box = box_of((height, width), (tall, wide), "pad")
    scale = min(tall / height, wide / width)
    assert abs(box.size[0] - height * scale) <= 1
    assert abs(box.size[1] - width * scale) <= 1
    assert box.size[0] == tall or box.size[1] == wide
    assert box.size[0] <= tall
    assert box.size[1] <= wide
    for before, inner, outer in ((box.top, box.size[0], tall), (box.left, box.size[1], wide)):
        assert 0 <= outer - inner - 2 * before <= 1
    assert box_of((height, width), (tall, wide), "stretch").size == (tall, wide)


@pytest.fixture(scope="module", params=["image", "video"])
def dataset(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("fit") / "d"
    if request.param == "image":
        cameras = {**NUMBERS, "front": Feature("image", (8, 12, 3))}
        write_dataset(root, [3, 2], features=cameras)
    else:
        encoding = reel.Encoding("h264")
        with reel.create_dataset(
            root, fps=FPS, features=features("video", 1), encoding=encoding
        ) as recorder:
            record(recorder, 0, 5)
            recorder.save_episode()
    return reel.open_dataset(root)


@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_the_image_is_scaled_into_the_box_and_the_bars_are_black(dataset, layout):
    (camera,) = dataset.cameras
    height, width = dataset.features[camera].shape[:2]
    size = (2 * max(height, width), max(height, width))
    box = box_of((height, width), size, "pad")
    spec = reel.SampleSpec(camera, None, size, layout, "pad")
    padded = dataset.read([1, 2], spec)[camera]
    assert np.array_equal(list(dataset._reader.stream(camera, 0, spec))[1:3], padded)
    scaled = dataset.read([1, 2], reel.SampleSpec(camera, None, box.size, layout))[camera]
    inside = box.inside(padded, layout)
    assert np.array_equal(inside, scaled)
    assert scaled.any()
    inside[...] = 0
    assert not padded.any()


def test_a_spec_holds_its_fit():
    spec = reel.SampleSpec(image_size=(4, 4), fit="pad")
    assert pickle.loads(pickle.dumps(spec)) == spec != reel.SampleSpec(image_size=(4, 4))
    assert "fit='pad'" in repr(spec)
    with pytest.raises(ValueError, match="fit is 'stretch' or 'pad', not 'crop'"):
        reel.SampleSpec(fit="crop")  # type: ignore[arg-type]
