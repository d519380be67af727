"""A decoder that sleeps, so that cores do not limit; and samples that are read with it."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import av
import numpy as np

from roboreel.loading import Samples
from roboreel.order.anchors import Anchors
from roboreel.video import decode

__all__ = ["PACKET_S", "SleepingContext", "SleepingSamples", "picture"]

PACKET_S = 0.0015
"""How long the decoder takes for a packet: about 480x640 AV1 on one core."""
_IMAGES = 8  # A decoder's own pool: an image stays valid while the next ones are decoded.


class SleepingContext:
    """Stands in for FFmpeg's decoder: every packet takes a while and gives an image."""

    packets = 0
    """All that were decoded in this process."""

    def __init__(self, size: tuple[int, int]) -> None:
        self._images = deque(picture(size) for _ in range(_IMAGES))

    def decode(self, packet: Any) -> list[Any]:  # noqa: ANN401  # av.Packet | None
        """Return the image of a packet after a while."""
        if packet is None:
            return []
        time.sleep(PACKET_S)
        SleepingContext.packets += 1
        self._images.rotate()
        image = self._images[0]
        image.pts = packet.pts
        return [image]

    def flush_buffers(self) -> None:
        """Do nothing: no image depends on another."""


class SleepingSamples(Samples):
    """Samples whose video is decoded by sleeping, in worker processes too."""

    def __init__(self, dataset: Any, repeats: int, **options: Any) -> None:  # noqa: ANN401
        super().__init__(dataset, **options)
        bounds = self.dataset.episode_bounds
        starts, lengths = np.tile(bounds[:-1], repeats), np.tile(np.diff(bounds), repeats)
        self.anchors = Anchors(starts, lengths, 0)  # Each sample several times: a long epoch.
        _fall_asleep()

    def enter_worker(self) -> None:
        """Replace the decoder in a worker process."""
        _fall_asleep()


def picture(size: tuple[int, int]) -> av.VideoFrame:
    """Return an image as decoders give them."""
    height, width = size
    colours = np.random.default_rng(0).integers(0, 256, (height * 3 // 2, width), dtype=np.uint8)
    return av.VideoFrame.from_ndarray(colours, format="yuv420p")


def _fall_asleep() -> None:
    def open_context(coding: Any, *, strict: bool) -> Any:  # noqa: ANN401
        return SleepingContext(coding.image_size)

    decode._open_context = open_context
