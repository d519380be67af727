"""Readers of HDF5, Zarr, RLDS and folders of media, by the contract of recordings."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import CorruptFileError, DatasetError, SourceError
from roboreel.importing import Changes, import_dataset, open_recording
from roboreel.importing.recording import Stream
from roboreel.importing.tf_example import masked_crc32c, parse_example
from tests.importing import foreign
from tests.importing.contracts_recording import RecordingContract
from tests.importing.foreign import images, jpeg, numbers, png

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")


class TestAct(RecordingContract):
    layout = "act"
    expected: dict[str, Any] = {  # noqa: RUF012  # as the contract has it
        "action": [numbers(range(6), 14, 10)],
        "observations/qpos": [numbers(range(6), 14)],
        "observations/images/cam_high": [[jpeg(row) for row in range(6)]],
    }

    def write(self, folder):
        return foreign.write_act(folder / "episode_0.hdf5")


class TestActWithoutCompression(RecordingContract):
    layout = "act"
    expected: dict[str, Any] = {"observations/images/cam_low": [images(range(6))]}  # noqa: RUF012  # as the contract has it

    def write(self, folder):
        return foreign.write_act(folder / "episode_0.hdf5", compress=False)

    def test_its_rate_is_that_of_the_layout(self, recording):
        assert (recording.fps, recording.fps_reason) == (50, "the layout act")


class TestRobomimic(RecordingContract):
    layout = "robomimic"
    expected: dict[str, Any] = {  # noqa: RUF012  # as the contract has it
        "actions": [numbers(range(5), 7, 10), numbers(range(5, 8), 7, 10)],
        "obs/agentview_image": [images(range(5)), images(range(5, 8))],
        "rewards": [np.arange(5.0), np.arange(5.0, 8.0)],
    }

    def write(self, folder):
        return foreign.write_robomimic(folder / "low_dim.hdf5")

    def test_demos_are_in_the_order_of_their_numbers_with_their_masks(self, recording):
        assert [episode.name for episode in recording.episodes] == ["demo_9", "demo_10"]
        assert recording.episodes[1].metadata == {"mask_train": False, "mask_valid": True}
        assert (recording.fps, recording.fps_reason) == (20, "control_freq of its env_args")


class TestLibero(RecordingContract):
    layout = "libero"
    expected: dict[str, Any] = {  # noqa: RUF012  # as the contract has it
        "obs/agentview_rgb": [images(range(5)), images(range(5, 8))]
    }

    def write(self, folder):
        return foreign.write_robomimic(folder / "KITCHEN_SCENE3_turn_it_on_demo.hdf5", libero=True)

    def test_its_task_is_the_language_of_the_problem(self, recording):
        assert recording.episodes[0].task == "put the bowl on the plate"

    def test_without_it_the_name_of_the_file_tells(self, path):
        with h5py.File(path, "a") as file:
            del file["data"].attrs["problem_info"]
        with open_recording(path) as recording:
            assert recording.episodes[0].task == "turn it on"


class TestPlainHDF5(RecordingContract):
    layout = "hdf5"
    expected: dict[str, Any] = {  # noqa: RUF012  # as the contract has it
        "action": [numbers(range(4), 2), numbers(range(4, 7), 2)],
        "rgb": [[png(row) for row in range(4)], [png(row) for row in range(4, 7)]],
        "state": [numbers(range(4), 3), numbers(range(4, 7), 3)],
        "depth": [np.full((4, 16, 20, 1), 1000), np.full((3, 16, 20, 1), 1004)],
    }

    def write(self, folder):
        return foreign.write_plain_hdf5(folder / "teleop.h5")

    def test_tasks_and_rate_come_from_attributes_and_timestamps(self, recording):
        assert [episode.task for episode in recording.episodes] == ["task 0", "task 1"]
        assert recording.episodes[0].metadata == {"operator": "ada"}
        assert (recording.fps, recording.fps_reason) == (25, "the times in 'timestamp'")
        assert recording.streams["depth"].depth_unit == "mm"


@pytest.mark.parametrize(
    ("names", "episodes"),
    [
        (["episode_0/action", "episode_1/action"], 2),
        (["data/3/action", "data/10/action"], 2),
        (["traj_0/action", "traj_1/action", "config"], 2),
        (["episode_0/arm/q", "episode_1/arm/q", "calibration/camera", "meta/x_0"], 2),
        (["cam_0/pose", "cam_1/pose", "action"], 1),
        (["arm_0/action", "arm_1/action"], 1),
        (["action", "extra_0/x", "extra_1/x"], 1),
    ],
)
def test_numbered_groups_are_episodes_unless_they_are_parts_of_the_robot(tmp_path, names, episodes):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in names:
            file[name] = np.zeros((4, 2))
    with open_recording(tmp_path / "a.h5") as recording:
        assert len(recording.episodes) == episodes


class ReplayBufferContract(RecordingContract):
    layout = "diffusion_policy"
    expected: dict[str, Any] = {  # noqa: RUF012  # as the contract has it
        "img": [images(range(5)), images(range(5, 9))],
        "state": [numbers(range(5), 5), numbers(range(5, 9), 5)],
        "action": [numbers(range(5), 2, 10), numbers(range(5, 9), 2, 10)],
    }

    def test_the_rate_is_not_known(self, recording):
        assert recording.fps is None


class TestZarr2(ReplayBufferContract):
    def write(self, folder):
        return foreign.write_zarr(folder / "pusht.zarr")


@pytest.mark.skipif(zarr.__version__.startswith("2."), reason="zarr 2 has no version 3")
class TestZarr3(ReplayBufferContract):
    def write(self, folder):
        return foreign.write_zarr(folder / "pusht.zarr", version=3)


class TestZarrInAZipFile(ReplayBufferContract):
    def write(self, folder):
        return foreign.write_zarr(folder / "pusht.zarr.zip", zipped=True)


class TestUmi(RecordingContract):
    layout = "umi"
    expected: dict[str, Any] = {"camera0_rgb": [images(range(5)), images(range(5, 9))]}  # noqa: RUF012  # as the contract has it

    def write(self, folder):
        from imagecodecs.numcodecs import Jpegxl

        return foreign.write_zarr(
            folder / "umi.zarr.zip", zipped=True, umi=True, compressors=[Jpegxl(lossless=True)]
        )


class TestRlds(RecordingContract):
    layout = "rlds"
    rows = (range(4), range(4, 7), range(7, 12))
    expected: dict[str, Any] = {  # noqa: RUF012  # as the contract has it
        "observation/image": [[jpeg(row) for row in rows] for rows in rows],
        "observation/state": [numbers(rows, 7) for rows in rows],
        "is_last": [np.array([row == rows[-1] for row in rows]) for rows in rows],
        "level": [-np.array(rows) for rows in rows],
        "language_instruction": [["put 0"] * 4, [""] * 3, ["put 2"] * 5],
    }

    def write(self, folder):
        return foreign.write_rlds(folder / "bridge_dataset" / "1.0.0")

    def test_the_folder_above_the_version_will_do(self, path):
        with open_recording(path.parent) as recording:
            assert len(recording.episodes) == 3

    def test_one_of_its_files_will_do(self, path):
        with open_recording(sorted(path.glob("*.tfrecord*"))[1]) as recording:
            assert [episode.length for episode in recording.episodes] == [5]

    def test_a_rate_that_was_published_is_taken_for_the_dataset_of_that_name(self, path, recording):
        assert (recording.fps, recording.fps_reason) == (5, "the published rate of this dataset")
        for file in path.glob("*.tfrecord*"):
            file.rename(file.with_name(file.name.replace("bridge_dataset", "mine")))
        with open_recording(path) as again:
            assert again.fps is None

    def test_episodes_have_their_split_and_metadata(self, recording):
        assert recording.episodes[1].metadata == {"split": "train", "file_path": "/raw/4.npy"}

    def test_a_byte_that_flips_is_found_by_its_checksum(self, path):
        file = min(path.glob("*.tfrecord*"))
        data = bytearray(file.read_bytes())
        data[len(data) // 4] ^= 1
        file.write_bytes(bytes(data))
        with (
            pytest.raises(CorruptFileError, match=r"damaged.*tfrecord"),
            open_recording(path) as recording,
        ):
            recording.read(0, {"action": np.arange(1)})

    @pytest.mark.parametrize("cut", [1, 5, 100])
    def test_a_file_that_is_cut_off_says_so(self, path, cut):
        file = sorted(path.glob("*.tfrecord*"))[1]
        file.write_bytes(file.read_bytes()[:-cut])
        with pytest.raises(CorruptFileError, match=file.name):
            open_recording(path)


class TestMediaFolder(RecordingContract):
    layout = "media_folder"
    expected: dict[str, Any] = {  # noqa: RUF012  # as the contract has it
        "action": [
            np.stack([np.arange(5), np.arange(5) + 0.5], 1),
            np.stack([np.arange(5, 9), np.arange(5, 9) + 0.5], 1),
        ],
        "gripper": [np.arange(5) % 2, np.arange(5, 9) % 2],
        "note": [[f"row {row}" for row in range(5)], [f"row {row}" for row in range(5, 9)]],
        "wrist": [[png(row) for row in range(5)], [png(row) for row in range(5, 9)]],
    }

    def write(self, folder):
        return foreign.write_media(folder / "runs")

    def test_a_video_is_a_stream_of_its_own(self, recording):
        assert recording.streams["front"].kind == "video"
        assert recording.streams["front"].codec == "h264"
        assert recording.video_path(1, "front").name == "front.mp4"
        assert recording.episodes[0].task == "stack the cups"
        assert recording.fps == 10

    def test_a_missing_image_is_counted(self, path):
        (path / "episode_1" / "wrist" / "7.png").unlink()
        with pytest.raises(SourceError, match="3 images of 'wrist', and 4 lines in the table"):
            open_recording(path)

    def test_a_table_may_name_the_files_but_none_outside(self, tmp_path):
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "a.png").write_bytes(png(1))
        (folder / "log.csv").write_text("x,camera\n1,a.png\n")
        with open_recording(folder) as recording:
            assert recording.read(0, {"camera": np.arange(1)})["camera"] == [png(1)]
        (folder / "log.csv").write_text("x,camera\n1,../../secret.png\n")
        with pytest.raises(SourceError, match="outside of"):
            open_recording(folder)


class TestWhatCannotBeRead:
    def test_nothing_is_there(self, tmp_path):
        with pytest.raises(SourceError, match="nothing to import at"):
            open_recording(tmp_path / "none.hdf5")

    def test_an_empty_file_is_named(self, tmp_path):
        (tmp_path / "a.hdf5").touch()
        with pytest.raises(SourceError, match=r"The file is empty: .*a\.hdf5"):
            open_recording(tmp_path / "a.hdf5")

    def test_a_file_of_another_kind_says_what_is_read(self, tmp_path):
        (tmp_path / "a.bin").write_bytes(b"something else")
        with pytest.raises(SourceError, match=r"No format is recognised.*HDF5 file.*RLDS dataset"):
            open_recording(tmp_path / "a.bin")

    def test_an_hdf5_file_without_steps_says_so(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["number"] = 3
        with pytest.raises(SourceError, match="no array with steps"):
            open_recording(tmp_path / "a.h5")

    def test_values_in_another_file_are_not_read(self, tmp_path):
        (tmp_path / "secret").write_bytes(b"\0" * 80)
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["action"] = np.zeros((10, 2))
            outside = [(str(tmp_path / "secret"), 0, 80)]
            file.create_dataset("other", (10,), "f8", external=outside)
        with open_recording(tmp_path / "a.h5") as recording:
            assert recording.streams["other"].kind == "other"
            assert "another file" in recording.streams["other"].note

    def test_an_array_that_claims_more_than_there_can_be_is_refused(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("action", (10**12, 2), "f4", chunks=(1, 2))
        with pytest.raises(SourceError, match="claims 1,000,000,000,000 steps"):
            open_recording(tmp_path / "a.h5")

    def test_a_huge_chunk_is_not_decoded(self, tmp_path):
        top = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
        create = getattr(top, "create_array", top.create_dataset)
        create("action", shape=(10, 10**9), chunks=(10, 10**9), dtype="f4")
        with pytest.raises(SourceError, match="A chunk of 'action'"):
            open_recording(tmp_path / "a.zarr")

    def test_a_huge_attribute_is_not_read(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
            file["action"] = np.zeros((10, 2))
            file.attrs.create("fps", np.zeros(17 * 1024**2, np.uint8))
        with pytest.raises(SourceError, match="The attribute 'fps' of '/' has more than"):
            open_recording(tmp_path / "a.h5")

    def test_an_attribute_without_a_value_is_passed_over(self, tmp_path):
        source = foreign.write_act(tmp_path / "a.hdf5")
        with h5py.File(source, "a") as file:
            file.attrs["nothing"] = h5py.Empty("f")
            file.attrs["fps"] = 25
        with open_recording(source) as recording:
            assert recording.streams["action"].shape == (14,)

    def test_a_zip_file_of_something_else_says_so(self, tmp_path):
        import zipfile

        with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
            file.writestr("a.txt", "hello")
        with pytest.raises(DatasetError, match=r"a\.zip"):
            open_recording(tmp_path / "a.zip")

    def test_ends_of_episodes_that_go_back_are_refused(self, tmp_path):
        path = foreign.write_zarr(tmp_path / "a.zarr", (5, -2))
        with pytest.raises(SourceError, match="do not ascend"):
            open_recording(path)

    def test_features_that_cannot_be_understood_are_named(self, tmp_path):
        path = foreign.write_rlds(tmp_path / "a")
        (path / "features.json").write_text('{"featuresDict": {"features": []}}')
        with pytest.raises(CorruptFileError, match=r"features\.json"):
            open_recording(path)
        (path / "features.json").write_text(json.dumps({"featuresDict": {"features": {}}}))
        with pytest.raises(SourceError, match="no steps"):
            open_recording(path)

    def test_a_record_whose_lists_differ_in_length_is_damaged(self, tmp_path):
        path = foreign.write_rlds(tmp_path / "a")
        lists = foreign.rlds_lists(range(4), "x")
        lists["steps/action"] = lists["steps/action"][:-1]
        for file in path.glob("*.tfrecord*"):
            file.write_bytes(foreign.tfrecord([foreign.example(lists)]))
        with (
            open_recording(path) as recording,
            pytest.raises(CorruptFileError, match="27 elements: 4 steps need 28"),
        ):
            recording.read(0, {"action": np.arange(4)})


def test_whole_numbers_are_twos_complement_of_any_size():
    values = [0, 1, -1, 127, 128, 2**40, -(2**40), 2**63 - 1, -(2**63)]
    example = parse_example(foreign.example({"a": values}))
    assert example.ints("a").tolist() == values


@pytest.mark.parametrize("length", [0, 1, 31, 32, 127, 128, 1000, 11_370, 11_371, 22_745, 181_923])
def test_the_checksum_is_the_one_calculated_bit_by_bit(length):
    data = np.random.default_rng(length).integers(0, 256, length, np.uint8).tobytes()
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    crc = register ^ 0xFFFFFFFF
    turned = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    assert masked_crc32c(data) == (turned + 0xA282EAD8) % 2**32


def test_the_checksum_has_the_value_that_its_standard_names():
    turned = (masked_crc32c(b"123456789") - 0xA282EAD8) % 2**32
    assert (turned << 15 | turned >> 17) & 0xFFFFFFFF == 0xE3069283


class TestEpisodesOneAfterTheOther:
    """Files of flat arrays that hold many episodes, as D4RL's."""

    ROWS = 160

    def write(self, path, **arrays):
        with h5py.File(path, "w") as file:
            file["observations"] = np.arange(2.0 * self.ROWS).reshape(-1, 2)
            file["actions"] = np.arange(1.0 * self.ROWS)[:, None]
            file["rewards"] = np.zeros(self.ROWS)
            file["metadata/policy/weight"] = np.zeros((256, 4))
            for name, values in arrays.items():
                file[name] = values
        return path

    def true_at(self, *rows, dtype=bool):
        return np.isin(np.arange(self.ROWS), rows).astype(dtype)

    def test_d4rl_is_cut_where_terminals_or_timeouts_is_true(self, tmp_path):
        path = self.write(
            tmp_path / "a.hdf5",
            terminals=self.true_at(99, dtype="u1"),
            timeouts=self.true_at(49, 149),
            next_observations=np.zeros((self.ROWS, 2)),
        )
        import_dataset(path, tmp_path / "out", changes=Changes(fps=20))
        dataset = reel.open_dataset(tmp_path / "out")
        assert dataset.manifest.episodes.length.tolist() == [50, 50, 50, 10]
        assert dataset.episodes[2]["action"].ravel().tolist() == list(range(100, 150))
        assert np.array_equal(
            dataset.episodes[3]["observation.state"], np.arange(300.0, 320).reshape(-1, 2)
        )
        assert set(dataset.features) >= {"next.reward", "next.terminal", "next.truncated"}
        assert "observation.next_observations" not in dataset.features
        assert dataset.episodes[1]["next.terminal"].tolist() == [False] * 49 + [True]
        with open_recording(path) as recording:
            assert recording.remarks == (
                "Episodes end where terminals or timeouts is true: 4 of them.",
                "No row ends the last of them, of 10 frames.",
            )

    @pytest.mark.parametrize(
        ("name", "values", "lengths"),
        [
            ("dones", np.isin(np.arange(160), [39, 159]).astype("f4"), [40, 120]),
            ("dones", np.isin(np.arange(160), [37, 38, 39, 158, 159]), [40, 120]),
            ("episode_index", np.arange(160) // 80, [80, 80]),
            ("meta/episode_ends", np.array([10, 150]), [10, 140]),
            ("terminals", np.zeros(160, bool), [160]),
            ("terminals", np.arange(160) / 160, [160]),
            ("dones", np.arange(160) == 159, [160]),
        ],
    )
    def test_other_arrays_tell_where_episodes_end(self, tmp_path, name, values, lengths):
        path = self.write(tmp_path / "a.hdf5", **{name: values})
        with open_recording(path) as recording:
            assert [episode.length for episode in recording.episodes] == lengths
            assert bool(recording.remarks) == (len(lengths) > 1 or not values.any())
            assert recording.streams["actions"].kind == "numbers"
            assert (
                recording.streams.get("metadata/policy/weight", Stream("x", "other")).kind
                == "other"
            )

    def test_ends_that_do_not_ascend_are_refused(self, tmp_path):
        path = self.write(tmp_path / "a.hdf5", episode_ends=np.array([50, 20]))
        with pytest.raises(SourceError, match="does not list the ends"):
            open_recording(path)
