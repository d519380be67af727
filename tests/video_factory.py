"""Small videos for tests: every image carries its number in its pixels."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

BITS = 12
HEIGHT, WIDTH = 48, 64

# How each codec is told to be quick and reproducible on one thread.
_QUICK = {
    "libsvtav1": {"preset": "12", "crf": "30", "svtav1-params": "lp=1"},
    # Without adaptive decisions, so that B-frames are where the test wants them.
    "libx264": {"preset": "veryfast", "crf": "23", "sc_threshold": "0", "b_strategy": "0"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none:pools=none"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "crf": "30"},
}


def numbered_image(number: int, height: int = HEIGHT, width: int = WIDTH) -> NDArray[np.uint8]:
    """Return an image (H, W, 3) that shows a number in black and white fields, over colours."""
    rng = np.random.default_rng(number)
    image = np.empty((height, width, 3), np.uint8)
    image[...] = rng.integers(60, 200, 3)
    image[height // 2 :, : width // 2] = rng.integers(60, 200, 3)
    step = width // BITS
    for bit in range(BITS):
        image[: height // 3, bit * step : (bit + 1) * step] = 235 if number >> bit & 1 else 20
    return image


def number_of(image: NDArray[np.uint8]) -> int:
    """Return the number that an image (H, W, 3) shows."""
    height, width = image.shape[:2]
    step = width // BITS
    fields = [image[: height // 3, bit * step : (bit + 1) * step].mean() for bit in range(BITS)]
    return sum(1 << bit for bit, level in enumerate(fields) if level > 128)


def write_video(
    path: Path,
    numbers: Sequence[int],
    codec: str = "libx264",
    *,
    gop: int = 10,
    bframes: int = 0,
    fps: int = 30,
    size: tuple[int, int] = (HEIGHT, WIDTH),
    pix_fmt: str = "yuv420p",
    options: Mapping[str, str] | None = None,
    container_options: Mapping[str, str] | None = None,
    colour: tuple[int, int] | None = None,
) -> Path:
    """Write a video that shows numbers one after another, and return its path."""
    # Other parts of this file are used where roboreel is not installed.
    from roboreel.video.priorities import kept_priorities

    settings = {**_QUICK.get(codec, {}), **(options or {})}
    if codec == "libx265":
        # Its decoding times are left unset when there are fewer images than it holds back.
        bframes = bframes if len(numbers) > bframes + 2 else 0
        params = f"keyint={gop}:min-keyint={gop}:scenecut=0:b-adapt=0:bframes={bframes}"
        settings["x265-params"] = f"{_QUICK[codec]['x265-params']}:{params}" + (
            ":" + options["x265-params"] if options and "x265-params" in options else ""
        )
    with (
        kept_priorities(),
        av.open(str(path), "w", options=dict(container_options or {})) as container,
    ):
        stream = container.add_stream(codec, rate=fps, options=settings)
        stream.height, stream.width = size
        stream.pix_fmt = pix_fmt
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = Fraction(1, fps)
        if codec != "libx265":
            stream.codec_context.gop_size = gop
        if codec == "libx264":
            stream.codec_context.max_b_frames = bframes
        if colour is not None:
            stream.codec_context.colorspace, stream.codec_context.color_range = colour
        for position, number in enumerate(numbers):
            frame = av.VideoFrame.from_ndarray(numbered_image(number, *size), format="rgb24")
            frame.pts = position
            frame.time_base = Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def join_videos(path: Path, parts: Iterable[Path], fps: int = 30) -> list[float]:
    """Join videos by copying their packets, one after another; return the start of each in s."""
    starts = []
    with av.open(str(path), "w") as output:
        stream, shift, last = None, Fraction(0), -(2**40)
        for part in parts:
            with av.open(str(part)) as source:
                video = source.streams.video[0]
                stream = stream or output.add_stream_from_template(video, opaque=True)
                packets = [packet for packet in source.demux(video) if packet.size]
                starts.append(float(shift))
                for packet in packets:
                    ticks = round(shift / packet.time_base)
                    # Parts begin to decode before they are shown, so that neighbours overlap.
                    last = max(packet.dts + ticks, last + 1)
                    packet.pts, packet.dts = packet.pts + ticks, last
                    packet.stream = stream
                    output.mux(packet)
                shift += Fraction(len(packets), fps)
    return starts


def decode_all(path: Path) -> NDArray[np.uint8]:
    """Return all images (N, H, W, 3) of a file, by a plain decode from start to end."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(stream)])
