"""Recordings whose every value tells its episode and frame, and what must hold for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

import roboreel as reel
from roboreel.schema import Feature

if TYPE_CHECKING:
    from pathlib import Path

FPS = 10
SIZE = (16, 24)
STATE = Feature("float32", (3,), names=("x", "y", "z"))
NUMBERS = {
    "observation.state": STATE,
    "action": Feature("float64", (2, 2)),
    "next.done": Feature("bool", (1,)),
    "note": Feature("string", (1,)),
}
CAMERAS = ("observation.images.front", "observation.images.wrist")


def features(store: str | None = "image", cameras: int = 2) -> dict[str, Feature]:
    """Return the features of a recording; no cameras with ``store=None``."""
    chosen = CAMERAS[:cameras] if store else ()
    return {**NUMBERS, **{name: Feature(store or "", (*SIZE, 3)) for name in chosen}}


def frame(episode: int, i: int, declared: dict[str, Feature] | None = None) -> dict[str, Any]:
    """Return the values of one frame."""
    number = episode * 100 + i
    values: dict[str, Any] = {
        "observation.state": np.array([number, -number, 0.5], np.float32),
        "action": np.array([[number, 1], [2, 3]], np.float64),
        "next.done": i % 2 == 0,
        "note": f"frame {number}",
    }
    values |= {name: picture(number, place) for place, name in enumerate(CAMERAS)}
    return {name: value for name, value in values.items() if not declared or name in declared}


def picture(number: int, camera: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return an image that tells its number in grey, coarse enough to survive any codec."""
    return np.full((*SIZE, 3), (number * 8 + camera * 100) % 240, np.uint8)


def record(recorder: reel.Recorder, episode: int, length: int, task: str = "") -> None:
    """Add the frames of an episode, without saving it."""
    for i in range(length):
        values = frame(episode, i, dict(recorder.features))
        recorder.add_frame(values, task=task or f"task {episode % 2}")


def check_dataset(root: Path, lengths: list[int]) -> reel.Dataset:
    """Open a dataset; its episodes have these lengths, and each value is what was recorded."""
    dataset = reel.open_dataset(root)
    assert dataset.episodes.lengths.tolist() == lengths
    rows = np.arange(len(dataset))
    names = [name for name in dataset.features if not dataset.features[name].is_camera]
    values: dict[str, Any] = dataset.read(rows, names) if len(rows) else {}
    expected = [(e, i) for e, length in enumerate(lengths) for i in range(length)]
    for row, (episode, i) in enumerate(expected):
        for name, value in frame(episode, i).items():
            if name in names:
                np.testing.assert_array_equal(values[name][row], value)
        assert values["frame_index"][row] == i
        assert values["episode_index"][row] == episode
        assert values["index"][row] == row
        assert values["timestamp"][row] == np.float32(i / FPS)
    check_as_lerobot(root)
    return dataset


def check_as_lerobot(root: Path) -> None:
    """Read a dataset as LeRobot does: files in the order of their names, counted by info.json."""
    info = json.loads((root / "meta" / "info.json").read_text())
    paths = sorted((root / "data").glob("*/*.parquet"))
    index = [i for path in paths for i in pq.read_table(path)["index"].to_pylist()]
    assert index[: info["total_frames"]] == list(range(info["total_frames"]))
    paths = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    start = 0
    for number, row in enumerate(rows[: info["total_episodes"]]):
        assert row["episode_index"] == number
        assert row["dataset_from_index"] == start
        start = row["dataset_to_index"]
        places: list[tuple[str, str, dict[str, str]]] = [("data", info["data_path"], {})]
        for camera, feature in info["features"].items():
            if feature["dtype"] == "video":
                places.append((f"videos/{camera}", info["video_path"], {"video_key": camera}))
        for prefix, template, fields in places:
            place = {k: row[f"{prefix}/{k}"] for k in ("chunk_index", "file_index")}
            assert (root / template.format(**place, **fields)).exists()
    assert start == info["total_frames"]
    litter = [p for kind in ("data", "meta", "videos") for p in (root / kind).rglob(".*")]
    assert not litter


def decoded(path: Path) -> list[int]:
    """Return the mean grey of every image of a video file, decoded without our reader."""
    import av

    with av.open(str(path)) as container:
        return [
            round(float(f.to_ndarray(format="rgb24").mean())) for f in container.decode(video=0)
        ]
