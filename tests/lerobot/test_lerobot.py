"""LeRobot's names over ours."""

import json
import pickle

import numpy as np
import pytest

from roboreel.errors import (
    EpisodeNotFoundError,
    NotADatasetError,
    UnsupportedArgumentError,
    WindowError,
)
from roboreel.schema import Feature
from tests.factory import NUMBERS, SHARED, TASKS, needs_shared, write_dataset, write_dataset_v2

torch = pytest.importorskip("torch")

from roboreel.lerobot import LeRobotDataset, LeRobotDatasetMetadata

LENGTHS = [3, 1, 7, 2, 5]
IMAGES = {
    **NUMBERS,
    "observation.images.front": Feature("image", (8, 12, 3)),
    "small": Feature("uint8", (2,)),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("lerobot") / "dataset"
    write_dataset(root, LENGTHS, features=IMAGES)
    return root


@needs_shared
@pytest.mark.parametrize("kind", ["plain", "delta"])
@pytest.mark.parametrize(
    "name", ["lerobot_v30_numeric", "lerobot_v30_image", "lerobot_v30_video", "unitree_g1_v21"]
)
def test_items_are_those_that_lerobot_returned(name, kind):
    with np.load(SHARED / name / "expected.npz") as stored:
        deltas = json.loads(str(stored["delta_timestamps"])) if kind == "delta" else None
        dataset = LeRobotDataset("shared/data", SHARED / name, delta_timestamps=deltas)
        keys = [key.split("/", 2) for key in stored.files if key.startswith(f"{kind}/")]
        for row in sorted({int(row) for _, row, _ in keys}):
            item = dataset[row]
            assert set(item) == {key for _, other, key in keys if int(other) == row}
            for key, value in item.items():
                theirs = stored[f"{kind}/{row}/{key}"]
                if key == "task":
                    assert value == str(theirs)
                elif key in dataset.meta.camera_keys:
                    assert value.dtype == torch.float32
                    assert value.equal(torch.from_numpy(theirs).float() / 255), (key, row)
                else:
                    assert value.numpy().dtype == theirs.dtype, key
                    assert np.array_equal(value.numpy(), theirs), (key, row)


def test_numbers_have_the_types_of_lerobot(root):
    item = LeRobotDataset("ours/test", root)[4]
    types = {name: item[name].dtype for name in ("grid", "small", "next.done", "action")}
    assert types == {
        "grid": torch.float32,
        "small": torch.int64,
        "next.done": torch.bool,
        "action": torch.float32,
    }
    assert item["note"] == "row 4"
    assert item["task"] == TASKS[0]


def test_pictures_are_floats_even_if_bytes_are_asked_for_as_in_lerobot(root):
    floats = LeRobotDataset("ours/test", root)[4]["observation.images.front"]
    asked = LeRobotDataset("ours/test", root, return_uint8=True)[4]["observation.images.front"]
    assert floats.dtype == torch.float32
    assert floats.equal(asked)
    assert floats.shape == (3, 8, 12)


def test_episodes_come_in_the_order_of_the_dataset(root):
    dataset = LeRobotDataset("ours/test", root, episodes=[4, 0])
    assert [int(dataset[i]["index"]) for i in range(len(dataset))] == [0, 1, 2, 13, 14, 15, 16, 17]
    assert (dataset.num_frames, dataset.num_episodes, dataset.episodes) == (8, 2, [4, 0])
    assert dataset.meta.total_episodes == 5
    with pytest.raises(EpisodeNotFoundError, match="Episode 9"):
        LeRobotDataset("ours/test", root, episodes=[9])


def test_deltas_repeat_the_edge_and_say_so(root):
    dataset = LeRobotDataset("ours/test", root, delta_timestamps={"mode": [-1 / 30, 0, 1 / 30]})
    assert dataset.delta_indices == {"mode": [-1, 0, 1]}
    assert dataset[2]["mode"].tolist() == [100, 200, 200]
    assert dataset[2]["mode_is_pad"].tolist() == [False, False, True]
    with pytest.raises(WindowError, match="Between two frames"):
        LeRobotDataset("ours/test", root, delta_timestamps={"mode": [0.05]})
    with pytest.raises(KeyError, match="no feature 'akshun'"):
        LeRobotDataset("ours/test", root, delta_timestamps={"akshun": [0.0]})


def test_image_transforms_see_the_images_of_each_camera(root):
    dataset = LeRobotDataset("ours/test", root, image_transforms=lambda image: image.mean())
    assert dataset[1]["observation.images.front"].shape == ()


def test_a_dataloader_reads_batches(root):
    dataset = LeRobotDataset("ours/test", root, delta_timestamps={"action": [0.0, 1 / 30]})
    batches = list(torch.utils.data.DataLoader(dataset, batch_size=6))
    assert torch.cat([batch["index"] for batch in batches]).tolist() == list(range(18))
    assert batches[0]["action"].shape == (6, 2, 2)
    assert batches[0]["task"][0] == TASKS[0]
    one = dataset[7]
    assert batches[1]["action"][1].equal(one["action"])


def test_the_metadata_has_lerobots_names(root):
    meta = LeRobotDataset("ours/test", root).meta
    assert (meta.fps, meta.robot_type, meta.total_frames, meta.total_tasks) == (
        30,
        "test_arm",
        18,
        2,
    )
    assert meta.camera_keys == meta.image_keys == ["observation.images.front"]
    assert meta.video_keys == []
    assert meta.shapes["grid"] == (2, 3)
    assert meta.names["observation.state"] == ["x", "y", "z"]
    assert meta.episodes[2]["dataset_from_index"] == 4
    assert meta.episodes["dataset_to_index"] == [3, 4, 11, 13, 18]
    assert meta.episodes[-1]["tasks"] == [TASKS[0]]
    assert [episode["length"] for episode in meta.episodes] == LENGTHS
    assert meta.tasks.iloc[1].name == TASKS[1]
    assert meta.tasks.loc[TASKS[1]].task_index == meta.get_task_index(TASKS[1]) == 1
    assert meta.get_task_index("dance") is None
    assert meta.get_data_file_path(2).as_posix() == "data/chunk-000/file-001.parquet"
    assert meta.stats["action"]["mean"].shape == (2,)
    alone = LeRobotDatasetMetadata("ours/test", root)
    assert alone.features == meta.features


def test_version_two_datasets_are_read_too(tmp_path):
    write_dataset_v2(tmp_path, LENGTHS)
    dataset = LeRobotDataset("ours/test", tmp_path, api="v3.0")
    assert int(dataset[11]["index"]) == 11
    assert dataset.meta.episodes[3]["length"] == 2
    assert dataset.meta.episodes["length"] == LENGTHS
    assert dataset.meta.tasks.iloc[0].name == TASKS[0]
    assert dataset.meta.get_data_file_path(3).name == "episode_000003.parquet"


@pytest.mark.parametrize(
    "argument",
    [
        {"force_cache_sync": True},
        {"video_backend": "quicktime"},
        {"depth_output_unit": "cm"},
        {"api": "v1.0"},
    ],
)
def test_what_is_not_offered_is_refused_and_named(root, argument):
    with pytest.raises(UnsupportedArgumentError, match=next(iter(argument)).split("_")[0]):
        LeRobotDataset("ours/test", root, **argument)


def test_arguments_of_lerobot_are_accepted_and_others_are_not(root):
    LeRobotDataset(
        "ours/test",
        root,
        token="secret",
        rgb_encoder=object(),
        depth_encoder=None,
        encoder_threads=4,
        streaming_encoding=False,
        batch_encoding_size=1,
        encoder_queue_maxsize=60,
        vcodec="h264",
        depth_output_unit="m",
        episode_filter=None,
        download_videos=False,
    )
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsiodes'"):
        LeRobotDataset("ours/test", root, epsiodes=[1])


def test_a_pickle_is_small(root):
    dataset = LeRobotDataset("ours/test", root, episodes=[2], delta_timestamps={"action": [0.0]})
    assert dataset.meta.episodes
    frozen = pickle.dumps(dataset)
    assert len(frozen) < 6000
    assert int(pickle.loads(frozen)[0]["index"]) == 4


def test_without_a_root_the_id_is_looked_for_where_lerobot_keeps_datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(NotADatasetError, match=r"'ours/test' is not on this machine.*download"):
        LeRobotDataset("ours/test")
    write_dataset(tmp_path / "home" / "ours" / "test", LENGTHS)
    assert len(LeRobotDataset("ours/test")) == 18
