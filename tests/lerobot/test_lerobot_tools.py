"""What LeRobot's own tools and scripts ask of a dataset, beside its items."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import RecordingError
from roboreel.schema import Feature
from tests.factory import NUMBERS, SHARED, needs_shared, write_dataset, write_dataset_v2

torch = pytest.importorskip("torch")
pd = pytest.importorskip("pandas")

from roboreel.lerobot import (
    LeRobotDataset,
    LeRobotDatasetMetadata,
    MultiLeRobotDataset,
    StreamingLeRobotDataset,
)

LENGTHS = [3, 1, 7, 2, 5]
FRONT = "observation.images.front"


@dataclass
class TheirEncoder:
    """LeRobot's encoder settings, as far as they are looked at."""

    vcodec: str = "h264"
    g: int = 6
    crf: int = 23
    extra_options: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def dataset(tmp_path):
    write_dataset(tmp_path / "arm", LENGTHS)
    return LeRobotDataset("ours/arm", tmp_path / "arm")


def change_tasks(meta: LeRobotDatasetMetadata, tasks: dict[int, str]) -> Any:
    """Change the task of every episode in the files, as LeRobot's ``modify_tasks`` does."""
    texts = sorted(set(tasks.values()))
    for path in sorted((meta.root / "data").rglob("*.parquet")):
        frames = pd.read_parquet(path)
        frames["task_index"] = frames["episode_index"].map(lambda n: texts.index(tasks[n]))
        frames.to_parquet(path, index=False)
    for path in sorted((meta.root / "meta/episodes").rglob("*.parquet")):
        episodes = pd.read_parquet(path)
        episodes["tasks"] = episodes["episode_index"].apply(lambda n: [tasks[n]])
        episodes.to_parquet(path, index=False)
    table = pd.DataFrame({"task_index": range(len(texts))}, index=pd.Index(texts, name="task"))
    table.to_parquet(meta.root / "meta/tasks.parquet")
    meta.info.total_tasks = len(texts)
    (meta.root / "meta/info.json").write_text(json.dumps(meta.info.to_dict()))
    return table


@pytest.mark.parametrize("episodes", [None, [1, 4]])
def test_files_that_a_tool_has_changed_are_read_again(dataset, episodes):
    chosen = LeRobotDataset("ours/arm", dataset.root, episodes=episodes)
    assert len(chosen.hf_dataset) == len(chosen) == (18 if episodes is None else 6)
    assert chosen[0]["task"] not in ("b", "z")
    tasks = {0: "z", 1: "b", 2: "z", 3: "b", 4: "z"}
    chosen.meta.tasks = change_tasks(chosen.meta, tasks)
    chosen.meta.episodes = None  # They assign what they have read from the files.
    assert chosen.meta.total_tasks == 2
    for item in chosen[:]:
        assert item["task"] == tasks[int(item["episode_index"])]
        assert int(item["task_index"]) == "bz".index(item["task"])
    assert int(chosen.hf_dataset[0]["task_index"]) == int(chosen[0]["task_index"])


def test_info_can_be_changed_by_attribute(dataset):
    dataset.meta.info.robot_type = "arm"
    assert (dataset.meta.info["robot_type"], dataset.meta.robot_type) == ("arm", "arm")


def test_the_dataset_is_its_own_reader(dataset):
    reader = dataset.reader
    assert (reader.num_frames, reader.num_episodes) == (18, 5)
    assert int(reader.get_item(4)["index"]) == 4
    assert dataset.load_hf_dataset() is dataset.hf_dataset
    rows = dataset.hf_dataset.select([0])
    dataset.hf_dataset = rows
    assert dataset.hf_dataset is rows


def test_the_files_of_episodes_are_named(tmp_path):
    video = {**NUMBERS, FRONT: Feature("video", (48, 64, 3))}
    write_dataset_v2(tmp_path, [2, 3, 4], features=video)
    files = LeRobotDataset("ours/arm", tmp_path, episodes=[2, 0]).get_episodes_file_paths()
    names = [name.rpartition("/")[2] for name in files]
    assert names == [f"episode_00000{n}.{kind}" for kind in ("parquet", "mp4") for n in (2, 0)]
    assert all((tmp_path / file).is_file() for file in files[:2])


@needs_shared
def test_statistics_of_chosen_episodes_are_theirs():
    root = SHARED / "unitree_g1_v21"
    dataset = LeRobotDataset("shared/g1", root, episodes=[1, 2])
    each = dataset.meta.episodes_stats
    count = sum(int(each[n]["action"]["count"][0]) for n in (1, 2))
    assert dataset.stats["action"]["count"].tolist() == [count] == [len(dataset)]
    low = np.minimum(each[1]["action"]["min"], each[2]["action"]["min"])
    assert np.array_equal(dataset.stats["action"]["min"], low)
    whole = LeRobotDataset("shared/g1", root)
    assert whole.stats is whole.meta.stats


def record(root, **arguments) -> LeRobotDataset:
    features: dict[str, dict[str, Any]] = {
        "action": {"dtype": "float32", "shape": (2,), "names": None},
        FRONT: {"dtype": "video", "shape": (48, 64, 3), "names": ["height", "width", "channels"]},
    }
    dataset = LeRobotDataset.create("ours/arm", 10, features, root, vcodec="h264", **arguments)
    add_frames(dataset)
    dataset.save_episode()
    return dataset


def add_frames(dataset: LeRobotDataset) -> None:
    for i in range(4):
        image = np.full((48, 64, 3), 20 * i, np.uint8)
        dataset.add_frame({"action": np.zeros(2, np.float32), FRONT: image, "task": "lift"})


def test_a_video_that_was_encoded_again_is_described_anew(tmp_path):
    dataset = record(tmp_path / "arm")
    dataset.finalize()
    path = tmp_path / "arm" / dataset.meta.get_video_file_path(0, FRONT)
    again = [np.full((48, 64, 3), 20 * i, np.uint8) for i in range(4)]
    from roboreel.video.encode import encode_video

    encode_video(path, again, fps=10, encoding=reel.Encoding("hevc", 3))
    dataset.meta.update_video_info(
        video_key=FRONT, video_encoder=TheirEncoder("hevc", 3, 1), preserve_keys={"video.crf"}
    )
    info = dataset.meta.features[FRONT]["info"]
    assert (info["video.codec"], info["video.g"], info["is_depth_map"]) == ("hevc", 3, False)
    assert info["video.crf"] == 23
    assert float(dataset[2][FRONT].mean()) * 255 == pytest.approx(40, abs=2)


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_video_encoding_managers_of_lerobot_can_close_it(tmp_path, interrupted):
    dataset = record(tmp_path / "arm", batch_encoding_size=2)
    dataset.start_image_writer(num_processes=0, num_threads=4)
    add_frames(dataset)
    writer = dataset.writer
    assert writer is not None
    assert dataset.episode_buffer == writer.episode_buffer == {"episode_index": 1, "size": 4}
    # What those of 0.4.4 and 0.6.1 ask, in their order.
    assert dataset.episodes_since_last_encoding == 0
    assert writer._streaming_encoder is None
    dataset.finalize()
    if interrupted:
        images = dataset._get_image_file_path(episode_index=1, image_key=FRONT, frame_index=0)
        assert not images.parent.exists()
        writer.cleanup_interrupted_episode(dataset.num_episodes)
    dataset.stop_image_writer()
    assert dataset.num_episodes == 1
    assert not dataset.episode_buffer


def test_the_constructor_records_where_lerobots_does(tmp_path):
    record(tmp_path / "arm").finalize()
    with pytest.warns(DeprecationWarning, match=r"use LeRobotDataset\.resume"):
        dataset = LeRobotDataset(
            "ours/arm", tmp_path / "arm", streaming_encoding=True, vcodec="h264"
        )
    add_frames(dataset)
    dataset.save_episode()
    dataset.finalize()
    assert (dataset.num_episodes, len(dataset)) == (2, 8)
    reading = LeRobotDataset("ours/arm", tmp_path / "arm", rgb_encoder=SimpleNamespace())
    with pytest.raises(RecordingError, match="read-only"):
        reading.add_frame({})


def test_joined_and_streamed_datasets_say_what_they_are(tmp_path):
    write_dataset(tmp_path / "a" / "one", [2])
    write_dataset(tmp_path / "b" / "two", [4])
    joined = MultiLeRobotDataset(["a/one", "b/two"], tmp_path)
    assert joined.repo_index_to_id == {0: "a/one", 1: "b/two"}
    assert (joined.video, joined.video_frame_keys, joined.tolerance_s) == (False, [], 1e-4)
    deltas = {"action": [0.0, 1 / 30]}
    streamed = StreamingLeRobotDataset("b/two", tmp_path / "b" / "two", delta_timestamps=deltas)
    assert (streamed.delta_timestamps, streamed.delta_indices) == (deltas, {"action": [0, 1]})
    assert (streamed.image_transforms, streamed.depth_output_unit) == (None, "mm")
    assert (streamed.tolerance_s, streamed.streaming, streamed.revision) == (1e-4, True, "v3.0")
