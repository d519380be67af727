"""Every image of the shared datasets is the one that LeRobot's own reader returned."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from roboreel.io.budget import Budget
from roboreel.video.clip import Clip
from roboreel.video.reader import ClipRequest, VideoReader
from tests.factory import SHARED

FPS = 30.0


def _clips(root: Path, camera: str) -> Iterator[tuple[Path, float, float, int, int]]:
    """Return path, start, stop, first row and length of each episode."""
    info = json.loads((root / "meta" / "info.json").read_text())
    if info["codebase_version"] == "v3.0":
        table = pq.read_table(root / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
        column = f"videos/{camera}"
        for row in table.to_pylist():
            path = root / info["video_path"].format(
                video_key=camera,
                chunk_index=row[f"{column}/chunk_index"],
                file_index=row[f"{column}/file_index"],
            )
            span = row[f"{column}/from_timestamp"], row[f"{column}/to_timestamp"]
            yield path, *span, row["dataset_from_index"], row["length"]
    else:
        first = 0
        for line in (root / "meta" / "episodes.jsonl").read_text().splitlines():
            row = json.loads(line)
            path = root / info["video_path"].format(
                video_key=camera, episode_chunk=0, episode_index=row["episode_index"]
            )
            yield path, 0.0, row["length"] / info["fps"], first, row["length"]
            first += row["length"]


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared datasets")
@pytest.mark.parametrize("name", ["lerobot_v30_video", "unitree_g1_v21"])
def test_every_image_is_equal_to_the_one_that_lerobot_returns(name):
    reader = VideoReader(budget=Budget(), threads=2)
    root = SHARED / name
    expected = np.load(root / "expected.npz")
    cameras = [
        name
        for name, feature in json.loads((root / "meta" / "info.json").read_text())[
            "features"
        ].items()
        if feature["dtype"] == "video"
    ]
    deltas = json.loads(str(expected["delta_timestamps"]))
    checked = 0
    for camera in cameras:
        for path, start, stop, first, length in _clips(root, camera):
            for row in range(first, first + length):
                for kind, offsets in (
                    ("plain", [0]),
                    ("delta", np.rint(np.array(deltas[camera]) * FPS)),
                ):
                    key = f"{kind}/{row}/{camera}"
                    if key in expected.files:
                        images = expected[key].reshape(len(offsets), *expected[key].shape[-3:])
                        frames = np.clip(row - first + np.array(offsets), 0, length - 1)
                        out = np.zeros_like(images)
                        asked = ClipRequest(
                            path=path,
                            clip=Clip(start, stop, length, FPS),
                            frames=frames.astype(np.int64),
                            slots=np.arange(len(frames)),
                            episode=0,
                            camera=camera,
                        )
                        reader.read(reader.plan([asked]), out, layout="chw")
                        assert np.array_equal(out, images), key
                        checked += 1
    images = [key for key in expected.files if key.split("/")[-1] in cameras]
    assert checked == len(images) > 5
    reader.close()
