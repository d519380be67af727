"""New datasets and their settings through LeRobot's names."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import FolderTakenError, FrameError, MetadataError
from roboreel.image import decode_image, encode_depth
from roboreel.record import FileSizes
from roboreel.schema import Depth, Feature

torch = pytest.importorskip("torch")

from roboreel.lerobot import LeRobotDataset, LeRobotDatasetMetadata
from roboreel.lerobot.language import default_tools

NUMBERS: dict[str, dict[str, Any]] = {
    "state": {"dtype": "float32", "shape": (2,), "names": None},
    "grip": {"dtype": "float32", "shape": (1,), "names": None},
}
DEPTH = {"dtype": "image", "shape": (8, 16, 1), "info": {"is_depth_map": True}}
FRAME = {"state": np.zeros(2, np.float32), "grip": np.zeros(1, np.float32), "task": "wait"}


def info_of(root: Path) -> dict[str, Any]:
    return dict(json.loads((root / "meta/info.json").read_text()))


def record(dataset: LeRobotDataset, episodes: int = 1) -> None:
    for _ in range(episodes):
        dataset.add_frame(FRAME)
        dataset.save_episode()


def test_new_metadata_is_empty_and_can_be_recorded_into(tmp_path):
    root = tmp_path / "new"
    meta = LeRobotDatasetMetadata.create("ours/new", 10, NUMBERS, "arm", root, chunks_size=7)
    assert (meta.total_episodes, meta.robot_type, meta.chunks_size) == (0, "arm", 7)
    assert (meta.tasks, meta.episodes, meta.stats, meta.video_path) == (None, None, None, None)
    dataset = LeRobotDataset.resume("ours/new", root)
    record(dataset)
    dataset.finalize()
    assert list(dataset.meta.tasks.index) == ["wait"]
    assert (len(dataset.meta.episodes), "state" in dataset.meta.stats) == (1, True)


@pytest.mark.parametrize("maker", [LeRobotDataset, LeRobotDatasetMetadata])
def test_a_folder_that_exists_is_refused_even_if_it_is_empty(maker, tmp_path):
    with pytest.raises(FileExistsError, match="already exists: choose a new folder") as caught:
        maker.create("ours/new", fps=10, features=NUMBERS, root=tmp_path)
    assert isinstance(caught.value, FolderTakenError)


def test_file_sizes_hold_while_episodes_are_recorded_and_joined(tmp_path):
    root = tmp_path / "new"
    dataset = LeRobotDataset.create(
        "ours/new", 10, NUMBERS, root, chunks_size=2, data_files_size_in_mb=0.01
    )
    record(dataset, 3)
    assert (root / "data/chunk-001/file-000.parquet").exists()
    dataset.meta.update_chunk_settings(video_files_size_in_mb=50)
    record(dataset)
    # Two files of an episode fit into 0.01 MB, four do not.
    size_bytes = (root / "data/chunk-000/file-000.parquet").stat().st_size
    assert 2 * size_bytes < 0.01 * 2**20 < 4 * size_bytes
    dataset.finalize()
    assert len(list(root.glob("data/*/*.parquet"))) > 1
    assert info_of(root)["chunks_size"] == 2
    assert dataset.meta.get_chunk_settings() == {
        "chunks_size": 2,
        "data_files_size_in_mb": 0.01,
        "video_files_size_in_mb": 50,
    }
    assert [float(item["grip"]) for item in dataset[:]] == [0.0] * 4


def test_settings_of_a_finished_dataset_can_be_changed(tmp_path):
    root = tmp_path / "new"
    with reel.create_dataset(
        root, fps=10, features=NUMBERS, files=FileSizes(data_mb=1, files_per_chunk=9)
    ) as recorder:
        recorder.add_frame({"state": np.zeros(2, np.float32), "grip": 0.5}, task="wait")
        recorder.save_episode()
    meta = LeRobotDatasetMetadata("ours/new", root)
    assert (meta.chunks_size, meta.data_files_size_in_mb) == (9, 1)
    meta.update_chunk_settings(chunks_size=500)
    meta.update_chunk_settings()
    assert (meta.chunks_size, info_of(root)["chunks_size"]) == (500, 500)
    assert (meta.data_files_size_in_mb, meta.total_frames) == (1, 1)
    for name in ("chunks_size", "data_files_size_in_mb", "video_files_size_in_mb"):
        with pytest.raises(MetadataError, match=f"{name} must be positive"):
            meta.update_chunk_settings(**{name: 0})
    with pytest.raises(MetadataError, match="chunks_size is a whole number"):
        FileSizes(files_per_chunk=2.5)  # type: ignore[arg-type]
    with reel.resume_dataset(root, files=FileSizes(video_mb=3)):
        assert info_of(root)["video_files_size_in_mb"] == 3


def test_tools_are_kept_in_the_metadata(tmp_path):
    root = tmp_path / "new"
    meta = LeRobotDatasetMetadata.create("ours/new", 10, NUMBERS, root=root)
    assert (meta.tools, "tools" in info_of(root)) == (default_tools(), False)
    look = {"type": "function", "function": {"name": "look"}}
    meta.tools = [look]
    assert (meta.tools, meta.info.tools, info_of(root)["tools"]) == ([look], [look], [look])
    meta.tools = None
    assert (meta.tools, "tools" in info_of(root)) == (default_tools(), False)


def test_the_tool_of_a_dataset_without_tools_has_lerobots_words_where_it_is_imported(
    tmp_path, monkeypatch
):
    meta = LeRobotDatasetMetadata.create("ours/new", 10, NUMBERS, root=tmp_path / "new")
    (say,) = meta.tools
    assert say["function"]["name"] == "say"
    theirs = {"type": "function", "function": {"name": "say", "description": "Their words."}}
    language = SimpleNamespace(DEFAULT_TOOLS=[theirs])
    monkeypatch.setitem(sys.modules, "lerobot.datasets.language", language)
    assert meta.tools == [theirs]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": None}, "Missing features: {'task'}\n"),
        ({"grip": None}, "Missing features: {'grip'}\n"),
        ({"more": 1}, "Extra features: {'more'}\n"),
        ({"grip": 1.0}, "'grip' is not a 'np.ndarray'. Expected type is 'float32', but type"),
        ({"grip": np.float32(1)}, "type '<class 'numpy.float32'>' provided instead"),
        ({"grip": torch.tensor(1.0)}, "of shape '()' does not have the expected shape '(1,)'"),
        ({"grip": np.zeros(1)}, "of dtype 'float64' is not of the expected dtype 'float32'"),
    ],
)
def test_a_frame_that_lerobot_refuses_is_refused_in_its_words(change, said, tmp_path):
    dataset = LeRobotDataset.create("ours/new", 10, NUMBERS, tmp_path / "new")
    given = {name: value for name, value in {**FRAME, **change}.items() if value is not None}
    with pytest.raises(FrameError) as caught:
        dataset.add_frame(given)
    assert said in str(caught.value)
    assert not dataset.has_pending_frames()
    dataset.finalize()


def test_the_metadata_says_how_the_encoder_was_set(tmp_path):
    camera = Feature("video", (32, 48, 3))
    depth = Feature("video", (32, 48, 1), depth=Depth())
    encoding = {"rgb": reel.Encoding(crf=31.5, keyframe_distance=4, preset=13)}
    reel.create_dataset(
        tmp_path / "new", fps=10, features={"rgb": camera, "depth": depth}, encoding=encoding
    ).close()
    rgb, far = (info_of(tmp_path / "new")["features"][name]["info"] for name in ("rgb", "depth"))
    assert (rgb["video.g"], rgb["video.crf"], rgb["video.preset"]) == (4, 31.5, 13)
    assert rgb["video.extra_options"] == {}
    assert (far["video.g"], far["video.crf"], far["video.preset"]) == (2, None, "ultrafast")
    assert far["video.extra_options"] == {"x265-params": "lossless=1"}


@pytest.mark.parametrize("unit", ["m", "mm"])
def test_depth_can_be_recorded_as_pictures(unit, tmp_path):
    entry = {**DEPTH, "info": {"is_depth_map": True, "depth_unit": unit}}
    dataset = LeRobotDataset.create(
        "ours/new", 10, {"depth": entry}, tmp_path / "new", use_videos=False
    )
    metres = np.linspace(0.001, 4, 128).reshape(8, 16, 1).round(3)
    for image in ((metres * 1000).round().astype(np.uint16), metres.astype(np.float32)):
        dataset.add_frame({"depth": image, "task": "look"})
    dataset.save_episode()
    dataset.finalize()
    for item in dataset[:]:
        assert np.abs(item["depth"].numpy()[0] - 1000 * metres[..., 0]).max() < 1e-3
    assert float(dataset.meta.stats["depth"]["max"].item()) == pytest.approx(4000)
    assert dataset.meta.depth_keys == ["depth"]


def test_depth_video_is_read_in_rounded_millimetres_or_in_metres(tmp_path):
    camera = Feature("video", (64, 64, 1), depth=Depth())
    metres = np.linspace(0.5, 4, 64 * 64, dtype=np.float32).reshape(64, 64, 1)
    with reel.create_dataset(tmp_path / "new", fps=10, features={"depth": camera}) as recorder:
        for _ in range(2):
            recorder.add_frame({"depth": metres}, task="look")
        recorder.save_episode()
    stored = reel.open_dataset(tmp_path / "new").read([1])["depth"][0]
    assert np.abs(stored[0] - metres[..., 0]).max() < 0.02
    default = LeRobotDataset("ours/new", tmp_path / "new")[1]["depth"].numpy()
    assert np.array_equal(default, default.round())
    assert np.abs(default - stored * 1000).max() < 0.501
    given = LeRobotDataset("ours/new", tmp_path / "new", depth_output_unit="m")
    np.testing.assert_allclose(given[1]["depth"].numpy(), stored, rtol=1e-6)


def test_depth_pictures_hold_what_was_given():
    far = np.array([[0.0015, np.nan], [70.0, 2.0]])
    assert decode_image(encode_depth(far, "mm"))[..., 0].tolist() == [[2, 0], [65535, 2000]]
    assert decode_image(encode_depth(far, "m")).dtype == np.float32
    kept = decode_image(encode_depth(np.array([[1500, 0]], np.uint16), "m"))
    assert kept[..., 0].tolist() == [[1.5, 0.0]]
