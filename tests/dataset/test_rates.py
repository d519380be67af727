"""Windows over datasets of another rate."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roboreel as reel
from roboreel.dataset.interpolate import interpolate, rotation_elements
from roboreel.errors import WindowError
from roboreel.schema import Feature
from tests.factory import NUMBERS, write_dataset

SECONDS = st.lists(st.floats(-5, 5), min_size=1, max_size=6)
FPS = st.sampled_from([10.0, 15.0, 29.97, 30.0, 50.0])


@given(SECONDS, FPS)
def test_the_nearest_frame_is_at_most_half_a_frame_away(seconds, fps):
    offsets = reel.Window(seconds=seconds, at="nearest").offsets(fps)
    for second, offset in zip(seconds, offsets.tolist(), strict=True):
        assert abs(second - offset / fps) <= 0.5 / fps + 1e-9


@given(SECONDS, FPS)
def test_the_previous_frame_is_not_in_the_future(seconds, fps):
    offsets = reel.Window(seconds=seconds, at="previous").offsets(fps)
    for second, offset in zip(seconds, offsets.tolist(), strict=True):
        assert offset / fps <= second + 1e-4
        assert (offset + 1) / fps > second - 1e-9


@given(SECONDS, FPS)
def test_linear_places_are_the_moments_themselves(seconds, fps):
    offsets, fractions = reel.Window(seconds=seconds, at="linear").places(fps)
    assert ((fractions >= 0) & (fractions < 1)).all()
    assert np.abs((offsets + fractions) / fps - seconds).max() <= 1e-4 + 1e-9


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), st.floats(0, 0.999))
def test_values_between_two_frames_are_in_proportion(ends, fraction):
    earlier, later = (np.full((1, 1, 2), end) for end in ends)
    found = interpolate(earlier, later, np.array([fraction]), np.array([False, True]))[0, 0]
    assert math.isclose(found[0], ends[0] + (ends[1] - ends[0]) * fraction, abs_tol=1e-9)
    assert found[1] == ends[fraction > 0.5]


def test_a_tie_goes_to_the_earlier_frame():
    window = reel.Window(seconds=(-0.05, 0.05, 0.15), at="nearest")
    assert window.offsets(10).tolist() == [-1, 0, 1]


def test_elements_that_are_rotations_are_known_by_their_names():
    pose = Feature("float32", (5,), names=("x", "y", "wrist_roll.pos", "qw", "gripper"))
    assert rotation_elements("action", pose).tolist() == [False, False, True, True, False]
    assert rotation_elements("observation.quat", Feature("float32", (4,))).all()
    assert not rotation_elements("action", Feature("float32", (4,))).any()
    camel = Feature("float32", (4,), names=("wristRoll", "eeQuats", "heading", "scroll"))
    assert rotation_elements("action", camel).tolist() == [True, True, True, False]


def test_windows_at_another_rate_are_read_and_masked(tmp_path):
    pose = Feature("float32", (2,), names=("x", "yaw"))
    write_dataset(tmp_path, [6, 5], features={**NUMBERS, "action": pose})
    dataset = reel.open_dataset(tmp_path)
    stored = dataset.read(range(6), ["action"])["action"]
    half = 0.5 / dataset.fps

    def action(**options):
        window = reel.Window(seconds=(0.0, 1.2 * half, 2 * half), **options)
        batch = dataset.read([2, 5], windows={"action": window})
        return batch["action"], batch["action_is_pad"].tolist()

    values, mask = action(at="nearest")
    assert values[0].tolist() == stored[[2, 3, 3]].tolist()
    assert mask == [[False] * 3, [False, True, True]]
    values, mask = action(at="previous")
    assert values[0].tolist() == stored[[2, 2, 3]].tolist()
    assert mask == [[False] * 3, [False, False, True]]
    values, mask = action(at="linear")
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[0, 1, 0], stored[2, 0] + (stored[3] - stored[2])[0] * 0.6)
    assert values[0, 1, 1] == stored[3, 1]  # an angle, from the nearer frame
    assert values[1].tolist() == stored[[5, 5, 5]].tolist()
    assert mask == [[False] * 3, [False, True, True]]
    values, _ = action(at="linear", rotations="linear")
    np.testing.assert_allclose(values[0, 1], stored[2] + (stored[3] - stored[2]) * 0.6, rtol=1e-6)


@pytest.mark.parametrize(
    ("at", "slow", "fast"),
    [
        ("nearest", [100, 100, 200, 300], [100, 200, 200, 400]),
        ("previous", [100, 100, 200, 300], [100, 100, 200, 400]),
        ("linear", [100, 150, 200, 300], [100, 175, 250, 400]),
    ],
)
def test_a_mixture_of_rates_is_read_at_the_same_moments(tmp_path, at, slow, fast):
    for name, fps in (("slow", 10), ("fast", 15)):
        write_dataset(tmp_path / name, [6], fps=fps)
    datasets = [reel.open_dataset(tmp_path / name) for name in ("slow", "fast")]
    mixture = reel.Mixture(dict.fromkeys(datasets, 1.0), features={"action": "action"})
    window = reel.Window(seconds=(0.0, 0.05, 0.1, 0.2), at=at)
    batch = mixture.read([1, 6 + 1], windows={"action": window})
    np.testing.assert_allclose(batch["action"][..., 0], [slow, fast], rtol=1e-6)
    assert not batch["action_is_pad"].any()


def test_what_cannot_be_between_frames_is_refused(tmp_path):
    write_dataset(tmp_path, [6])
    dataset = reel.open_dataset(tmp_path)
    window = reel.Window(seconds=(0.01,), at="linear")
    with pytest.raises(WindowError, match="'frame_index' is int64: only floating-point"):
        dataset.read([0], windows={"frame_index": window})
    with pytest.raises(WindowError, match="not interpolated here"):
        window.offsets(10)
    with pytest.raises(WindowError, match="at='nearest'"):
        reel.Window(seconds=(0.01,)).offsets(10)
    with pytest.raises(WindowError, match="frames are exact"):
        reel.Window(frames=(0,), at="nearest")
    with pytest.raises(WindowError, match="at is 'cubic'"):
        reel.Window(seconds=(0.0,), at="cubic")  # type: ignore[arg-type]
    with pytest.raises(WindowError, match="goes with at='linear'"):
        reel.Window(seconds=(0.0,), at="nearest", rotations="linear")
