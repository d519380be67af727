"""Windows around an anchor."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboreel.errors import WindowError
from roboreel.window import Window, window_rows


def slow_window_rows(
    anchors: list[int], offsets: list[int], starts: list[int], stops: list[int]
) -> tuple[list[list[int]], list[list[bool]]]:
    rows, mask = [], []
    for anchor, start, stop in zip(anchors, starts, stops, strict=True):
        wanted = [anchor + offset for offset in offsets]
        rows.append([start if w < start else stop - 1 if w >= stop else w for w in wanted])
        mask.append([w not in range(start, stop) for w in wanted])
    return rows, mask


@st.composite
def anchors_in_episodes(draw):
    episodes = draw(
        st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 30)), min_size=1, max_size=6)
    )
    anchors = [start + draw(st.integers(0, length - 1)) for start, length in episodes]
    starts = [start for start, _ in episodes]
    stops = [start + length for start, length in episodes]
    return anchors, starts, stops


def test_frames_are_their_own_offsets_in_the_order_given():
    assert Window(frames=(3, -1, 3)).offsets(fps=10).tolist() == [3, -1, 3]
    assert Window(frames=range(4)).offsets(fps=10).tolist() == [0, 1, 2, 3]
    assert Window(frames=np.array([-1, 0])).offsets(fps=10).dtype == np.int64
    assert Window(frames=iter([1, 2])).offsets(fps=10).tolist() == [1, 2]


def test_a_window_knows_its_length():
    assert len(Window(frames=range(50))) == 50
    assert len(Window(seconds=(-0.1, 0.0))) == 2


@settings(deadline=None)
@given(
    st.lists(st.integers(-3000, 3000), min_size=1, max_size=20),
    st.sampled_from([1.0, 5.0, 10.0, 29.97, 30.0, 50.0, 60.0, 120.0]),
    st.floats(-0.9e-4, 0.9e-4),
)
def test_seconds_near_a_frame_mean_that_frame(frames, fps, error_s):
    seconds = [frame / fps + error_s for frame in frames]
    assert Window(seconds=seconds).offsets(fps).tolist() == frames


@settings(deadline=None)
@given(st.lists(st.integers(-100, 100), min_size=1), st.floats(0.01, 0.49))
def test_seconds_between_two_frames_are_refused(frames, part):
    with pytest.raises(WindowError, match="Between two frames at 30 fps"):
        Window(seconds=[(frame + part) / 30 for frame in frames]).offsets(30)


def test_the_error_names_the_offsets_between_frames_and_the_nearest_ones():
    with pytest.raises(WindowError, match=r"fps: 0\.05 s \(nearest: 0\.0666667 s\)\. Give"):
        Window(seconds=(0.0, 0.05, 0.1)).offsets(30)


def test_a_wider_tolerance_accepts_more():
    assert Window(seconds=(0.034,), tolerance_s=1e-3).offsets(30).tolist() == [1]
    with pytest.raises(WindowError):
        Window(seconds=(0.034,)).offsets(30)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
def test_seconds_need_a_rate(fps):
    with pytest.raises(WindowError, match="need a rate"):
        Window(seconds=(0.0,)).offsets(fps)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either in frames or in seconds"),
        ({"frames": (0,), "seconds": (0.0,)}, "either in frames or in seconds"),
        ({"frames": ()}, "frames is empty"),
        ({"seconds": []}, "seconds is empty"),
        ({"frames": 3}, "frames is 3: give a sequence"),
        ({"frames": "12"}, "frames is '12': give a sequence"),
        ({"seconds": 0.1}, "seconds is 0.1: give a sequence"),
        ({"frames": (0, 0.5)}, r"frames holds 0\.5: offsets in frames are integers"),
        ({"frames": (True,)}, "frames holds True"),
        ({"frames": (None,)}, "frames holds None"),
        ({"frames": (2**40,)}, "at most 2,147,483,648 frames"),
        ({"frames": range(10**12)}, "more than 1,048,576 offsets"),
        ({"seconds": (float("nan"),)}, "seconds holds nan"),
        ({"seconds": (float("-inf"),)}, "seconds holds -inf"),
        ({"seconds": ("0.1",)}, r"seconds holds '0\.1'"),
        ({"seconds": (10**400,)}, "give a number of seconds"),
        ({"frames": (0,), "tolerance_s": -1.0}, "tolerance_s is -1.0"),
        ({"frames": (0,), "tolerance_s": float("nan")}, "tolerance_s holds nan"),
    ],
)
def test_a_window_that_means_nothing_is_refused(arguments, message):
    with pytest.raises(WindowError, match=message):
        Window(**arguments)


def test_seconds_that_reach_too_far_are_refused():
    with pytest.raises(WindowError, match="further than 2,147,483,648 frames at 30 fps"):
        Window(seconds=(1e12,)).offsets(30)


def test_equal_windows_are_interchangeable():
    window = Window(frames=range(3))
    assert window == Window(frames=[0, 1, 2])
    assert hash(window) == hash(Window(frames=(0, 1, 2)))
    assert window != Window(frames=(2, 1, 0))
    assert pickle.loads(pickle.dumps(window)) == window


@pytest.mark.parametrize(
    "window",
    [
        Window(frames=range(50)),
        Window(frames=(-1, 0)),
        Window(frames=(0, 0, 5)),
        Window(seconds=(-0.1, 0.0)),
        Window(seconds=(0.25,), tolerance_s=0.01),
    ],
)
def test_a_printed_window_can_be_pasted_back(window):
    assert eval(repr(window)) == window


def test_a_window_that_leaves_its_episode_repeats_the_edge():
    rows, mask = window_rows(
        np.array([10, 19]), np.array([-2, 0, 1]), np.array([10, 10]), np.array([20, 20])
    )
    assert rows.tolist() == [[10, 10, 11], [17, 19, 19]]
    assert mask.tolist() == [[True, False, False], [False, False, True]]


@settings(deadline=None)
@given(anchors_in_episodes(), st.lists(st.integers(-40, 40), max_size=8))
def test_window_rows_equal_the_slow_version(episodes, offsets):
    anchors, starts, stops = episodes
    rows, mask = window_rows(
        *(np.array(values, dtype=np.int64) for values in (anchors, offsets, starts, stops))
    )
    assert (rows.tolist(), mask.tolist()) == slow_window_rows(anchors, offsets, starts, stops)
