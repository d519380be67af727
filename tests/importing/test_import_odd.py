"""What real recordings have that tidy ones have not; each was made by the format's own writer."""

from __future__ import annotations

import gzip
import json
import zlib
from shutil import make_archive
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

from roboreel.errors import CorruptFileError, SourceError
from roboreel.image import encode_jpeg
from roboreel.importing import open_recording
from roboreel.importing.defaults import default_map, unmapped_streams
from roboreel.importing.planning import plan_import
from tests.importing import foreign

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
pytest.importorskip("rosbags")
Writer = pytest.importorskip("mcap.writer").Writer

from tests.importing.ros_files import START_NS, Sent, header, write_mcap

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STEPS = 6
PICTURES = [encode_jpeg(np.full((16, 24, 3), 40 * i, np.uint8)) for i in range(STEPS)]


def unmapped(path: Path) -> dict[str, str]:
    with open_recording(path) as recording:
        return unmapped_streams(recording, default_map(recording))


def features(path: Path) -> dict[str, tuple[str, ...]]:
    with open_recording(path) as recording:
        return {name: one.streams for name, one in default_map(recording).features.items()}


class TestHDF5:
    def test_jpeg_in_texts_of_fixed_length_is_a_camera(self, tmp_path):
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file["action"] = np.zeros((STEPS, 2))
            file["observation/head/rgb"] = np.array(PICTURES, f"S{max(map(len, PICTURES))}")
        with open_recording(tmp_path / "a.hdf5") as recording:
            assert recording.streams["observation/head/rgb"].kind == "pictures"
            found = recording.read(0, {"observation/head/rgb": np.arange(STEPS)})
        assert found["observation/head/rgb"] == PICTURES

    def test_a_group_is_found_under_each_of_its_names(self, tmp_path):
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file["action"] = np.zeros((STEPS, 3))
            group = file.create_group("a_name_that_comes_first")
            group["qpos"] = np.ones((STEPS, 3))
            file["observations"] = group  # a hard link
            group["loop"] = file["/"]
        with open_recording(tmp_path / "a.hdf5") as recording:
            assert recording.layout == "act"
            found = recording.read(0, {"observations/qpos": np.arange(STEPS)})
        np.testing.assert_array_equal(found["observations/qpos"], np.ones((STEPS, 3)))

    def test_links_are_followed_inside_the_file_only(self, tmp_path):
        with h5py.File(tmp_path / "other.hdf5", "w") as file:
            file["secret"] = np.full((STEPS, 2), 7.0)
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file["action"] = np.zeros((STEPS, 2))
            file["alias"] = h5py.SoftLink("/action")
            file["nothing"] = h5py.SoftLink("/nowhere")
            file["outside"] = h5py.ExternalLink("other.hdf5", "/")
            file["by_two_links"] = h5py.SoftLink("/outside/secret")
            layout = h5py.VirtualLayout((STEPS, 2), "f8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "secret", (STEPS, 2))
            file.create_virtual_dataset("virtual", layout)
        assert set(features(tmp_path / "a.hdf5").values()) == {("action",), ("alias",)}
        left = unmapped(tmp_path / "a.hdf5")
        assert left["outside"] == "It is a link to the file 'other.hdf5', which is not followed."
        assert "where nothing is found" in left["nothing"] + left["by_two_links"]
        assert left["virtual"] == "Its values lie in another file."

    def test_arrays_beside_episodes_are_listed(self, tmp_path):
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file["episode_0/action"] = file["episode_1/action"] = np.zeros((STEPS, 2))
            file["episode_0/success"] = file["episode_1/success"] = True
            file["calibration/K"] = np.eye(3)
        left = unmapped(tmp_path / "a.hdf5")
        assert left["/calibration/K"] == "It lies outside of the episodes."
        assert left["success"] == "It is one value, not one for each step."

    def test_times_of_another_stream_do_not_tell_the_rate(self, tmp_path):
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file["a_camera/timestamps"] = np.arange(30) / 30
            file["joints/data"] = np.zeros((100, 2))
            file["joints/timestamps"] = np.arange(100) / 100
            file["action"] = np.zeros((100, 2))
        with open_recording(tmp_path / "a.hdf5") as recording:
            assert (recording.fps, recording.fps_reason) == (
                100,
                "the times in 'joints/timestamps'",
            )

    def test_a_counter_of_steps_does_not_tell_the_rate(self, tmp_path):
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file["action"], file["timestamp"] = np.zeros((STEPS, 2)), np.arange(STEPS)
        with open_recording(tmp_path / "a.hdf5") as recording:
            assert recording.fps is None

    def test_actions_and_rewards_do_not_become_observations(self, tmp_path):
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            for name in ("action", "actions_abs", "action_dict/joint", "reward", "done"):
                file[name] = np.zeros(STEPS)
        assert features(tmp_path / "a.hdf5") == {
            "action": ("action",),
            "action.joint": ("action_dict/joint",),
            "action.abs": ("actions_abs",),
            "next.done": ("done",),
            "next.reward": ("reward",),
        }

    def test_the_task_may_be_a_list_of_one_or_stand_in_json(self, tmp_path):
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file["action"], file["language_raw"] = np.zeros((STEPS, 2)), [b"fold the towel"]
        with h5py.File(tmp_path / "b.hdf5", "w") as file:
            file["data/demo_0/actions"] = np.zeros((STEPS, 2))
            file["data/demo_0"].attrs["ep_meta"] = json.dumps({"lang": "open the drawer"})
        for name, task in (("a", "fold the towel"), ("b", "open the drawer")):
            with open_recording(tmp_path / f"{name}.hdf5") as recording:
                assert recording.episodes[0].task == task


MS = 1_000_000


def stamped(at_ms: float) -> tuple[int, dict[str, object]]:
    """Return the log time of a message and its header."""
    time_ns = START_NS + round(at_ms * MS)
    return time_ns, header(time_ns)


def driven(frames: int = 60) -> list[Sent]:
    """Return a camera at 30 Hz, and joints at 90 Hz."""
    sent = []
    for i in range(frames):
        time_ns, head = stamped(i * 33)
        picture = {
            "header": head,
            "format": "rgb8; jpeg compressed bgr8",
            "data": PICTURES[i % STEPS],
        }
        sent.append(Sent("/cam/compressed", "sensor_msgs/msg/CompressedImage", time_ns, picture))
        for k in range(3):
            time_ns, head = stamped(i * 33 + k * 11)
            state = {"header": head, "name": ["a", "b"], "position": [i, k]}
            sent.append(Sent("/joint_states", "sensor_msgs/msg/JointState", time_ns, state))
    return sent


def bag(path: Path, *parts: list[Sent]) -> Path:
    sent = sorted((one for part in parts for one in part), key=lambda one: one.log_ns)
    return write_mcap(path / "a.mcap", sent)


class TestMessages:
    def test_what_comes_on_events_does_not_cut_the_recording(self, tmp_path):
        moments = [(t, START_NS + t * MS) for t in (0, 20, 40, 60, 1900, 1920, 1940, 1960)]
        joy = [Sent("/joy", "sensor_msgs/msg/Joy", t, {"axes": [1.0]}) for _, t in moments]
        log = [Sent("/rosout", "rcl_interfaces/msg/Log", t, {"level": 20}) for _, t in moments]
        assert set(features(bag(tmp_path, driven(), joy, log))) == {
            "observation.images.cam",
            "observation.state",
        }
        left = unmapped(tmp_path / "a.mcap")
        assert left["/joy:axes"].startswith("it has long gaps")
        assert left["/rosout:level"] == "a log"

    def test_a_pause_of_the_whole_recording_is_not_a_gap_of_one_topic(self, tmp_path):
        late = driven()
        for one in late:
            one.log_ns += 60_000 * MS
            one.values["header"] = header(one.log_ns)
        assert len(features(bag(tmp_path, driven(), late))) == 2

    def test_point_clouds_and_calibrations_are_listed_and_not_mapped(self, tmp_path):
        others = []
        for i in range(20):
            time_ns, head = stamped(i * 100)
            cloud = {"header": head, "data": bytes(4 + i % 3)}
            others.append(Sent("/points", "sensor_msgs/msg/PointCloud2", time_ns, cloud))
            others.append(Sent("/info", "sensor_msgs/msg/CameraInfo", time_ns, {"header": head}))
        bag(tmp_path, driven(), others)
        assert len(features(tmp_path / "a.mcap")) == 2
        left = unmapped(tmp_path / "a.mcap")
        assert (left["/points:data"], left["/info:k"]) == (
            "a point cloud",
            "the calibration of a camera",
        )

    def test_bytes_of_an_unknown_format_are_not_mapped(self, tmp_path):
        sound = [
            Sent(
                "/mic", "std_msgs/msg/UInt8MultiArray", stamped(i * 33)[0], {"data": bytes(99 + i)}
            )
            for i in range(60)
        ]
        assert len(features(bag(tmp_path, driven(), sound))) == 2
        assert unmapped(tmp_path / "a.mcap")["/mic:data"] == "bytes of a format that is not known"

    def test_a_log_that_was_written_in_bursts_does_not_tell_the_rate(self, tmp_path):
        sent = driven()
        for place, one in enumerate(sent):
            since = one.log_ns - START_NS
            one.log_ns = START_NS + since // (330 * MS) * 330 * MS + place % 40 * MS // 10
        with open_recording(bag(tmp_path, sent)) as recording:
            assert plan_import(recording).fps == 30

    def test_joints_without_names_are_values_in_their_order(self, tmp_path):
        sent = [
            Sent(
                "/joints",
                "sensor_msgs/msg/JointState",
                START_NS + i * 10 * MS,
                {"position": [i, 1]},
            )
            for i in range(20)
        ]
        with open_recording(bag(tmp_path, sent)) as recording:
            found = recording.read(0, {"/joints:position": np.array([7])})
        assert np.asarray(found["/joints:position"]).tolist() == [[7, 1]]

    def test_an_array_that_changes_its_length_says_what_to_do(self, tmp_path):
        sent = [
            Sent("/a", "std_msgs/msg/Float32MultiArray", START_NS + i * MS, {"data": [0] * (3 + i)})
            for i in range(2)
        ]
        with (
            open_recording(bag(tmp_path, sent)) as recording,
            pytest.raises(
                SourceError, match=r"Message 1 .* has 4 values .* such as '/a:data\[0\]'"
            ),
        ):
            recording.read(0, {"/a:data": np.arange(2)})

    def test_fields_of_json_may_be_called_anything(self, tmp_path):
        names = ["joint-1", "a b", "x.y", "t:z", "1"]
        with (tmp_path / "a.mcap").open("wb") as file:
            writer = Writer(file)
            writer.start()
            channel = writer.register_channel("/state", "json", 0)
            for i in range(4):
                values = {name: [i + place, 0] for place, name in enumerate(names)}
                writer.add_message(channel, START_NS + i, json.dumps(values).encode(), START_NS + i)
            writer.finish()
        with open_recording(tmp_path / "a.mcap") as recording:
            wanted = {f"/state:{name}": np.array([2]) for name in names}
            found = recording.read(0, wanted)
        assert [np.asarray(found[name]).tolist() for name in wanted] == [
            [[2 + i, 0]] for i in range(5)
        ]


def write_rlds(folder: Path, steps: Mapping[str, object], *episodes: Mapping[str, object]) -> Path:
    """Write a dataset of one file, with these features of steps and the lists of each episode."""
    sequence = {"sequence": {"feature": {"featuresDict": {"features": steps}}}}
    declared = {"featuresDict": {"features": {"steps": sequence}}}
    folder.mkdir()
    (folder / "features.json").write_text(json.dumps(declared))
    data = foreign.tfrecord([foreign.example(lists) for lists in episodes])
    (folder / "mine-train.tfrecord-00000-of-00001").write_bytes(data)
    return folder


class TestRlds:
    action: ClassVar = {"action": foreign.tensor("float32", 2)}
    values: ClassVar = {"steps/action": np.arange(6, dtype=np.float32)}

    def test_files_that_are_missing_are_counted(self, tmp_path):
        write_rlds(tmp_path / "a", self.action, self.values)
        file = tmp_path / "a" / "mine-train.tfrecord-00000-of-00001"
        file.rename(file.with_name("mine-train.tfrecord-00007-of-01024"))
        with open_recording(tmp_path / "a") as recording:
            (said,) = recording.remarks
        assert said.startswith("Of the 1024 files of mine-train.tfrecord, 1 are there")

    @pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
    def test_files_that_are_compressed_as_a_whole_are_told(self, tmp_path, pack):
        write_rlds(tmp_path / "a", self.action, self.values)
        file = tmp_path / "a" / "mine-train.tfrecord-00000-of-00001"
        file.write_bytes(pack(file.read_bytes()))
        with pytest.raises(CorruptFileError, match="compressed as a whole"):
            open_recording(tmp_path / "a")

    def test_a_picture_that_is_missing_is_named_with_its_step(self, tmp_path):
        camera = {"image": {"dtype": "uint8", "encodingFormat": "jpeg"}}
        lists = {**self.values, "steps/top": [PICTURES[0], b"", PICTURES[2]]}
        write_rlds(tmp_path / "a", {**self.action, "top": camera}, lists)
        with (
            open_recording(tmp_path / "a") as recording,
            pytest.raises(CorruptFileError, match=r"'steps/top' has no picture at step 1: leave"),
        ):
            recording.read(0, {"top": np.arange(3)})

    def test_depth_that_is_packed_as_colours_is_not_taken_for_colours(self, tmp_path):
        camera = {"image": {"dtype": "float32", "encodingFormat": "png"}}
        lists = {**self.values, "steps/depth": PICTURES[:3]}
        write_rlds(tmp_path / "a", {**self.action, "depth": camera}, lists)
        assert "floating point" in unmapped(tmp_path / "a")["depth"]

    def test_features_as_older_versions_wrote_them_are_understood(self, tmp_path):
        write_rlds(tmp_path / "a", {}, self.values)
        tensor = {"shape": [2], "dtype": "float32", "encoding": "none"}
        action = {"type": "tfds.core.features.feature.Tensor", "content": tensor}
        inner = {"type": "tfds.core.features.FeaturesDict", "content": {"action": action}}
        steps = {"type": "tfds.core.features.Dataset", "content": {"feature": inner}}
        top = {"type": "tfds.core.features.FeaturesDict", "content": {"steps": steps}}
        (tmp_path / "a" / "features.json").write_text(json.dumps(top))
        with open_recording(tmp_path / "a") as recording:
            found = recording.read(0, {"action": np.arange(3)})
        assert np.asarray(found["action"]).tolist() == [[0, 1], [2, 3], [4, 5]]


class TestZarr:
    def test_a_zip_file_may_hold_the_folder_of_the_store(self, tmp_path):
        foreign.write_zarr(tmp_path / "pusht.zarr")
        packed = make_archive(str(tmp_path / "pusht"), "zip", tmp_path, "pusht.zarr")
        with open_recording(packed) as recording:
            assert recording.layout == "diffusion_policy"
            assert len(recording.read(0, {"action": np.arange(3)})["action"]) == 3

    @pytest.mark.parametrize("key", ["compressor", "filters"])
    @pytest.mark.parametrize("zipped", [False, True])
    def test_pickles_are_not_loaded(self, tmp_path, key, zipped):
        path = foreign.write_zarr(tmp_path / "a.zarr")
        described = path / "data" / "action" / ".zarray"
        changed = json.loads(described.read_text())
        codec = {"id": "pickle", "protocol": 4}
        changed[key] = [codec] if key == "filters" else codec
        described.write_text(json.dumps(changed))
        if zipped:
            path = make_archive(str(tmp_path / "a"), "zip", path)
        with pytest.raises(SourceError, match="stored as pickles"):
            open_recording(path)

    def test_metadata_of_a_zip_that_is_too_large_to_be_looked_at_is_refused(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("roboreel.importing.zarr_store._MOST_BYTES", 10)
        store = foreign.write_zarr(tmp_path / "a.zarr")
        path = make_archive(str(tmp_path / "a"), "zip", store)
        with pytest.raises(SourceError, match=r"The metadata has \d+ bytes, and at most 10"):
            open_recording(path)

    def test_rows_after_the_last_episode_are_counted(self, tmp_path):
        path = foreign.write_zarr(tmp_path / "a.zarr")
        group = zarr.open_group(str(path), mode="r+")
        group["meta/episode_ends"][:] = [2, 5]
        with open_recording(path) as recording:
            (said,) = recording.remarks
        assert said == "4 rows after the end of the last episode are left out."

    def test_chunks_that_are_not_stored_are_counted(self, tmp_path):
        path = foreign.write_zarr(tmp_path / "a.zarr")
        chunk = min(p for p in (path / "data" / "action").iterdir() if not p.name.startswith("."))
        chunk.unlink()
        with open_recording(path) as recording:
            (said,) = recording.remarks
        assert said.startswith("1 of the ")
        assert "chunks of data/action are not stored" in said
