"""What real recordings have that tidy ones have not; each was made by the format's own writer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np

from roboreel.image import encode_jpeg
from roboreel.importing import open_recording
from roboreel.importing.defaults import default_map, unmapped_streams

if TYPE_CHECKING:
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
