"""What to read of a sample, as one value."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import WindowError
from roboreel.sample_spec import SampleSpec, spec_of
from roboreel.schema import Feature
from roboreel.window import Window
from tests.factory import NUMBERS, write_dataset

CAMERA = "observation.images.front"
SPEC = SampleSpec(
    ["observation.state", CAMERA], {"action": range(3)}, image_size=(4, 6), layout="hwc"
)
PARTS: dict[str, Any] = {
    "features": ["observation.state", CAMERA],
    "windows": {"action": Window(frames=range(3))},
    "image_size": (4, 6),
    "layout": "hwc",
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("dataset")
    write_dataset(root, [3, 5], features={**NUMBERS, CAMERA: Feature("image", (8, 12, 3))})
    return reel.open_dataset(root)


def same(ours, theirs) -> bool:
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[name], theirs[name]) for name in ours
    )


def test_short_forms_are_spelled_out():
    spec = SampleSpec("action", {"action": [0, 1], "state": Window(seconds=(0.0,))}, [4, 6])
    assert spec.features == ("action",)
    assert spec.windows == {"action": Window(frames=(0, 1)), "state": Window(seconds=(0.0,))}
    assert spec.image_size == (4, 6)
    assert SampleSpec() == SampleSpec(None, {}, None, "chw")


def test_equal_specs_are_equal_and_hash_alike():
    one = SampleSpec(["a"], {"x": range(2), "y": range(3)})
    other = SampleSpec(("a",), {"y": Window(frames=range(3)), "x": Window(frames=(0, 1))})
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, SampleSpec(["a"]), SampleSpec(["a"], layout="hwc")}) == 3


def test_a_spec_survives_pickling_and_replacing():
    assert pickle.loads(pickle.dumps(SPEC)) == SPEC
    changed = replace(SPEC, layout="chw")
    assert (changed.layout, changed.features, changed.windows) == (
        "chw",
        SPEC.features,
        SPEC.windows,
    )


def test_a_spec_cannot_be_changed():
    with pytest.raises(AttributeError):
        SPEC.layout = "chw"  # type: ignore[misc]  # that is the test
    with pytest.raises(TypeError):
        SPEC.windows["action"] = Window(frames=(0,))  # type: ignore[index]  # that is the test


def test_it_prints_as_it_is_written():
    assert repr(SampleSpec("action")) == "SampleSpec(features=('action',), layout='chw')"
    assert repr(SPEC) == (
        "SampleSpec(features=('observation.state', 'observation.images.front'), "
        "windows={'action': Window(frames=range(0, 3))}, image_size=(4, 6), layout='hwc')"
    )


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"features": 3}, TypeError, r"features is 3: give names"),
        ({"features": [3]}, TypeError, r"features holds 3: features have names"),
        ({"windows": [range(3)]}, TypeError, r"windows is \[range\(0, 3\)\]: give windows by"),
        ({"windows": Window(frames=(0,))}, TypeError, r"windows is Window.*: give windows by"),
        ({"windows": {"action": 16}}, WindowError, r"The window of 'action': frames is 16"),
        ({"windows": {"action": [0.1]}}, WindowError, r"The window of 'action': .*seconds="),
        ({"windows": {"action": "01"}}, WindowError, r"The window of 'action': frames is '01'"),
        ({"image_size": 224}, TypeError, r"image_size is 224: give height and width"),
        ({"image_size": (1, 2, 3)}, TypeError, r"image_size is \(1, 2, 3\): give height"),
        ({"image_size": (4.5, 6)}, TypeError, r"image_size is \(4\.5, 6\): give height"),
        ({"image_size": (0, 6)}, ValueError, r"height and width are 1 or more"),
        ({"layout": "CHW"}, ValueError, r"layout is 'chw' or 'hwc', not 'CHW'"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_spec_is_made(arguments, error, says):
    with pytest.raises(error, match=says):
        SampleSpec(**arguments)


def test_a_read_takes_a_spec_or_its_parts(dataset):
    assert same(dataset.read([1, 5], SPEC), dataset.read([1, 5], **PARTS))
    mixture = reel.Mixture({dataset: 1.0})
    assert same(mixture.read([1, 5], SPEC), mixture.read([1, 5], **PARTS))
    plain = replace(SPEC, windows={})
    episode = dataset.episodes[1]
    parts = {name: value for name, value in PARTS.items() if name != "windows"}
    assert same(episode.read(plain), episode.read(**parts))
    assert episode.read(SPEC)["action"].shape == (5, 3, 2)


def test_a_range_is_a_window_of_frames(dataset):
    batch = dataset.read([1], ["index"], windows={"action": range(16)})
    assert batch["action"].shape == (1, 16, 2)
    with pytest.raises(WindowError, match="The window of 'action'"):
        dataset.read([1], windows={"action": 16})


def test_a_spec_and_parts_of_one_contradict_each_other(dataset):
    with pytest.raises(TypeError, match=r"Put them into the spec: dataclasses\.replace"):
        dataset.read([0], SPEC, layout="chw")
    with pytest.raises(TypeError, match="together with features"):
        spec_of(["action"], SPEC)


def test_samples_as_tensors_take_a_spec_or_its_parts(dataset):
    pytest.importorskip("torch")
    from roboreel.torch import SampleDataset

    windows = PARTS["windows"]
    others = {name: value for name, value in PARTS.items() if name != "windows"}
    whole, parts = SampleDataset(dataset, SPEC), SampleDataset(dataset, windows, **others)
    assert whole.spec == parts.spec == SPEC
    assert all(values.equal(parts.read([1, 5])[n]) for n, values in whole.read([1, 5]).items())
    with pytest.raises(TypeError, match="Put them into the spec"):
        SampleDataset(dataset, SPEC, features=["action"])
