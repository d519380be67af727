"""A dataset around one video file, to read its images as users do."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np

from roboreel.format import write_manifest
from roboreel.format.counters import COUNTERS
from roboreel.format.places import DATA_PATH, VIDEO_PATH
from roboreel.format.write_data import write_data_file
from roboreel.schema import ClipTable, EpisodeTable, Feature, FileSet, Manifest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CAMERA", "wrap_video"]

CAMERA = "observation.images.camera"


def wrap_video(path: Path, root: Path, *, length: int, size: tuple[int, int], fps: float) -> Path:
    """Write a dataset of one episode and one camera, whose video is a given file."""
    zero, one = np.zeros(1, np.int64), {"chunk_index": np.zeros(1, np.int64)}
    files = one | {"file_index": zero}
    frames = np.arange(length)
    manifest = Manifest(
        root=root,
        version="v3.0",
        fps=fps,
        features={CAMERA: Feature("video", (*size, 3)), **COUNTERS},
        tasks={0: "look"},
        episodes=EpisodeTable(
            number=zero,
            start=zero,
            length=np.array([length]),
            data_file=zero,
            data_row=zero,
            clips={CAMERA: ClipTable(zero, np.zeros(1), np.array([length / fps]))},
            task_bounds=np.array([0, 1]),
            task_codes=zero,
            task_texts=("look",),
        ),
        data_files=FileSet(DATA_PATH, files),
        video_files={CAMERA: FileSet(VIDEO_PATH, files, {"video_key": CAMERA})},
        splits={"train": "0:1"},
    )
    none = np.zeros(length, np.int64)
    columns = {
        "timestamp": frames / fps,
        "frame_index": frames,
        "episode_index": none,
        "index": frames,
        "task_index": none,
    }
    write_data_file(root / manifest.data_files[0], [columns], manifest.features)
    video = root / manifest.video_files[CAMERA][0]
    video.parent.mkdir(parents=True)
    try:
        os.link(path, video)
    except OSError:  # Another file system.
        shutil.copyfile(path, video)
    write_manifest(manifest)
    return root
