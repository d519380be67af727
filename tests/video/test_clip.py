import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roboreel.errors import MissingImageError
from roboreel.video.clip import Clip, Run, images_of, plan_runs, split_runs
from roboreel.video.packet_table import decoding_starts

FPS = 30.0
TIME_BASE = Fraction(1, 15360)
FRAME = 512  # Ticks from one image to the next.


def regular(count: int, start: int = 0) -> Any:
    return start + np.arange(count) * FRAME


def images(
    frames: Iterable[int], clip: Clip, ticks: NDArray[np.int64], time_base: Fraction = TIME_BASE
) -> list[int]:
    frames = list(frames)
    return list(images_of(np.asarray(frames, dtype=np.int64), clip, ticks, time_base))


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    rate=st.sampled_from([15360, 90000, 1000, 30, 12800]),
    fps=st.sampled_from([10.0, 15.0, 24.0, 29.97, 30.0, 50.0]),
    noise=st.floats(-1e-4, 1e-4),
)
def test_every_frame_of_joined_episodes_is_the_image_that_was_recorded_for_it(
    lengths, rate, fps, noise
):
    if rate < fps:
        fps = 30.0
    ticks = np.rint(np.arange(sum(lengths)) * rate / fps).astype(np.int64)
    first = 0
    for length in lengths:
        clip = Clip(first / fps + noise, (first + length) / fps + noise, length, fps)
        found = images(range(length), clip, ticks, Fraction(1, rate))
        assert found == list(range(first, first + length))
        first += length


@given(
    length=st.integers(2, 20), lost=st.sets(st.integers(1, 19), min_size=1), after=st.integers(1, 5)
)
def test_a_lost_image_is_missing_and_shifts_no_other(length, lost, after):
    # What each image shows: the frames of this episode that were kept, then the next episode's.
    kept = [frame for frame in range(length) if frame not in lost]
    shown = [*kept, *range(length, length + after)]
    ticks = np.array(shown, dtype=np.int64) * FRAME
    clip = Clip(0.0, length / FPS, length, FPS)
    for frame in range(length):
        if frame in kept:
            assert shown[images([frame], clip, ticks)[0]] == frame
        else:
            with pytest.raises(MissingImageError, match=f"No image for frame {frame}:"):
                images([frame], clip, ticks)


def test_an_episode_one_image_short_never_shows_the_next_episode():
    ticks = regular(60)
    clip = Clip(0.0, 29 / FPS, 30, FPS, limit_s=29 / FPS)
    assert images(range(29), clip, ticks) == list(range(29))
    with pytest.raises(MissingImageError, match=r"No image for frame 29: the clip has 29 images"):
        images([29], clip, ticks)


def test_an_episode_one_image_short_leaves_the_only_image_of_the_next_alone():
    with pytest.raises(MissingImageError, match="No image for frame 29"):
        images([29], Clip(0.0, 29 / FPS, 30, FPS, limit_s=29 / FPS), regular(30))


def test_a_clip_whose_stop_is_that_of_its_frames_reaches_into_the_next_one():
    # As in LeRobot: the table says of both clips that the images are theirs.
    clip = Clip(0.0, 30 / FPS, 30, FPS, limit_s=27 / FPS)
    assert images(range(30), clip, regular(50)) == list(range(30))
    with pytest.raises(MissingImageError, match="No image for frame 27"):
        images(range(30), Clip(0.0, 32 / FPS, 30, FPS, limit_s=27 / FPS), regular(50))


def test_the_last_episode_of_a_file_may_be_one_image_short_too():
    with pytest.raises(MissingImageError, match="No image for frame 9"):
        images([9], Clip(1.0, 1.0 + 10 / FPS, 10, FPS), regular(39))


def test_more_images_than_frames_are_left_unused():
    assert images([0, 9], Clip(0.0, 1.0, 10, FPS), regular(30)) == [0, 9]


def test_one_image_for_each_frame_is_counted_however_the_clock_drifted():
    ticks = np.rint(np.arange(1000) * 15360 / 29.97).astype(np.int64)
    assert images([0, 999], Clip(0.0, 1000 / FPS, 1000, FPS), ticks) == [0, 999]


def test_a_video_of_twice_the_rate_is_read_by_its_clock():
    ticks = np.arange(60) * (FRAME // 2)
    assert images([0, 1, 2], Clip(0.0, 1.0, 30, FPS), ticks) == [0, 2, 4]


def test_a_clip_without_a_stop_goes_to_the_end_of_the_file():
    assert images([29], Clip(1.0, math.inf, 30, FPS), regular(60)) == [59]


def test_a_file_that_starts_late_is_counted_from_its_first_image():
    assert images(range(10), Clip(0.0, 10 / FPS, 10, FPS), regular(10, 2 * FRAME)) == [*range(10)]


def test_a_file_that_starts_late_and_says_so_is_read_as_it_says():
    clip = Clip(2 / FPS, 12 / FPS, 10, FPS)
    assert images([0, 9], clip, regular(10, 2 * FRAME)) == [0, 9]


def test_a_clip_that_fits_in_two_ways_is_refused():
    clip = Clip(10 / FPS, 20 / FPS, 10, FPS)
    with pytest.raises(
        MissingImageError, match=r"first image is at 0\.067 s.*start at 0\.333 s.*is ambiguous"
    ):
        images([0], clip, regular(40, 2 * FRAME))


def test_a_late_file_with_too_few_images_is_refused_rather_than_shifted():
    with pytest.raises(MissingImageError, match="too few images"):
        images([0], Clip(0.0, 10 / FPS, 10, FPS), regular(8, 2 * FRAME))


def test_a_clip_that_starts_where_there_is_no_image_is_refused():
    with pytest.raises(
        MissingImageError, match=r"starts at 9\.000 s, where the video has no image"
    ):
        images([0], Clip(9.0, 10.0, 30, FPS), regular(30))


def test_a_frame_that_the_episode_does_not_have_is_refused():
    with pytest.raises(MissingImageError, match="Frame 30 does not exist: the episode has 30"):
        images([30], Clip(0.0, 1.0, 30, FPS), regular(60))


@st.composite
def streams(draw: Any) -> Any:
    """Packets in decoding order: groups, some open, with images moved as B-frames are."""
    keyframe: list[bool] = []
    pts: list[int] = []
    for group in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 8))
        order = list(range(size))
        if draw(st.booleans()):
            order = [0, *draw(st.permutations(order[1:]))]
        base = len(pts)
        leading = draw(st.integers(0, size - 1)) if group else 0
        # In an open group, some images are shown before the keyframe.
        ranks = [(position - 1 if 0 < position <= leading else position) for position in order]
        if leading:
            ranks = [
                leading if position == 0 else rank
                for position, rank in zip(order, ranks, strict=True)
            ]
        keyframe += [True] + [False] * (size - 1)
        pts += [base + rank for rank in ranks]
    return np.array(keyframe), np.array(pts)


@given(streams(), st.data())
def test_runs_start_at_the_last_keyframe_decoded_and_shown_before(stream, data):
    keyframe, pts = stream
    wanted = data.draw(st.lists(st.integers(0, len(pts) - 1), min_size=1))
    runs = plan_runs(np.array(wanted), decoding_starts(keyframe, pts))
    assert sorted(packet for run in runs for packet in run.wanted) == sorted(set(wanted))
    for run in runs:
        assert run.stop == max(run.wanted) + 1
        for packet in run.wanted:
            possible = [k for k in range(packet + 1) if keyframe[k] and pts[k] <= pts[packet]]
            assert run.start == (possible[-1] if possible else 0)


@given(streams(), st.data(), st.integers(1, 12))
def test_parts_hold_all_that_is_wanted_once_and_each_run_starts_early_enough(stream, data, target):
    keyframe, pts = stream
    wanted = data.draw(st.lists(st.integers(0, len(pts) - 1)))
    runs = plan_runs(np.array(wanted, dtype=np.int64), decoding_starts(keyframe, pts))
    starts = {packet: run.start for run in runs for packet in run.wanted}
    parts = [run for part in split_runs(runs, target) for run in part]
    assert sorted(packet for run in parts for packet in run.wanted) == sorted(set(wanted))
    for run in parts:
        assert keyframe[run.start]
        assert list(run.wanted) == sorted(run.wanted)
        assert run.stop == run.wanted[-1] + 1
        assert all(run.start <= starts[packet] for packet in run.wanted)


def test_neighbouring_groups_are_decoded_in_one_go_up_to_the_target():
    runs = [Run(start, start + 2, (start, start + 1)) for start in range(0, 12, 2)]
    assert split_runs(runs, 100) == [[Run(0, 12, tuple(range(12)))]]
    assert [len(part[0].wanted) for part in split_runs(runs, 4)] == [4, 4, 4]


def test_groups_with_a_gap_between_them_stay_apart():
    runs = [Run(0, 1, (0,)), Run(10, 12, (11,))]
    assert split_runs(runs, 100) == [runs]
