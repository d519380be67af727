"""Recording through LeRobot's names."""

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import FrameError, RecordingError, UnsupportedArgumentError
from roboreel.schema import Depth, Feature

torch = pytest.importorskip("torch")

from roboreel.lerobot import LeRobotDataset
from roboreel.lerobot.encoders import choose_depth, encodings_of

SIZE = (32, 48)
FRONT = "observation.images.front"
FEATURES: dict[str, dict[str, Any]] = {
    "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    "note": {"dtype": "string", "shape": (1,), "names": None},
    FRONT: {"dtype": "image", "shape": (*SIZE, 3), "names": ["height", "width", "channels"]},
}
CONFIG = SimpleNamespace(
    vcodec="h264",
    pix_fmt="yuv420p",
    g=5,
    crf=20,
    preset="fast",
    fast_decode=1,
    extra_options={"a": 1},
)


def frame(i: int) -> dict[str, object]:
    return {
        "observation.state": torch.tensor([i, -i], dtype=torch.float32),
        "next.done": np.array([i == 2]),
        "note": f"frame {i}",
        FRONT: np.full((*SIZE, 3), 10 * i, np.uint8),
    }


def new(tmp_path, **arguments) -> LeRobotDataset:
    return LeRobotDataset.create(
        "ours/new", 10, FEATURES, tmp_path / "new", "arm", use_videos=False, **arguments
    )


def test_what_is_saved_can_be_read(tmp_path):
    dataset = new(tmp_path, streaming_encoding=True, image_writer_threads=4, batch_encoding_size=3)
    for episode in range(2):
        for i in range(3):
            dataset.add_frame({**frame(i), "task": f"task {episode}"})
        assert dataset.has_pending_frames()
        dataset.save_episode()
    assert (dataset.num_episodes, dataset.num_frames, dataset.meta.total_tasks) == (2, 6, 2)
    assert [dataset[i]["note"] for i in range(6)] == ["frame 0", "frame 1", "frame 2"] * 2
    with pytest.raises(RecordingError, match=r"Pickling comes after finalize\(\)"):
        pickle.dumps(dataset)
    dataset.finalize()
    dataset.finalize()
    item = dataset[4]
    assert (item["task"], item["note"], item["observation.state"].tolist()) == (
        "task 1",
        "frame 1",
        [1.0, -1.0],
    )
    assert item[FRONT].equal(torch.full((3, *SIZE), 10 / 255))
    with pytest.raises(RecordingError, match=r"add_frame\(\) comes after finalize"):
        dataset.add_frame(frame(0), task="again")


def test_a_task_is_in_the_frame_or_beside_it(tmp_path):
    dataset = new(tmp_path)
    dataset.add_frame(frame(0), task="lift", timestamp=0.0)
    dataset.add_frame({**frame(1), "task": "lift", "timestamp": np.array([0.1], np.float32)})
    with pytest.raises(FrameError, match=r"Missing features: {.task.}"):
        dataset.add_frame(frame(2))
    with pytest.raises(FrameError, match="'lift', and 'drop' is given"):
        dataset.add_frame({**frame(2), "task": "lift"}, task="drop")
    with pytest.raises(FrameError, match=r"timestamp is 7 s, but frame 2 .* is at 0.2 s"):
        dataset.add_frame(frame(2), "lift", 7.0)
    dataset.save_episode()
    dataset.finalize()
    assert [float(item["timestamp"]) for item in dataset[:]] == pytest.approx([0.0, 0.1])


def test_images_are_taken_as_lerobot_takes_them(tmp_path):
    dataset = new(tmp_path)
    image = np.arange(np.prod(SIZE) * 3).reshape(*SIZE, 3).astype(np.uint8)
    for given in (image, image.transpose(2, 0, 1), (image / 255).astype(np.float32)):
        dataset.add_frame({**frame(0), FRONT: given, "task": "look"})
    with pytest.raises(FrameError, match="values from 0 to 1: these are 0 to 255"):
        dataset.add_frame({**frame(0), FRONT: image.astype(np.float32), "task": "look"})
    dataset.save_episode()
    dataset.finalize()
    seen = [(item[FRONT] * 255).round().byte().permute(1, 2, 0).numpy() for item in dataset[:]]
    assert np.array_equal(seen[0], image)
    assert np.array_equal(seen[1], image)
    assert np.abs(seen[2].astype(int) - image).max() <= 1


def test_a_cleared_episode_is_gone_and_recording_resumes(tmp_path):
    dataset = new(tmp_path)
    dataset.add_frame(frame(0), task="no")
    dataset.clear_episode_buffer()
    assert not dataset.has_pending_frames()
    dataset.add_frame(frame(1), task="yes")
    dataset.save_episode()
    dataset.add_frame(frame(2), task="unsaved")
    dataset.finalize()
    more = LeRobotDataset.resume("ours/new", tmp_path / "new")
    more.add_frame(frame(2), task="more")
    more.save_episode()
    more.finalize()
    assert [item["task"] for item in LeRobotDataset("ours/new", tmp_path / "new")[:]] == [
        "yes",
        "more",
    ]
    with pytest.raises(UnsupportedArgumentError, match="needs root"):
        LeRobotDataset.resume("ours/new")


def test_what_is_being_recorded_is_not_pushed(tmp_path):
    pytest.importorskip("huggingface_hub")
    dataset = new(tmp_path)
    dataset.add_frame(frame(0), task="a")
    dataset.save_episode()
    with pytest.raises(RecordingError, match=r"push_to_hub comes after finalize\(\)"):
        dataset.push_to_hub()
    dataset.finalize()
    with pytest.raises(UnsupportedArgumentError, match=r"push_to_hub\(dataset_structure=…\)"):
        dataset.push_to_hub(dataset_structure="x")


def test_a_dataset_that_is_read_is_not_recorded(tmp_path):
    made = new(tmp_path)
    made.add_frame(frame(0), task="a")
    made.save_episode()
    made.finalize()
    dataset = LeRobotDataset("ours/new", tmp_path / "new")
    with pytest.raises(RecordingError, match=r"LeRobotDataset\.create or LeRobotDataset\.resume"):
        dataset.add_frame(frame(0), task="a")
    with pytest.raises(RecordingError, match="start_image_writer"):
        dataset.start_image_writer()
    with pytest.raises(AttributeError, match="create_episode_buffer is not supported"):
        dataset.create_episode_buffer()


def test_what_cannot_be_followed_is_refused_and_named(tmp_path):
    camera = {**FEATURES, FRONT: {**FEATURES[FRONT], "dtype": "video"}}
    with pytest.raises(UnsupportedArgumentError, match="h264_nvenc"):
        LeRobotDataset.create("ours/new", 10, camera, tmp_path / "new", vcodec="h264_nvenc")
    assert not (tmp_path / "new").exists()


def test_video_needs_use_videos_and_arguments_must_exist(tmp_path):
    camera = {**FEATURES, FRONT: {**FEATURES[FRONT], "dtype": "video"}}
    with pytest.raises(UnsupportedArgumentError, match="use_videos=False"):
        LeRobotDataset.create("ours/new", 10, camera, tmp_path / "new", use_videos=False)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        new(tmp_path, colour=True)


def test_encoder_settings_of_lerobot_become_ours():
    features = {
        "front": Feature("video", (*SIZE, 3)),
        "depth": Feature("video", (*SIZE, 1), depth=Depth()),
        "state": Feature("float32", (2,)),
    }
    assert encodings_of(features) is None
    with pytest.raises(UnsupportedArgumentError, match="Invalid vcodec 'gif'"):
        encodings_of({}, vcodec="gif")
    assert encodings_of(features, vcodec="h264") == {"front": reel.Encoding("h264")}
    chosen = encodings_of(features, rgb_encoder=CONFIG, encoder_threads=3) or {}
    assert chosen["front"] == reel.Encoding(
        "h264", 5, 20, "fast", threads=3, options={"a": "1", "tune": "fastdecode"}
    )
    assert chosen["depth"].threads == 3
    deep = SimpleNamespace(
        **{**vars(CONFIG), "vcodec": "hevc", "fast_decode": 0},
        depth_min=0.2, depth_max=4.0, shift=1.0, use_log=True,
    )  # fmt: skip
    deep.extra_options = {"x265-params": "lossless=1"}
    depth = choose_depth(features["depth"], deep)
    assert depth.depth == Depth(min_m=0.2, max_m=4.0, shift=1.0)
    encoding = (encodings_of({"depth": depth}, depth_encoder=deep) or {})["depth"]
    assert (encoding.codec, encoding.crf, encoding.depth) == ("hevc", None, depth.depth)
