"""Files of arrays in which streams have times, and rates, of their own."""

from __future__ import annotations

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import SourceError
from roboreel.importing import Changes, import_dataset, open_recording, plan_import
from roboreel.importing.array_tree import Leaf
from roboreel.importing.defaults import changed_map
from roboreel.importing.time_units import find_units, pair_times, to_ns

h5py = pytest.importorskip("h5py")

EPOCH = 1_700_000_000
CAMERA_S = np.arange(30) / 30
STATE_S = np.arange(120) / 100 - 0.1


def write(path, arrays, **attributes):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
        file.attrs.update(attributes)
    return path


def recorded(scale=1, kind=np.float64, origin=EPOCH):
    """A camera at 30 Hz, and joints at 100 Hz that start earlier and count seconds."""
    images = np.stack([np.full((16, 16, 3), 8 * i, np.uint8) for i in range(30)])
    times = {"camera": CAMERA_S, "joints": STATE_S}
    found = {f"{n}/timestamp": np.rint((origin + t) * scale * 1e6) / 1e6 for n, t in times.items()}
    return {
        "camera/image": images,
        "joints/position": np.stack([STATE_S, -STATE_S], 1),
        **{name: values.astype(kind) for name, values in found.items()},
    }


def plan_of(path, **changes):
    with open_recording(path) as recording:
        return plan_import(recording, changed_map(recording, None, Changes(**changes)))


@pytest.mark.parametrize(
    ("scale", "kind", "origin", "unit"),
    [
        (1, np.float64, EPOCH, "seconds"),
        (1, np.float64, 5, "seconds"),
        (1e3, np.float64, EPOCH, "milliseconds"),
        (1e3, np.int64, 5, "milliseconds"),
        (1e6, np.int64, 2000, "microseconds"),  # as large as seconds since 1970
        (1e6, np.uint64, EPOCH, "microseconds"),
        (1e9, np.int64, EPOCH, "nanoseconds"),
        (1e9, np.int64, 1, "nanoseconds"),
    ],
)
def test_streams_with_times_are_aligned_in_any_unit(tmp_path, scale, kind, origin, unit):
    source = write(tmp_path / "a.h5", recorded(scale, kind, origin))
    plan = plan_of(source)
    assert plan.fps == 30
    assert f"taken for {unit}" in plan.unmapped["joints/timestamp"]
    piece = plan.episodes[0].piece
    assert piece.picked["camera/image"].first.tolist() == list(range(30))
    taken = STATE_S[piece.picked["joints/position"].first]
    assert np.abs(taken - CAMERA_S[: len(taken)]).max() < 0.006


def test_values_and_images_of_one_moment_come_together(tmp_path):
    source = write(tmp_path / "a.h5", recorded())
    made = import_dataset(source, tmp_path / "d", changes=Changes(align="linear", store="image"))
    batch = reel.open_dataset(made.path).read(range(30))
    assert np.allclose(batch["observation.joints.position"][:, 0], CAMERA_S, atol=2e-6)
    assert batch["observation.images.camera"][:, 0, 0, 0].tolist() == [8 * i for i in range(30)]


def test_the_gap_and_the_rate_are_those_that_were_asked_for(tmp_path):
    arrays = recorded()
    keep = (CAMERA_S < 0.3) | (CAMERA_S > 0.7)
    arrays |= {n: arrays[n][keep] for n in ("camera/image", "camera/timestamp")}
    plan = plan_of(write(tmp_path / "a.h5", arrays), fps=50, max_gap_ns=50_000_000)
    assert plan.fps == 50
    assert len(plan.episodes) == 2
    assert any("rows dropped: camera/image has no value within 50ms" in n for n in plan.notes)


def test_numbered_groups_with_times_are_episodes(tmp_path):
    arrays = {f"episode_{e}/{n}": v for e in range(2) for n, v in recorded().items()}
    plan = plan_of(write(tmp_path / "a.h5", arrays))
    assert [(e.name, e.length) for e in plan.episodes] == [("episode_0", 30), ("episode_1", 30)]


def test_the_layout_of_act_may_have_times_too(tmp_path):
    arrays = {
        "action": np.zeros((120, 2)),
        "action_timestamps": STATE_S,
        "observations/qpos": np.stack([STATE_S] * 2, 1),
        "observations/qpos_timestamps": STATE_S,
        "observations/images/top": recorded()["camera/image"],
        "observations/images/top_timestamps": CAMERA_S,
    }
    plan = plan_of(write(tmp_path / "a.h5", arrays))
    assert (plan.layout, plan.fps, plan.num_frames) == ("act", 30, 30)
    assert set(plan.features) == {"action", "observation.state", "observation.images.top"}


def test_arrays_of_one_length_are_steps_whatever_their_times(tmp_path):
    arrays = {
        "state/value": np.zeros((20, 2)),
        "state/timestamp": np.arange(20) / 10,
        "camera/value": np.zeros((20, 3)),
        "camera/timestamp": np.arange(20) / 10 - 0.07,
    }
    with open_recording(write(tmp_path / "a.h5", arrays)) as recording:
        assert (recording.timed, recording.fps, recording.episodes[0].length) == (False, 10, 20)
        notes = plan_import(recording).notes
    said = "camera/timestamp and state/timestamp differ by up to 0.07 s"
    assert any(said in note for note in notes)


@pytest.mark.parametrize("times", [np.arange(20) / 10 - 0.04, np.full(20, np.nan)])
def test_steps_within_half_a_frame_of_each_other_are_not_mentioned(tmp_path, times):
    arrays = {
        "state/value": np.zeros((20, 2)),
        "state/timestamp": np.arange(20) / 10,
        "camera/value": np.zeros((20, 3)),
        "camera/timestamp": times,
    }
    notes = plan_of(write(tmp_path / "a.h5", arrays), fps=10).notes
    assert not any("differ" in note for note in notes)


def test_an_array_without_times_is_listed(tmp_path):
    arrays = recorded() | {"calibration": np.eye(3)}
    plan = plan_of(write(tmp_path / "a.h5", arrays))
    assert "no array of so many times" in plan.unmapped["calibration"]


def test_times_of_clocks_that_never_meet_are_named(tmp_path):
    arrays = recorded() | {"camera/timestamp": CAMERA_S}
    with pytest.raises(
        SourceError, match=r"'camera/image' ends .* before 'joints/position' starts"
    ):
        plan_of(write(tmp_path / "a.h5", arrays))


def test_times_that_are_not_numbers_are_refused(tmp_path):
    arrays = recorded(origin=5)
    arrays["joints/timestamp"][7] = np.nan
    with pytest.raises(SourceError, match=r"Some times in 'joints/timestamp'"):
        plan_of(write(tmp_path / "a.h5", arrays))


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("joints", "joints_timestamps"),
        ("joints", "timestamp_joints"),
        ("robot/joints", "robot/time_ns"),
        ("robot/left/joints", "robot/t"),
        ("images/front", "timestamps/front"),
        ("front/rgb", "front_timestamps"),
        ("images/front", "clock/ts"),  # the only one of its length
    ],
)
def test_times_belong_to_an_array_by_name_or_length(name, times):
    other = {"other/joints": Leaf("", (7, 2), "numbers", "float32"), "other/t": _times(7)}
    arrays = {name: Leaf("", (5, 2), "numbers", "float32"), times: _times(5), **other}
    assert pair_times(arrays) == {name: times, "other/joints": "other/t"}


def test_arrays_with_two_possible_times_have_none():
    arrays = {"joints": Leaf("", (5, 2), "numbers", "float32"), "a/t": _times(5), "b/t": _times(5)}
    assert pair_times(arrays) == {}


def test_the_unit_that_is_written_counts_before_any_guess():
    arrays = {"a": np.arange(5) * 20, "b_us": np.arange(5) * 20, "c": np.arange(5) * 1000}
    found = {name: unit.name for name, unit in find_units(arrays, {"a": "s"}).items()}
    assert found == {"a": "seconds", "b_us": "microseconds", "c": "milliseconds"}
    # A millisecond clock at 1000 Hz: its neighbour tells it from a counter of frames.
    arrays = {"joints": np.arange(90), "camera": np.arange(3) * 33}
    assert {unit.name for unit in find_units(arrays).values()} == {"milliseconds"}
    assert find_units({"t": np.arange(5)}) == {}


def test_times_may_have_a_column_of_seconds_and_one_of_nanoseconds(tmp_path):
    arrays = recorded()
    for name in ("camera", "joints"):
        moments = np.rint(arrays[f"{name}/timestamp"] * 1e9).astype(np.int64)
        arrays[f"{name}/timestamp"] = np.stack([moments // 10**9, moments % 10**9], 1)
    plan = plan_of(write(tmp_path / "a.h5", arrays))
    assert (plan.fps, plan.num_frames) == (30, 30)


def test_whole_nanoseconds_stay_exact():
    times = np.array([2**60 + 1, 2**60 + 2], np.uint64)
    unit = find_units({"ns": times}, {"ns": "ns"})["ns"]
    assert to_ns(times, unit, "ns").tolist() == times.tolist()


def _times(rows):
    return Leaf("", (rows,), "numbers", "float64")
