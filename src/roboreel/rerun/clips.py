"""One episode's images of a video file, as encoded packets."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import av
import numpy as np

from roboreel.errors import MissingFileError, MissingImageError
from roboreel.video.clip import Clip, images_of, plan_runs
from roboreel.video.reader import ClipRequest, open_packets
from roboreel.video.remux import decoding_ticks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Manifest
    from roboreel.video.packet_table import PacketTable
    from roboreel.video.reader import VideoReader

__all__ = ["EpisodeClip", "copy_clip", "find_clip", "read_packets"]


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeClip:
    """Which packets of a file show an episode."""

    request: ClipRequest
    table: PacketTable
    packets: NDArray[np.int64]
    """The packet of each frame that has an image, ``(N,)``."""

    @property
    def path(self) -> Path:
        """The video file."""
        return self.request.path

    @property
    def frames(self) -> NDArray[np.int64]:
        """The frames of the episode that have an image, ``(N,)``, ascending; nearly always all."""
        return self.request.frames

    @property
    def can_stream(self) -> bool:
        """Whether the packets alone, one a frame, decode to the episode's images.

        They do if they begin at a keyframe, and are shown in the order in which they are decoded.
        """
        table, packets = self.table, self.packets
        return bool(
            table.keyframe[packets[0]]
            and (np.diff(packets) == 1).all()
            and (np.diff(table.pts[packets]) > 0).all()
        )


def find_clip(manifest: Manifest, position: int, camera: str, videos: VideoReader) -> EpisodeClip:
    """Return where the images of the episode at a position lie.

    Raises:
        MissingFileError: There is no video file.
        MissingImageError: The file has no image of the episode at all.
    """
    episodes = manifest.episodes
    clips, number = episodes.clips[camera], int(episodes.number[position])
    file = int(clips.file[position])
    if file < 0:
        raise MissingFileError(
            f"The metadata names no video of {camera!r} for episode {number}, in "
            f"{str(manifest.root)!r}."
        )
    path = _path(manifest.root, manifest.video_files[camera][file])
    table = videos.table(path)
    clip = Clip(
        float(clips.start_s[position]),
        float(clips.stop_s[position]),
        int(episodes.length[position]),
        manifest.fps,
    )
    frames, images = _frames_with_images(clip, table)
    if not len(frames):
        raise MissingImageError(
            f"The video has no image of episode {number}, camera {camera!r}. Leave the "
            f"episode out with select(), or restore its video {str(path)!r}."
        )
    request = ClipRequest(path, clip, frames, slots=frames, episode=number, camera=camera)
    return EpisodeClip(request, table, table.shown[images].astype(np.int64))


@lru_cache(maxsize=64)
def _path(root: Path, name: str) -> Path:
    # Episodes share files: each new path would put its parts into Python's table of names, which
    # doubles, by megabytes, when there were many.
    return root / name


def _frames_with_images(
    clip: Clip, table: PacketTable
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    frames = np.arange(clip.length)
    try:
        return frames, images_of(frames, clip, table.ticks, table.time_base)
    except MissingImageError:
        # Some images are missing; the others are worth looking at all the more.
        images = [_image_of(frame, clip, table) for frame in frames.tolist()]
    there = [frame for frame, image in enumerate(images) if image is not None]
    found = [image for image in images if image is not None]
    return np.array(there, dtype=np.int64), np.array(found, dtype=np.int64)


def _image_of(frame: int, clip: Clip, table: PacketTable) -> int | None:
    try:
        return int(images_of(np.array([frame]), clip, table.ticks, table.time_base)[0])
    except MissingImageError:
        return None


def read_packets(clip: EpisodeClip) -> Iterator[bytes]:
    """Yield the packet of each frame; no other byte of the file is read."""
    start, stop = int(clip.packets[0]), int(clip.packets[-1]) + 1
    with open_packets(clip.path, clip.table) as reader:
        for _, data in reader.read(start, stop):
            yield bytes(data)


def copy_clip(clip: EpisodeClip) -> tuple[bytes, NDArray[np.int64]]:
    """Return an MP4 file of the episode's packets, and when in it each frame's image is shown.

    Nothing is decoded. The file begins at the keyframe that the first image needs, so that it may
    hold images of the episode before.

    Returns:
        The file, and nanoseconds ``(N,)``.
    """
    table = clip.table
    runs = plan_runs(clip.packets, table.start)
    start, stop = min(run.start for run in runs), max(run.stop for run in runs)
    ticks = table.pts[start:stop]
    # Images that are shown before the first keyframe lean on packets that stay behind.
    kept = ticks >= ticks[0]
    shifted = ticks - ticks[0]
    file = _mux(clip, start, stop, kept, shifted[kept])
    # Rounded up: a moment just before an image would still show the one before it.
    clock = table.time_base
    moments = -(-shifted[clip.packets - start] * 10**9 * clock.numerator // clock.denominator)
    return file, moments.astype(np.int64)


def _mux(
    clip: EpisodeClip,
    start: int,
    stop: int,
    kept: NDArray[np.bool_],
    ticks: NDArray[np.int64],
) -> bytes:
    table, out = clip.table, io.BytesIO()
    clock = str(table.time_base.denominator)
    # A player stops after the last image's duration: without one it would not be shown.
    duration = max(round(1 / (clip.request.clip.fps * table.time_base)), 1)
    times = zip(ticks.tolist(), decoding_ticks(ticks).tolist(), strict=True)
    options = {"video_track_timescale": clock, "movie_timescale": clock}
    with (
        av.open(str(clip.path)) as source,  # For the codec's parameters: it reads headers only.
        av.open(out, "w", format="mp4", options=options) as target,
        open_packets(clip.path, clip.table) as reader,
    ):
        stream = target.add_stream_from_template(source.streams.video[0], opaque=True)
        for number, data in reader.read(start, stop):
            if not kept[number - start]:
                continue
            packet = av.Packet(bytes(data))
            packet.stream, packet.time_base = stream, table.time_base
            packet.pts, packet.dts = next(times)
            packet.duration = duration
            packet.is_keyframe = bool(table.keyframe[number])
            target.mux(packet)
    return out.getvalue()
