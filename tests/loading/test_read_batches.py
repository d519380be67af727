"""Several batches read at once: images that they share are decoded once, and memory is not shared."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.loading import Loader, Samples
from roboreel.sample_spec import SampleSpec
from tests.factory import write_dataset
from tests.torch.test_torch import IMAGES

BATCHES = [np.array([0, 5, 3]), np.array([4, 5, 1, 9]), np.array([], np.int64), np.array([9])]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    spec = DemoSpec(episodes=2, frames=8, size=(64, 96))
    return make_demo_dataset(tmp_path_factory.mktemp("demo") / "d", spec)


@pytest.fixture(params=["pictures", "video", "video, resized"])
def opened(request, tmp_path, demo):
    if request.param == "pictures":
        write_dataset(tmp_path, [5, 6], features=IMAGES)
        return reel.open_dataset(tmp_path), None
    return reel.open_dataset(demo), (32, 32) if "resized" in request.param else None


@pytest.mark.parametrize("frames", [None, range(-1, 1)], ids=["rows", "windows"])
def test_batches_are_those_that_are_read_one_by_one(opened, frames):
    dataset, size = opened
    windows = {dataset.cameras[0]: frames} if frames else {}
    spec = SampleSpec(windows=windows, image_size=size)
    for found, samples in zip(dataset.read_batches(BATCHES, spec), BATCHES, strict=True):
        expected = dataset.read(samples, spec)
        assert list(found) == list(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, name)


def test_images_of_a_batch_do_not_keep_those_of_another_alive(opened):
    dataset, size = opened
    camera = dataset.cameras[0]
    batches = dataset.read_batches(BATCHES, SampleSpec(image_size=size))
    assert not np.shares_memory(batches[0][camera], batches[1][camera])
    other = weakref.ref(batches[1][camera])
    del batches[1]
    gc.collect()
    assert other() is None


def test_a_local_shuffle_holds_no_more_batches_than_it_reads_ahead(opened, monkeypatch):
    dataset, size = opened
    camera = dataset.cameras[0]
    made: list[weakref.ref[Any]] = []
    samples = Samples(dataset, image_size=size)
    read = samples.read_batches

    def counting(*given):
        batches = read(*given)
        made.extend(weakref.ref(batch[camera]) for batch in batches)
        return batches

    monkeypatch.setattr(samples, "read_batches", counting)
    for batch in Loader(samples, 1, shuffle="local", prefetch=4):
        assert sum(images() is not None for images in made) <= 5
        del batch


def test_one_encoded_picture_is_the_one_among_many(tmp_path):
    write_dataset(tmp_path, [5, 6, 4], features=IMAGES)
    dataset = reel.open_dataset(tmp_path)
    (camera,) = dataset.cameras
    for view in (dataset, dataset.select([0, 2]), dataset.select([1, 2])):
        every = view.encoded_images(camera, range(len(view)))
        for sample in range(-len(view), len(view)):
            assert view.encoded_images(camera, [sample]) == [every[sample]]
        for sample in (len(view), -len(view) - 1, 2**70):
            with pytest.raises(reel.errors.RowNotFoundError):
                view.encoded_images(camera, [sample])
    for wrong in ("action", "nothing"):
        with pytest.raises(
            reel.errors.FeatureNotFoundError, match="not a camera stored as pictures"
        ):
            dataset.encoded_images(wrong, [0])
