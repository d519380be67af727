"""What torchcodec 0.13, alone and as LeRobot 0.4.4 uses it, does with a video."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.image_batches import (
    FORWARD,
    IN_ORDER,
    forward_batches,
    in_order_batches,
    random_batches,
)
from benchmarks.peers.lerobot import declare_missing_operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.meter import Meter

CONTENDER = "torchcodec 0.13 exact"


def read_exact(meter: Meter, path: str, length: int, count: int) -> None:
    """Read images as uint8 with an exact index, on one thread."""
    from torchcodec.decoders import VideoDecoder

    with meter.step("open"):
        decoder = VideoDecoder(path, num_ffmpeg_threads=1, seek_mode="exact")
    _read(meter, length, count, lambda images: decoder.get_frames_at(images).data)


def read_as_lerobot(meter: Meter, path: str, length: int, count: int) -> None:
    """Read images by LeRobot's function for them, which keeps its decoders."""
    declare_missing_operator()
    from lerobot.datasets.video_utils import decode_video_frames_torchcodec

    def read(images: list[int]) -> object:
        return decode_video_frames_torchcodec(path, [image / 30 for image in images], 1e-4)

    with meter.step("open"):
        read([0])
    _read(meter, length, count, read)


def _read(meter: Meter, length: int, count: int, read: Callable[[list[int]], Any]) -> None:
    read([0])
    named = {
        **random_batches(length, count),
        IN_ORDER: in_order_batches(length, count),
        FORWARD: forward_batches(length),
    }
    for name, batches in named.items():
        with meter.step(name, sum(map(len, batches))):
            for images in batches:
                read(images)
