"""Clips among the images of their file: what fits, and what is said where it does not."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.check.clip_places import FileClips, find_misfits, place_clips, video_fps
from roboreel.video.packet_table import Coding, PacketTable

FPS = 30
TICK = Fraction(1, 15360)
FRAME = 512


def table_of(ticks):
    ticks = np.asarray(ticks, dtype=np.int64)
    count = len(ticks)
    return PacketTable(
        coding=Coding("h264", b"", 64, 48),
        time_base=TICK,
        offset=np.zeros(count, np.int64),
        size=np.full(count, 100, np.int32),
        dts=ticks,
        pts=ticks,
        keyframe=np.ones(count, np.bool_),
        shown=np.arange(count, dtype=np.int32),
        ticks=ticks,
    )


def clips_of(lengths, starts=None, stops=None):
    lengths = np.asarray(lengths, dtype=np.int64)
    starts = np.cumsum(lengths) - lengths if starts is None else np.asarray(starts)
    stops = starts + lengths if stops is None else np.asarray(stops)
    return FileClips(np.arange(len(lengths)), starts / FPS, stops / FPS, lengths, FPS)


def misfits(clips, num_images):
    placed = place_clips(clips, table_of(FRAME * np.arange(num_images)))
    return [(one.kind, one.start, one.stop, one.images) for one in find_misfits(placed)]


def test_clips_that_follow_one_another_fit():
    assert misfits(clips_of([5, 3, 7]), 15) == []


def test_a_short_file_lacks_images_of_its_last_clips():
    assert misfits(clips_of([5, 3, 7]), 12) == [("missing", 2, 3, 3)]
    assert misfits(clips_of([5, 3, 7]), 7) == [("missing", 1, 2, 1), ("missing", 2, 3, 7)]


def test_a_long_file_has_unused_images_at_its_end():
    assert misfits(clips_of([5, 3]), 10) == [("unused", 2, 2, 2)]


def test_unused_images_between_clips_are_told_by_the_clip_they_precede():
    assert misfits(clips_of([5, 3], starts=[2, 9]), 12) == [
        ("unused", 0, 0, 2),
        ("unused", 1, 1, 2),
    ]


@pytest.mark.parametrize("late", [-2, -1, 1, 2])
@pytest.mark.parametrize("clip", [1, 2])
def test_a_clip_that_starts_at_another_image_is_shifted(clip, late):
    starts = np.array([0, 5, 8, 15])
    starts[clip] += late
    found = misfits(clips_of([5, 3, 7, 4], starts=starts), 19)
    assert found[0] == ("shifted", clip, clip + 1, late)
    overlapping = (clip - 1, clip + 1) if late < 0 else (clip, clip + 2)
    assert found[1] == ("overlapping", *overlapping, abs(late))
    assert len(found) == 2


def test_a_clip_whose_start_alone_is_wrong_is_shifted():
    clips = clips_of([5, 3, 7], starts=[0, 6, 8], stops=[5, 8, 15])
    assert misfits(clips, 15) == [("shifted", 1, 2, 1)]


def test_all_clips_of_a_file_may_be_shifted_together():
    assert misfits(clips_of([5, 3, 7], starts=[1, 6, 9]), 15) == [("shifted", 0, 3, 1)]


def test_a_camera_that_lost_an_image_is_not_taken_for_a_shift():
    # Times were taken from the video: 6 images for 5 frames, 2 images for 3 frames.
    clips = clips_of([5, 3, 7], starts=[0, 6, 8], stops=[6, 8, 15])
    assert misfits(clips, 15) == [("unused", 1, 1, 1), ("missing", 1, 2, 1)]


def test_an_episode_with_an_image_less_lacks_it_though_the_next_one_follows_at_once():
    clips = clips_of([5, 3, 7], starts=[0, 4, 7], stops=[4, 7, 14])
    assert misfits(clips, 14) == [("missing", 0, 1, 1)]


def test_two_clips_that_share_all_images_overlap():
    clips = clips_of([5, 5], starts=[0, 0], stops=[5, 5])
    assert misfits(clips, 5)[0][0] in ("overlapping", "missing")


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.data())
def test_a_shift_of_any_clip_is_found_and_nothing_else_is_called_shifted(lengths, data):
    clip = data.draw(st.integers(0, len(lengths) - 1))
    late = data.draw(st.integers(1, 3))
    starts = np.cumsum(lengths) - np.asarray(lengths)
    assert misfits(clips_of(lengths), sum(lengths)) == []
    starts[clip] += late
    if np.any(np.diff(starts) <= 0):
        return  # Clips would change their order.
    found = misfits(clips_of(lengths, starts=starts), sum(lengths))
    shifted = [one for one in found if one[0] == "shifted"]
    assert shifted == [("shifted", clip, clip + 1, late)]


def test_clips_may_count_from_the_first_image_of_the_file():
    table = table_of(FRAME * np.arange(8) + 3 * FRAME)
    placed = place_clips(clips_of([5, 3]), table)
    assert placed.origin_s == pytest.approx(0.1)
    assert find_misfits(placed) == []
    counted_from_zero = place_clips(clips_of([5, 3], starts=[3, 8]), table)
    assert counted_from_zero.origin_s == 0.0
    assert find_misfits(counted_from_zero) == []


def test_a_start_between_two_images_is_off_by_the_distance_to_the_nearest():
    clips = clips_of([5, 3], starts=[0, 5.25])
    placed = place_clips(clips, table_of(FRAME * np.arange(8)))
    assert placed.first.tolist() == [0, 5]
    assert placed.off_s.tolist() == pytest.approx([0, 0.25 / FPS])


def test_the_rate_of_a_video_leaves_pauses_out():
    ticks = FRAME * np.arange(20)
    ticks[10:] += 100 * FRAME
    assert video_fps(table_of(ticks)) == pytest.approx(30)
    assert video_fps(table_of([0])) is None


def test_the_rate_of_a_video_leaves_out_images_that_no_clip_shows():
    ticks = FRAME * np.arange(20)
    assert video_fps(table_of(np.sort(np.append(ticks, ticks[10] - 1)))) == pytest.approx(30, 1e-3)


def test_a_video_whose_steps_are_all_unusual_has_the_rate_of_all():
    assert video_fps(
        table_of(np.cumsum(FRAME * np.array([0.2, *[1.8, 0.2] * 10])))
    ) == pytest.approx(30, 0.01)
