"""The nouns of a dataset check themselves."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import DatasetError, EpisodeNotFoundError, FeatureError, MetadataError
from roboreel.format.features import feature_from_json
from roboreel.schema import Depth, Feature
from tests.factory import NUMBERS, edit_info, make_manifest, write_dataset


@pytest.mark.parametrize(
    ("given", "dtype"),
    [("float", "float64"), ("<f4", "float32"), (np.float32, "float32"), (np.dtype("u1"), "uint8")],
)
def test_a_dtype_is_kept_by_its_name(given, dtype):
    assert Feature(given, (2,)) == Feature(dtype, (2,))


def test_sizes_and_names_become_tuples():
    feature = Feature("float32", [np.int64(2)], names=["a", "b"])  # type: ignore[arg-type]
    assert (feature.shape, feature.names) == ((2,), ("a", "b"))
    assert Feature("float32", (1,), names="gripper").names == ("gripper",)  # type: ignore[arg-type]
    with pytest.raises(FeatureError, match="names is 3: give one for each element"):
        Feature("float32", (1,), names=3)  # type: ignore[arg-type]  # that is the test
    assert Feature("float32", ()) == Feature("float32", (1,))
    assert hash(feature) == hash(Feature("float32", (2,), names=("a", "b")))


@pytest.mark.parametrize(
    "dtype", ["float33", "float99", "object", "", "M8[s]", None, 3, [], "U4", "f4\ud800"]
)
def test_an_unknown_dtype_is_refused(dtype):
    with pytest.raises(FeatureError, match=r"No dtype .*: give the name of a NumPy dtype such as"):
        Feature(dtype, (1,))


@pytest.mark.parametrize("shape", [2, None, "22", (2.0,), (True,), [[2]], (-1,)])
def test_what_is_no_shape_is_refused(shape):
    with pytest.raises(FeatureError, match="shape is"):
        Feature("float32", shape)


def test_cameras_have_three_axes_and_depth_is_one():
    for dtype in ("image", "video"):
        with pytest.raises(FeatureError, match=r"\(height, width, channels\), not \(4, 6\)"):
            Feature(dtype, (4, 6))
    with pytest.raises(FeatureError, match="depth is True: give Depth"):
        Feature("video", (4, 6, 1), depth=True)  # type: ignore[arg-type]  # that is the test
    assert issubclass(FeatureError, DatasetError)
    assert issubclass(FeatureError, ValueError)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"min_m": 4.0, "max_m": 4.0}, "from 4 m to 4 m is an empty range"),
        ({"max_m": float("nan")}, "max_m is nan: give a finite number of metres"),
        ({"max_m": "far"}, "max_m is 'far': give a finite number"),
        ({"shift": float("inf")}, "shift is inf"),
        ({"min_m": -5.0}, r"min_m \+ shift is -1\.5, which has no logarithm"),
        ({"unit": "cm"}, "'m' or 'mm', not 'cm'"),
    ],
)
def test_a_depth_that_makes_no_sense_is_refused(changes, says):
    with pytest.raises(FeatureError, match=says):
        replace(Depth(), **changes)


def test_a_depth_is_kept_in_floats():
    assert Depth(max_m=np.float32(4)) == Depth(max_m=4) == Depth(max_m=4.0)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(Depth(min_m=-5, log=False))).min_m == -5.0


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"dtype": "float33", "shape": [2]}, "'odd' has the unknown dtype 'float33'"),
        (
            {"dtype": "video", "shape": [4, 6, 1], "info": {"is_depth_map": True, "depth_max": 0}},
            r"Feature 'odd': Depth from 0\.01 m to 0 m is an empty range",
        ),
    ],
)
def test_an_odd_feature_of_a_file_is_left_out_and_listed(tmp_path, entry, says):
    with pytest.raises(MetadataError, match=says):
        feature_from_json("odd", entry)
    write_dataset(tmp_path, [2, 3])
    info = json.loads((tmp_path / "meta" / "info.json").read_text())
    edit_info(tmp_path, features={**info["features"], "odd": entry})
    dataset = reel.open_dataset(tmp_path)
    assert "odd" not in dataset.features
    assert len(dataset.problems) == 1
    assert str(dataset.problems[0]).endswith("; it is left out.")
    assert "..;" not in str(dataset.problems[0])
    assert ".;" not in str(dataset.problems[0])
    assert set(dataset[0]) == {*dataset.features, "task"}


def test_episodes_are_found_by_whole_numbers_alone(tmp_path):
    table = make_manifest(tmp_path, [3, 1, 5], features=NUMBERS).episodes
    assert table.positions_of([2, 0]).tolist() == [2, 0]
    with pytest.raises(TypeError, match="Episodes are whole numbers"):
        table.positions_of([0.7])  # type: ignore[list-item]  # that is the test
    with pytest.raises(EpisodeNotFoundError, match="there are 3 episodes, 0 to 2"):
        table.positions_of([3])
    one = make_manifest(tmp_path, [3], features=NUMBERS).episodes
    with pytest.raises(EpisodeNotFoundError, match="there is only episode 0"):
        one.positions_of([3])
    none = make_manifest(tmp_path, [], features=NUMBERS).episodes
    with pytest.raises(EpisodeNotFoundError, match="there are no episodes"):
        none.positions_of([0])
