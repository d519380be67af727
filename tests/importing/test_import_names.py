"""Names, rates and ends that a user expects of a robot's recording without a mapping."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import DatasetError, SourceError
from roboreel.importing import Changes, import_dataset, open_recording, plan_import
from roboreel.importing.align import Policy, align, clean
from roboreel.importing.defaults import changed_map

pytest.importorskip("mcap")
pytest.importorskip("rosbags")
h5py = pytest.importorskip("h5py")

from roboreel.image import encode_jpeg
from tests.importing.ros_files import START_NS, Sent, header, write_mcap

MS = 1_000_000
JOINTS, ARRAY = "sensor_msgs/msg/JointState", "std_msgs/msg/Float64MultiArray"


def every(step_ms, topic, kind, until_ms=3000, start_ms=0, **values):
    for t in np.arange(start_ms, until_ms, step_ms):
        at = START_NS + round(t * MS)
        stamped = {"header": header(at)} if kind.startswith("sensor") else {}
        yield Sent(topic, kind, at, {**stamped, **values})


def joints(step_ms=10, topic="/joint_states"):
    return every(step_ms, topic, JOINTS, name=["a", "b"], position=[1.0, 2.0], velocity=[0.0, 0.0])


def plan_of(path, *streams, **changes):
    sent = sorted((one for stream in streams for one in stream), key=lambda one: one.log_ns)
    with open_recording(write_mcap(path, sent)) as recording:
        return plan_import(recording, changed_map(recording, None, Changes(**changes)))


def test_a_slow_topic_neither_sets_the_rate_nor_shortens_the_episode(tmp_path):
    slow = every(1000, "/gps", "sensor_msgs/msg/NavSatFix", start_ms=400)
    plan = plan_of(tmp_path / "a.mcap", joints(), slow)
    assert (plan.fps, plan.fps_reason) == (100, "the rate of /joint_states:position")
    assert plan.num_frames == 300
    assert "observation.gps.latitude" in plan.features


def test_without_state_and_action_streams_that_are_much_slower_do_not_count(tmp_path):
    force = every(10, "/force", ARRAY, data=[1.0])
    other = every(25, "/touch", ARRAY, data=[1.0])
    slow = every(500, "/level", ARRAY, data=[1.0])
    plan = plan_of(tmp_path / "a.mcap", force, other, slow)
    assert plan.fps == 40
    assert plan.fps_reason == "the rate of /touch:data; /level:data has 2 a second and is held"


def test_a_rate_that_is_no_whole_number_is_told(tmp_path):
    with pytest.raises(SourceError, match=r"has 12\.5 values a second.*give --fps"):
        plan_of(tmp_path / "a.mcap", joints(80))


def test_a_camera_that_starts_late_is_kept(tmp_path):
    picture = encode_jpeg(np.zeros((16, 16, 3), np.uint8))
    kind = "sensor_msgs/msg/CompressedImage"
    camera = every(100, "/camera", kind, start_ms=1500, format="jpeg", data=picture)
    plan = plan_of(tmp_path / "a.mcap", joints(), camera)
    assert (plan.fps, plan.num_frames) == (10, 15)
    assert any("/camera starts 1.50 s late" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("commands", "names"),
    [
        ([every(20, "/arm/commands", ARRAY, data=[1.0])], {"action"}),
        ([every(20, "/cmd_vel", "geometry_msgs/msg/Twist")], {"action"}),
        ([joints(20, "/joint_command")], {"action", "action.joint_command.velocity"}),
        (
            [every(20, "/left_cmd", ARRAY, data=[1.0]), every(20, "/right_cmd", ARRAY, data=[1.0])],
            {"action.left_cmd.data", "action.right_cmd.data"},
        ),
    ],
)
def test_what_is_sent_to_the_robot_is_no_observation(tmp_path, commands, names):
    plan = plan_of(tmp_path / "a.mcap", joints(), *commands)
    assert {n for n in plan.features if not n.startswith("observation.")} == names
    assert plan.features["observation.state"].mapped.streams == ("/joint_states:position",)


def test_raw_droid_has_its_rate_and_task_and_no_times_as_features(tmp_path):
    path = tmp_path / "trajectory.h5"
    with h5py.File(path, "w") as file:
        file["action/joint_position"] = np.zeros((20, 7))
        file["observation/robot_state/joint_positions"] = np.zeros((20, 7))
        file["observation/timestamp/control/step_start"] = 1_680_000_000_000 + np.arange(20) * 67
        file.attrs["current_task"] = "stack the cups"
    with open_recording(path) as recording:
        plan = plan_import(recording)
    assert (plan.fps, plan.episodes[0].task) == (15, "stack the cups")
    observed = "observation.robot_state.joint_positions"
    assert set(plan.features) == {"action.joint_position", observed}


def test_a_stream_much_slower_than_rows_counts_farther_out():
    times = {"fast": clean(np.arange(0, 3000, 10) * MS), "slow": clean(np.array([900, 1900]) * MS)}

    def rows(method, gap):
        policies = {name: Policy(method, gap * MS) for name in times}
        (piece,) = align(times, policies, Fraction(100)).pieces
        return piece.times[0] // MS, piece.times[-1] // MS

    assert rows("nearest", 1500) == (400, 2900)
    assert rows("nearest", 600) == (600, 2500)
    assert rows("previous", 1500) == (900, 2900)


def test_several_bags_share_the_mapping_of_the_first_and_joints_go_by_name(tmp_path):
    word = Sent("/task", "std_msgs/msg/String", START_NS, {"data": "wave"})
    swapped = every(
        10, "/joint_states", JOINTS, name=["b", "a"], position=[2.0, 1.0], velocity=[0.0] * 2
    )
    short = every(100, "/gps", "sensor_msgs/msg/NavSatFix", until_ms=1500)
    sent = {"a": [*joints()], "b": [*swapped, *short, word]}
    paths = [
        write_mcap(tmp_path / f"{n}.mcap", sorted(s, key=lambda one: one.log_ns))
        for n, s in sent.items()
    ]
    made = import_dataset(paths, tmp_path / "d", changes=Changes(task="rest"))
    dataset = reel.open_dataset(made.path)
    assert dataset.features["observation.state"].names == ("a", "b")
    first, second = dataset.episodes
    assert first["observation.state"][0].tolist() == second["observation.state"][0].tolist()
    assert (first.tasks, second.tasks) == (("rest",), ("wave",))


def test_bags_that_do_not_fit_together_say_where(tmp_path):
    paths = []
    for name, names in (("a", ["x", "y"]), ("b", ["x", "z"])):
        sent = every(10, "/joint_states", JOINTS, name=names, position=[1.0, 2.0])
        paths.append(write_mcap(tmp_path / f"{name}.mcap", list(sent)))
    with pytest.raises(DatasetError, match=r"has no element 'y': there are x, z"):
        import_dataset(paths, tmp_path / "d")


def test_a_task_that_was_told_once_holds_when_the_clock_jumps_back(tmp_path):
    word = Sent("/task", "std_msgs/msg/String", START_NS, {"data": "wave"})
    sent = [word, *joints()]
    for one in sent[len(sent) // 2 :]:
        one.log_ns -= 5000 * MS
        one.values["header"] = header(one.log_ns)
    made = import_dataset(write_mcap(tmp_path / "a.mcap", sent), tmp_path / "d")
    dataset = reel.open_dataset(made.path)
    assert [(len(e), e.tasks) for e in dataset.episodes] == [(149, ("wave",)), (151, ("wave",))]
