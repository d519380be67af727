"""One camera of an episode as Rerun's chunks, images as they are stored."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import rerun as rr
from rerun.chunk import Chunk

from roboreel.errors import UnsupportedVideoError
from roboreel.image import encode_png
from roboreel.rerun.columns import make_blobs
from roboreel.rerun.entities import entity_path
from roboreel.video.bitstream import stream_packer
from roboreel.video.clip_file import make_clip_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from roboreel.dataset import Episode
    from roboreel.frames.clips import EpisodeClip
    from roboreel.frames.frame_reader import FrameReader
    from roboreel.rerun.times import Times

_CODECS = {
    "av1": rr.VideoCodec.AV1,
    "h264": rr.VideoCodec.H264,
    "hevc": rr.VideoCodec.H265,
    "vp9": rr.VideoCodec.VP9,
}
# Images are sent in chunks of about this size: each costs time, and all of it is held at once.
_CHUNK_BYTES = 2**19


def picture_chunks(
    frames: FrameReader, episode: Episode, camera: str, times: Times
) -> Iterator[Chunk]:
    """Yield the pictures of a camera in the data files."""
    path, every = entity_path(camera), np.arange(episode.length)
    feature = frames.manifest.features[camera]
    pictures = frames.pictures.read_span(camera, episode.start, episode.stop)
    if feature.depth is None and feature.shape[-1] != 1:
        return _blob_chunks(path, _images, pictures, every, times)
    per_metre = 1000.0 if feature.depth is not None and feature.depth.unit == "mm" else 1.0
    return _depth_chunks(path, pictures, per_metre, every, times)


def video_chunks(
    frames: FrameReader, clip: EpisodeClip, camera: str, times: Times
) -> Iterator[Chunk]:
    """Yield the clip of a camera: as a stream of packets if possible, otherwise as a file.

    Raises:
        UnsupportedVideoError: Rerun has no decoder for it.
    """
    path, depth = entity_path(camera), frames.manifest.features[camera].depth
    if depth is not None:
        images = frames.videos.stream(clip.request, layout="chw", depth=depth)
        try:
            images = chain([next(images)], images)
        except UnsupportedVideoError:
            pass  # Depth, but not in the 12 bits that mean metres: shown as any other video.
        else:
            # 16 bits up to the largest distance: much finer than the 12-bit codes of the video.
            per_metre = 65535 / depth.max_m
            pictures = map(partial(_depth_picture, per_metre=per_metre), images)
            return _depth_chunks(path, pictures, per_metre, clip.frames, times)
    if clip.table.coding.codec not in _CODECS:
        raise UnsupportedVideoError(
            f"Rerun does not show {clip.table.coding.codec} video, which camera {camera!r} has: it "
            "shows AV1, H.264, HEVC and VP9. Encode the video again, such as with `ffmpeg -i old.mp4 "
            f"-c:v libx264 new.mp4`: {str(clip.path)!r}."
        )
    pack = stream_packer(clip.table.coding) if clip.can_stream else None
    if pack is None:
        return _file_chunks(path, clip, times)
    return _stream_chunks(path, clip, pack, times)


def _stream_chunks(
    path: str, clip: EpisodeClip, pack: Callable[[bytes, bool], bytes], times: Times
) -> Iterator[Chunk]:
    codec = _CODECS[clip.table.coding.codec]
    yield Chunk.from_columns(path, [], rr.VideoStream.columns(codec=[codec]))
    keyframes = clip.keyframes
    packets = map(pack, clip.read_packets(), keyframes.tolist())
    yield from _blob_chunks(path, _packets, packets, clip.frames, times, keyframes)
    # Apart from the packets, so that a viewer can find keyframes without fetching those.
    marks = rr.VideoStream.columns(is_keyframe=np.ones(int(keyframes.sum()), dtype=bool))
    yield Chunk.from_columns(path, times.at(clip.frames[keyframes]), marks)


def _file_chunks(path: str, clip: EpisodeClip, times: Times) -> Iterator[Chunk]:
    """Yield a clip as a file of its own, and the moment in it that each frame shows."""
    file, moments = make_clip_file(clip.path, clip.table, clip.packets, fps=clip.request.clip.fps)
    asset = rr.AssetVideo.columns(blob=make_blobs([file]), media_type=["video/mp4"])
    yield Chunk.from_columns(path, [], asset)
    shown = rr.VideoFrameReference.columns_nanos(moments)
    yield Chunk.from_columns(path, times.at(clip.frames), shown)


def _depth_chunks(
    path: str,
    pictures: Iterable[bytes | memoryview],
    per_metre: float,
    frames: NDArray[np.int64],
    times: Times,
) -> Iterator[Chunk]:
    """Yield pictures of distances, and how many of their units are a metre."""
    yield Chunk.from_columns(path, [], rr.EncodedDepthImage.columns(meter=[per_metre]))
    yield from _blob_chunks(path, _depth_images, pictures, frames, times)


def _depth_picture(image: NDArray[np.float32], per_metre: float) -> bytes:
    """Return metres ``(1, H, W)`` as a picture, since the viewer has no depth video."""
    return encode_png(np.rint(image[0] * per_metre).clip(0, 65535).astype(np.uint16))


def _blob_chunks(
    path: str,
    columns: Callable[[list[bytes | memoryview]], rr.ComponentColumnList],
    items: Iterable[bytes | memoryview],
    frames: NDArray[np.int64],
    times: Times,
    starts: NDArray[np.bool_] | None = None,
) -> Iterator[Chunk]:
    """Yield encoded images, each at its frame, in chunks of bounded size.

    Args:
        path: The camera's entity.
        columns: Makes a column of some images.
        items: The images.
        frames: The frame of each, ``(N,)``.
        times: When the frames are.
        starts: Whether a chunk may start at each image, ``(N,)``; at any if None.
    """
    gathered: list[bytes | memoryview] = []
    start, size_bytes = 0, 0
    for place, item in enumerate(items):
        if size_bytes >= _CHUNK_BYTES and (starts is None or starts[place]):
            yield Chunk.from_columns(path, times.at(frames[start:place]), columns(gathered))
            gathered, start, size_bytes = [], place, 0
        gathered.append(item)
        size_bytes += len(item)
    if gathered:
        yield Chunk.from_columns(path, times.at(frames[start:]), columns(gathered))


def _images(items: list[bytes | memoryview]) -> rr.ComponentColumnList:
    return rr.EncodedImage.columns(blob=make_blobs(items))


def _depth_images(items: list[bytes | memoryview]) -> rr.ComponentColumnList:
    return rr.EncodedDepthImage.columns(blob=make_blobs(items))


def _packets(items: list[bytes | memoryview]) -> rr.ComponentColumnList:
    return rr.VideoStream.columns(sample=make_blobs(items))
