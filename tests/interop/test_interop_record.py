"""LeRobot and Rerun open what is recorded, also between any two steps of a commit."""

import itertools
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from benchmarks.peers import peers_python
from roboreel.record.compact import compact_dataset
from roboreel.schema import Feature
from tests import PROJECT
from tests.factory import SHARED, needs_shared
from tests.recordings import FPS, NUMBERS, features, frame

pytestmark = pytest.mark.interop


LEROBOT = """
import json, sys
from benchmarks.peers.lerobot import declare_missing_operator
declare_missing_operator()
from lerobot.datasets.lerobot_dataset import LeRobotDataset
for root in sys.argv[1:]:
    dataset = LeRobotDataset("somebody/something", root=root, video_backend="pyav")
    frames = []
    for i in range(len(dataset)):
        item = dataset[i]
        images = [round(float(item[name].mean()) * 255) for name in dataset.meta.camera_keys]
        values = item["observation.state"].tolist()
        frames.append([item["index"].item(), item["episode_index"].item(), item["task"], values, images])
    stats = {name: dataset.meta.stats[name]["mean"].tolist() for name in dataset.meta.stats}
    records = [dict(record) for record in dataset.meta.episodes]
    print(json.dumps({"episodes": dataset.num_episodes, "frames": frames, "stats": stats, "records": records}))
"""

RECORDS_ON = """
import sys
import numpy as np
from benchmarks.peers.lerobot import declare_missing_operator
declare_missing_operator()
from lerobot.datasets.lerobot_dataset import LeRobotDataset
dataset = LeRobotDataset("somebody/something", root=sys.argv[1])
for _ in range(3):
    dataset.add_frame({"action": np.full(1, 8, np.float32), "task": "go"})
dataset.save_episode()
dataset.finalize()
"""


def run_lerobot(tmp_path: Path, script: str, *roots: Path) -> subprocess.CompletedProcess[str]:
    python = peers_python()
    if python is None:
        pytest.skip("there is no peers' environment")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = str(PROJECT)
    done = subprocess.run(
        [str(python), "-c", script, *map(str, roots)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def lerobot(tmp_path: Path, *roots: Path) -> list[dict[str, Any]]:
    """Return what LeRobot finds in datasets."""
    done = run_lerobot(tmp_path, LEROBOT, *roots)
    return [json.loads(line) for line in done.stdout.splitlines()]


def rerun_episode(root: Path, episode: int) -> tuple[list[list[float]], list[int]]:
    """Return the states of an episode and the images of each camera, as Rerun reads them."""
    experimental = pytest.importorskip("rerun.experimental")
    states: list[list[float]] = []
    images: Counter[str] = Counter()
    for chunk in experimental.LeRobotReader(str(root)).stream(episode):
        batch = chunk.to_record_batch()
        if chunk.entity_path == "/observation.state" and "Scalars:scalars" in batch.schema.names:
            states += batch.column("Scalars:scalars").to_pylist()
        for column in ("VideoStream:sample", "EncodedImage:blob"):
            if column in batch.schema.names:
                images[chunk.entity_path] += batch.num_rows
    return states, list(images.values())


def expected(lengths: list[int]) -> list[list[Any]]:
    frames: list[list[Any]] = []
    for episode, length in enumerate(lengths):
        for i in range(length):
            values = frame(episode, i)
            images = [int(values[name][0, 0, 0]) for name in features() if "images" in name]
            frames.append(
                [len(frames), episode, f"task {episode % 2}",
                 values["observation.state"].tolist(), images]
            )  # fmt: skip
    return frames


def check_found(found: dict[str, Any], lengths: list[int], store: str) -> None:
    assert found["episodes"] == len(lengths)
    lost = 2 if store == "video" else 0
    for ours, theirs in zip(expected(lengths), found["frames"], strict=True):
        assert theirs[:4] == ours[:4]
        assert np.abs(np.subtract(theirs[4], ours[4])).max() <= lost


def flat(store: str) -> dict[str, Feature]:
    """Return features that Rerun reads too: none of several dimensions."""
    return {name: f for name, f in features(store).items() if name != "action"}


def record_flat(recorder: reel.Recorder, episode: int, length: int) -> None:
    for i in range(length):
        values = {k: v for k, v in frame(episode, i).items() if k in recorder.features}
        recorder.add_frame(values, task=f"task {episode % 2}")


@pytest.fixture
def snapshots(monkeypatch, tmp_path):
    """Return a list that grows by a copy of the dataset before each of its files changes."""
    taken: list[Path] = []
    numbers = itertools.count()
    root = tmp_path / "dataset"

    def watch(name: str) -> None:
        real = getattr(os, name)

        def watched(first, *more, **options):
            # Writers name a file by its folder's handle, so that no link leads them elsewhere.
            handle = options.get("dst_dir_fd", options.get("dir_fd"))
            folder = Path() if handle is None else Path(f"/proc/self/fd/{handle}").resolve()
            target = folder / (more[0] if more else first)
            kinds = {root / kind for kind in ("data", "meta", "videos")}
            if kinds & set(target.parents) and (root / "meta" / "stats.json").exists():
                copy = tmp_path / "snapshots" / f"{next(numbers):03d}"
                shutil.copytree(root, copy)
                taken.append(copy)
            return real(first, *more, **options)

        monkeypatch.setattr(os, name, watched)

    watch("replace")
    watch("unlink")
    return taken


@pytest.mark.parametrize("store", ["video", "image"])
def test_lerobot_finds_every_value_and_image(tmp_path, store):
    root = tmp_path / "dataset"
    with reel.create_dataset(root, fps=FPS, features=features(store)) as recorder:
        for episode, length in enumerate([3, 5]):
            for i in range(length):
                recorder.add_frame(frame(episode, i), task=f"task {episode % 2}")
            recorder.save_episode()
    (found,) = lerobot(tmp_path, root)
    check_found(found, [3, 5], store)
    means = reel.open_dataset(root).stats
    for name in NUMBERS.keys() & found["stats"].keys():
        np.testing.assert_allclose(found["stats"][name], means[name].mean)


@pytest.mark.parametrize("store", ["video", "image"])
def test_all_readers_agree_between_any_two_steps(tmp_path, snapshots, store):
    root = tmp_path / "dataset"
    with reel.create_dataset(
        root, fps=FPS, features=flat(store), encoding=encoding_of(store), compact_on_close=False
    ) as recorder:
        for episode in range(3):
            record_flat(recorder, episode, 2 + episode)
            recorder.save_episode()
            if episode == 0:
                snapshots.clear()  # without an episode, LeRobot opens no dataset, nor its own
        saving = len(snapshots)
    compact_dataset(root)
    assert len(snapshots) > saving > 0
    lengths = [2, 3, 4]
    for folder, found in zip(snapshots, lerobot(tmp_path, *snapshots), strict=True):
        count = json.loads((folder / "meta" / "info.json").read_text())["total_episodes"]
        assert count == 3 or snapshots.index(folder) < saving
        check_found(found, lengths[:count], store)
        for episode in range(count):
            states, images = rerun_episode(folder, episode)
            wanted = [frame(episode, i)["observation.state"] for i in range(lengths[episode])]
            assert states == [values.tolist() for values in wanted]
            assert images == [lengths[episode]] * 2


def test_lerobot_opens_what_has_metadata_also_between_any_two_steps(tmp_path, snapshots):
    root, said = tmp_path / "dataset", [None, {"success": True, "score": 0.5}, {"operator": "ada"}]
    with reel.create_dataset(
        root, fps=FPS, features=flat("image"), compact_on_close=False
    ) as recorder:
        for episode, metadata in enumerate(said):
            record_flat(recorder, episode, 2)
            recorder.save_episode(metadata=metadata)
            if episode == 0:
                snapshots.clear()
    compact_dataset(root)
    *between, last = lerobot(tmp_path, *snapshots, root)
    for folder, found in zip(snapshots, between, strict=True):
        count = json.loads((folder / "meta" / "info.json").read_text())["total_episodes"]
        check_found(found, [2] * count, "image")
    check_found(last, [2, 2, 2], "image")
    none = {"success": None, "score": None, "operator": None}
    expected = [{**none, **(metadata or {})} for metadata in said]
    assert [{name: record[name] for name in none} for record in last["records"]] == expected
    pytest.importorskip("torch")
    from roboreel.lerobot import LeRobotDatasetMetadata

    records = LeRobotDatasetMetadata("a/b", root=root).episodes
    assert [dict(record) for record in records] == last["records"]


@pytest.mark.parametrize("store", ["video", "image"])
def test_lerobot_and_rerun_open_what_went_through_a_replay_buffer(tmp_path, store):
    with reel.create_dataset(tmp_path / "a", fps=FPS, features=flat("image")) as recorder:
        for episode, length in enumerate([3, 5]):
            record_flat(recorder, episode, length)
            recorder.save_episode()
    dataset = reel.open_dataset(tmp_path / "a")
    numbers = {n: f for n, f in dataset.features.items() if f.kind != "text"}
    with reel.ReplayBuffer.from_dataset(
        tmp_path / "buffer", dataset, capacity=20, features=numbers
    ) as buffer:
        buffer.to_dataset(tmp_path / "b", store=store, encoding=encoding_of(store))
    (found,) = lerobot(tmp_path, tmp_path / "b")
    check_found(found, [3, 5], "video")  # which JPEG blurs as little as video
    for episode, length in enumerate([3, 5]):
        states, images = rerun_episode(tmp_path / "b", episode)
        wanted = [frame(episode, i)["observation.state"] for i in range(length)]
        assert states == [values.tolist() for values in wanted]
        assert images == [length] * 2


def encoding_of(store: str) -> reel.Encoding | None:
    return reel.Encoding("h264") if store == "video" else None


@needs_shared
def test_a_dataset_of_lerobot_goes_on_and_lerobot_reads_both_parts(tmp_path):
    root = tmp_path / "dataset"
    shutil.copytree(SHARED / "lerobot_v30_video", root)
    before = reel.open_dataset(root)
    given = {n: f for n, f in before.features.items() if n not in reel_defaults()}
    with reel.resume_dataset(root) as recorder:
        for i in range(4):
            recorder.add_frame(
                {n: _value(f, i) for n, f in given.items()}, task=next(iter(before.tasks.values()))
            )
        recorder.save_episode()
    (found,) = lerobot(tmp_path, root)
    assert found["episodes"] == len(before.episodes) + 1
    assert [row[0] for row in found["frames"]] == list(range(len(before) + 4))
    assert [row[4] for row in found["frames"][-4:]] == [[60] * len(before.cameras)] * 4


def reel_defaults() -> set[str]:
    from roboreel.format.counters import COUNTERS

    return set(COUNTERS)


def _value(feature: Feature, i: int) -> object:
    if feature.is_camera:
        return np.full(feature.shape, 60, np.uint8)
    return np.full(feature.value_shape, i, feature.numpy_dtype)


def test_lerobot_records_on_in_a_dataset_of_ours(tmp_path):
    declared = {"action": Feature("float32", (1,))}
    with reel.create_dataset(tmp_path / "d", fps=FPS, features=declared) as recorder:
        for value in (1, 2, 3):
            recorder.add_frame({"action": np.full(1, value, np.float32)}, task="wait")
        recorder.save_episode()
    run_lerobot(tmp_path, RECORDS_ON, tmp_path / "d")
    dataset = reel.open_dataset(tmp_path / "d")
    assert dataset.read(range(6), ["action"])["action"].ravel().tolist() == [1, 2, 3, 8, 8, 8]
    assert dataset.stats["action"].mean.tolist() == [5.0]
