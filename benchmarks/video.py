"""Reading images from video: at random, in batches, and from first to last."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cases.video import CONTENDER_ALONE
from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.peers import lerobot, torchcodec
from benchmarks.results import CPU_MS, HELD_MB, PEAK_MB, PER_SECOND
from benchmarks.video_dataset import wrap_video
from roboreel.demo_arm.arm import simulate_episode
from roboreel.demo_arm.render import render
from roboreel.video.encode import VideoWriter
from roboreel.video.encoding import Encoding
from roboreel.video.mp4 import read_packet_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["BENCHMARK"]

FILES = {
    "AV1, keyframe every 2": Encoding("av1"),
    "H.264, keyframe every 2": Encoding("h264"),
    "AV1, keyframe every 30": Encoding("av1", keyframe_distance=30),
    "H.264 with B, keyframe every 250": Encoding(
        "h264", keyframe_distance=250, options={"bf": "3", "preset": "fast"}
    ),
}
# Real footage, if it lies beside the repository: 480 x 640, AV1, keyframe every 2.
_REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "unitree_g1_v21" / "videos"


def cases(settings: Settings) -> list[Case]:
    """Render footage of a moving camera, encode it in several ways, and list who reads it."""
    size, length = ((48, 64), 40) if settings.quick else ((480, 640), 500)
    paths = {title: settings.scratch / f"{number}.mp4" for number, title in enumerate(FILES)}
    with ExitStack() as stack:
        writers = [
            stack.enter_context(VideoWriter(paths[title], size=size, fps=30, encoding=encoding))
            for title, encoding in FILES.items()
        ]
        for image in _footage(size, length):
            for writer in writers:
                writer.write(image)
    real = sorted(_REAL.glob("*/*/*.mp4"))
    if real and not settings.quick:
        paths["AV1, keyframe every 2, a Unitree G1"] = real[0]
    return [case for title, path in paths.items() for case in _contenders(settings, title, path)]


def _footage(size: tuple[int, int], length: int) -> Iterator[NDArray[np.uint8]]:
    """Yield what the wrist camera sees, with sensor noise: about 9 KB per image."""
    rng = np.random.default_rng(0)
    for scene in simulate_episode(0, 0, length, 30, variation=0).scenes:
        noise = rng.normal(0, 3, (*size, 1))
        yield np.clip(render(scene, "wrist", size) + noise, 0, 255).astype(np.uint8)


def _contenders(settings: Settings, title: str, path: Path) -> list[Case]:
    table = read_packet_table(path)
    # Fewer if keyframes are far apart: each image then costs a hundred.
    count = 192 if table.keyframe.mean() > 0.01 else 48
    length = len(table.shown)
    given: dict[str, Any] = {"path": str(path), "length": length}
    given["count"] = 32 if settings.quick else count
    ours = "benchmarks.cases.video"
    root = settings.scratch / f"dataset of {path.stem}"
    wrap_video(path, root, length=length, size=table.coding.image_size, fps=30)
    as_users = given | {"root": str(root)}
    listed = [
        Case(title, OURS, ours, "read", as_users | {"threads": 1}),
        Case(f"{title}, on 2 threads", OURS, ours, "read", as_users | {"threads": 2}),
    ]
    if settings.peers is not None:
        peer = torchcodec.__name__
        one_thread = {"OMP_NUM_THREADS": "1"}  # With more, LeRobot is slower.
        listed.append(Case(title, CONTENDER_ALONE, ours, "decode_alone", given))
        listed += [
            Case(title, name, peer, function, given, settings.peers, environment=one_thread)
            for name, function in (
                (torchcodec.CONTENDER, "read_exact"),
                (lerobot.CONTENDER, "read_as_lerobot"),
            )
        ]
    return listed


BENCHMARK = Benchmark(
    "video",
    "Reading images from video",
    cases,
    rounds=3,
    columns=(CPU_MS, PER_SECOND, PEAK_MB, HELD_MB),
    plots=(CPU_MS, PER_SECOND),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
