"""A replay buffer becomes a dataset: entirely or not at all, with equal values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import (
    EmptyBufferError,
    EncodingError,
    FrameError,
    MetadataError,
    RecordingError,
)
from roboreel.format.counters import COUNTERS
from roboreel.replay import convert
from roboreel.schema import Feature
from tests.factory import NUMBERS, write_dataset

SIZE = (16, 24)
FEATURES = {
    "action": Feature("float32", (2,), names=("x", "y")),
    "reward": Feature("float64", (1,)),
    "raw": Feature("uint8", (*SIZE, 3)),
    "jpeg": Feature("image", (*SIZE, 3)),
    "grey": Feature("image", (*SIZE, 1)),
}


def episode_of(numbers: Any, names: Any = FEATURES) -> dict[str, Any]:
    numbers = np.asarray(numbers)
    pixels = np.empty((len(numbers), *SIZE, 3), np.uint8)
    pixels[:] = (numbers * 20)[:, None, None, None]
    values = {
        "action": np.stack([numbers, -numbers], axis=1).astype(np.float32),
        "reward": numbers * 0.5,
        "raw": pixels,
        "jpeg": pixels,
        "grey": pixels[..., :1],
        "task_index": numbers % 2,
    }
    return {name: values[name] for name in names}


@pytest.fixture
def buffer(tmp_path):
    """Holds the episodes [4, 5, 6] and [7, 8], and an open one; [0, …, 3] has left."""
    with reel.ReplayBuffer(tmp_path / "buffer", capacity=6, features=FEATURES, fps=10) as opened:
        for numbers in (range(4), range(4, 7), range(7, 9)):
            opened.add_episode(episode_of(numbers))
        opened.add({name: value[0] for name, value in episode_of([9]).items()})
        yield opened


def left_behind(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} - {"buffer"}


@pytest.mark.parametrize("frames_at_once", [2, 32])
def test_whole_episodes_become_a_dataset_and_images_keep_every_pixel(
    tmp_path, buffer, monkeypatch, frames_at_once
):
    monkeypatch.setattr(convert, "_FRAMES_AT_ONCE", frames_at_once)
    written = buffer.to_dataset(tmp_path / "d", task="push", robot_type="arm", store="image")
    dataset = reel.open_dataset(tmp_path / "d")
    assert dataset.episodes.lengths.tolist() == [3, 2]
    assert (written, dataset.fps, dataset.manifest.robot_type) == (2, 10, "arm")
    assert dict(dataset.tasks) == {0: "push"}
    assert {n: f.dtype for n, f in dataset.features.items() if f.is_camera} == dict.fromkeys(
        ("raw", "jpeg", "grey"), "image"
    )
    assert dataset.features["action"].names == ("x", "y")
    for episode, held in zip(dataset.episodes, buffer.episodes(), strict=True):
        values = episode.read(list(held), layout="hwc")
        for name in held:
            np.testing.assert_array_equal(values[name], held[name])
    assert dataset.problems == ()
    assert len(dataset.manifest.data_files) == 1


def test_cameras_become_video_except_grey_ones(tmp_path, buffer):
    buffer.to_dataset(tmp_path / "d", task="push", encoding=reel.Encoding("h264"))
    dataset = reel.open_dataset(tmp_path / "d")
    kinds = {name: dataset.features[name].dtype for name in ("raw", "jpeg", "grey")}
    assert kinds == {"raw": "video", "jpeg": "video", "grey": "image"}
    images = dataset.read(range(5), ["raw", "jpeg", "grey"])
    for name in kinds:
        grey = np.rint(images[name].reshape(5, -1).mean(axis=1))
        assert np.abs(grey - np.arange(4, 9) * 20).max() <= 3


def test_from_a_dataset_and_back_all_values_are_equal(tmp_path):
    features = {**NUMBERS, "front": Feature("image", (8, 12, 3))}
    features = {name: f for name, f in features.items() if f.kind != "text"}
    write_dataset(tmp_path / "a", [3, 2, 4], features=features)
    before = reel.open_dataset(tmp_path / "a")
    with reel.ReplayBuffer.from_dataset(tmp_path / "buffer", before, capacity=20) as buffer:
        assert buffer.tasks == before.tasks
        (tmp_path / "b").mkdir()
        assert buffer.to_dataset(tmp_path / "b", store="image") == 3
        held = list(buffer.episodes())
    after = reel.open_dataset(tmp_path / "b")
    assert after.features.keys() == before.features.keys()
    numbers = [n for n, f in before.features.items() if f.kind == "number" and n != "task_index"]
    rows = range(len(before))
    for name, values in before.read(rows, numbers).items():
        np.testing.assert_array_equal(after.read(rows, [name])[name], values)
    assert after.read(rows, ["task"])["task"] == before.read(rows, ["task"])["task"]
    for episode, values in zip(after.episodes, held, strict=True):
        np.testing.assert_array_equal(
            episode.read(["front"], layout="hwc")["front"], values["front"]
        )


def test_frames_have_the_tasks_that_their_numbers_stand_for(tmp_path):
    features = {"action": FEATURES["action"], "task_index": COUNTERS["task_index"]}
    with reel.ReplayBuffer(
        tmp_path / "buffer", capacity=9, features=features, fps=10, tasks={0: "push", 1: "pull"}
    ) as buffer:
        buffer.add_episode(episode_of(range(3), features))
    with reel.ReplayBuffer(tmp_path / "buffer") as buffer:
        buffer.to_dataset(tmp_path / "d")
        buffer.to_dataset(tmp_path / "same", task="move")
        buffer["task_index"][buffer.rows] = 7
        with pytest.raises(FrameError, match=r"has task 7, and the buffer knows \[0, 1\]"):
            buffer.to_dataset(tmp_path / "e")
    tasks = reel.open_dataset(tmp_path / "d").read(range(3), ["task"])["task"]
    assert list(tasks) == ["push", "pull", "push"]
    assert list(reel.open_dataset(tmp_path / "same").tasks.values()) == ["move"]
    assert left_behind(tmp_path) == {"d", "same"}


def test_what_is_there_already_is_not_touched(tmp_path, buffer):
    buffer.to_dataset(tmp_path / "d", task="push", store="image")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "d").rglob("*")}
    with pytest.raises(RecordingError, match="/d' already exists: choose a new folder"):
        buffer.to_dataset(tmp_path / "d", task="push", store="image")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "d").rglob("*")} == before
    assert left_behind(tmp_path) == {"d"}


def test_beginnings_of_a_dataset_are_named_and_not_touched(tmp_path, buffer):
    (tmp_path / "d/meta").mkdir(parents=True)
    with pytest.raises(RecordingError, match="remove the folder"):
        buffer.to_dataset(tmp_path / "d", task="push", store="image")
    assert [path.name for path in (tmp_path / "d").rglob("*")] == ["meta"]
    assert left_behind(tmp_path) == {"d"}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"task": None}, FrameError, "knows no task"),
        ({"fps": 20}, FrameError, "20 fps were asked for: the buffer has 10"),
        (
            {"encoding": {"reward": reel.Encoding()}},
            EncodingError,
            "'reward', which is not a camera",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, buffer, options, error, message):
    with pytest.raises(error, match=message):
        buffer.to_dataset(tmp_path / "d", **{"task": "push", **options})
    assert left_behind(tmp_path) == set()


def test_an_error_on_the_way_leaves_nothing(tmp_path, buffer):
    buffer["reward"][buffer.rows[-1]] = np.nan
    with pytest.raises(FrameError, match="'reward' holds NaN"):
        buffer.to_dataset(tmp_path / "d", task="push", store="image")
    assert left_behind(tmp_path) == set()
    buffer.to_dataset(tmp_path / "d", task="push", store="image", nan_allowed=["reward"])


def test_a_rate_and_an_episode_are_needed(tmp_path):
    features = {"action": FEATURES["action"], "phase": Feature("complex64", (1,))}
    with reel.ReplayBuffer(tmp_path / "buffer", capacity=6, features=features) as buffer:
        with pytest.raises(FrameError, match="no rate: give fps"):
            buffer.to_dataset(tmp_path / "d", task="push")
        with pytest.raises(EmptyBufferError, match="No complete episode to write"):
            buffer.to_dataset(tmp_path / "d", task="push", fps=10)
        buffer.add({"action": [0, 0], "phase": np.complex64(1)}, end=True)
        with pytest.raises(MetadataError, match="'phase' is complex64"):
            buffer.to_dataset(tmp_path / "d", task="push", fps=10)
    assert left_behind(tmp_path) == set()


def test_an_episode_that_leaves_meanwhile_is_left_out(tmp_path, buffer, monkeypatch):
    buffer.discard_episode()
    monkeypatch.setattr(convert, "_FRAMES_AT_ONCE", 2)
    real, seen = reel.Recorder.add_frame, []

    def add_frame(recorder: reel.Recorder, frame: Any, *, task: str) -> None:
        real(recorder, frame, task=task)
        seen.append(frame["action"][0])
        if len(seen) == 1:
            buffer.add_episode(episode_of([10, 11]))

    monkeypatch.setattr(reel.Recorder, "add_frame", add_frame)
    assert buffer.to_dataset(tmp_path / "d", task="push", store="image") == 1
    assert seen == [4, 5, 7, 8]
    dataset = reel.open_dataset(tmp_path / "d")
    assert dataset.read(range(2), ["reward"])["reward"].tolist() == [3.5, 4.0]


@pytest.mark.parametrize(
    ("features", "tasks", "message"),
    [
        ({"action": FEATURES["action"]}, {0: "push"}, "declare .* as 'task_index'"),
        (COUNTERS, {"0": "push"}, "Task '0' is 'push'"),
        (COUNTERS, {0: None}, "Task 0 is None"),
    ],
)
def test_tasks_that_mean_nothing_are_refused(tmp_path, features, tasks, message):
    with pytest.raises(FrameError, match=message):
        reel.ReplayBuffer(tmp_path / "buffer", capacity=5, features=features, tasks=tasks)
    assert not (tmp_path / "buffer").exists()


def test_a_buffer_of_other_tasks_is_another_one(tmp_path):
    given: Any = {"capacity": 5, "features": COUNTERS}
    reel.ReplayBuffer(tmp_path / "buffer", **given, tasks={0: "push"}).close()
    assert reel.ReplayBuffer(tmp_path / "buffer", **given).tasks == {0: "push"}
    with pytest.raises(reel.DatasetError, match=r"tasks are \{0: 'push'\}, not \{0: 'pull'\}"):
        reel.ReplayBuffer(tmp_path / "buffer", **given, tasks={0: "pull"})
