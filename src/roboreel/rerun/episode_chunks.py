"""One episode as Rerun's chunks, encoded images as they are stored."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import rerun as rr
from rerun.chunk import Chunk

from roboreel.errors import DatasetError, UnsupportedVideoError
from roboreel.format.counters import COUNTERS
from roboreel.image import encode_png
from roboreel.rerun.clips import EpisodeClip, copy_clip, find_clip, read_packets
from roboreel.rerun.columns import make_blobs, make_properties, make_tensors
from roboreel.rerun.text import describe_language
from roboreel.video.bitstream import stream_packer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from roboreel.dataset import Episode
    from roboreel.rerun.source import Source
    from roboreel.schema import Feature

__all__ = ["NOT_SHOWN", "EpisodeChunks", "entity_path"]

NOT_SHOWN = frozenset([*COUNTERS, "subtask_index"])
"""Features that are not shown as values: they are the timelines, the texts, or where a row lies."""

_CODECS = {
    "av1": rr.VideoCodec.AV1,
    "libdav1d": rr.VideoCodec.AV1,
    "h264": rr.VideoCodec.H264,
    "hevc": rr.VideoCodec.H265,
    "vp9": rr.VideoCodec.VP9,
}
# Encoded images go in chunks of about this size: each costs time, and all of it is held at once.
_CHUNK_BYTES = 2**19
# Values go in one chunk per feature unless all together are larger than this, as tensors may be.
_VALUE_BYTES = 2**24
# Beyond, nanoseconds do not fit in 64 bits.
_MAX_SECONDS = 9e9


class Times:
    """The timelines of an episode.

    Args:
        frame_index: Numbers of the frames, ``(T,)``.
        timestamp: Seconds, ``(T,)``. Left out if any of them is not finite or too large.
    """

    def __init__(self, frame_index: NDArray[np.int64], timestamp: NDArray[Any]) -> None:
        self._frame_index = frame_index
        seconds = timestamp.astype(np.float64)
        self._durations: NDArray[np.timedelta64] | None = None
        if (np.abs(seconds) < _MAX_SECONDS).all():
            self._durations = np.rint(seconds * 1e9).astype("timedelta64[ns]")

    def at(self, frames: NDArray[np.int64] | slice) -> list[rr.TimeColumn]:
        """Return the times of some frames."""
        columns = [rr.TimeColumn("frame_index", sequence=self._frame_index[frames])]
        if self._durations is not None:
            columns.append(rr.TimeColumn("timestamp", duration=self._durations[frames]))
        return columns


class EpisodeChunks:
    """Makes the chunks of a dataset's episodes, one episode after another."""

    def __init__(self, source: Source) -> None:
        self.source, manifest = source, source.manifest
        shown = {name: f for name, f in manifest.features.items() if name not in NOT_SHOWN}
        self._values = {name: f for name, f in shown.items() if not f.is_camera}
        self._cameras = [name for name, f in shown.items() if f.is_camera]
        subtasks = ["subtask_index"] if "subtask_index" in manifest.features else []
        self._read = ["frame_index", "timestamp", "task_index", *subtasks, *self._values]
        self._texts = _text_paths(shown)

    def of(self, episode: Episode) -> Iterator[Chunk]:
        """Yield the chunks of an episode.

        Those that are not static have two timelines: ``frame_index`` and, where the timestamps are
        sound, ``timestamp`` in seconds.
        """
        read = self.source.read(episode, self._read)
        times = Times(read["frame_index"], read["timestamp"])
        cameras = [_camera_chunks(self.source, episode, name, times) for name in self._cameras]
        yield from _properties(self.source, episode)
        yield from _series_names(self._values)
        for part in _parts(episode.length, sum(read[name].nbytes for name in self._values)):
            values, moments = {name: array[part] for name, array in read.items()}, times.at(part)
            for path, columns in self._value_columns(episode, values):
                yield Chunk.from_columns(path, moments, columns)
        yield from chain.from_iterable(cameras)

    def _value_columns(
        self, episode: Episode, read: dict[str, NDArray[Any]]
    ) -> Iterator[tuple[str, rr.ComponentColumnList]]:
        """Yield the values of all features but cameras, then the task and the subtask in words."""
        manifest = self.source.manifest
        for name, feature in self._values.items():
            if read[name].size:
                yield entity_path(name), _columns(feature, read[name])
        if "/task" not in self._texts:
            numbers = read["task_index"].tolist()
            tasks = [manifest.task_text(number, episode.position) for number in numbers]
            yield "/task", rr.TextDocument.columns(text=tasks)
        if "subtask_index" in read and manifest.subtasks and "/subtask" not in self._texts:
            texts = [manifest.subtasks.get(number, "") for number in read["subtask_index"].tolist()]
            yield "/subtask", rr.TextDocument.columns(text=texts)


@lru_cache(maxsize=1024)
def entity_path(name: str) -> str:
    r"""Return where a feature lies in a recording.

    Examples:
        >>> print(entity_path("observation.state"), entity_path("left arm/joint:0"))
        /observation.state /left\ arm/joint\:0
    """
    parts = [rr.escape_entity_path_part(part) for part in name.split("/") if part]
    return "/" + "/".join(parts)


def _text_paths(features: dict[str, Feature]) -> set[str]:
    """Return the paths of features that are texts; check that no two features share a path."""
    places: dict[str, str] = {}
    for name in features:
        other = places.setdefault(entity_path(name), name)
        if other != name:
            raise DatasetError(
                f"The features {other!r} and {name!r} have the same place in a recording, "
                f"{entity_path(name)!r}. Rename one of them."
            )
    return {path for path, name in places.items() if features[name].is_text}


def _parts(length: int, size_bytes: int) -> Iterator[slice]:
    """Yield spans of an episode's frames whose values are not too large for a chunk."""
    step = max(1, length * _VALUE_BYTES // max(1, size_bytes))
    for start in range(0, length, step):
        yield slice(start, start + step)


def _properties(source: Source, episode: Episode) -> Iterator[Chunk]:
    """Yield what describes a recording as a whole."""
    name = rr.archetypes.RecordingInfo.columns(name=[f"episode {episode.number}"])
    yield Chunk.from_columns("/__properties", [], name)
    about = make_properties(
        dataset=[source.name],
        fps=[float(source.manifest.fps)],
        robot=[source.manifest.robot_type or ""],
        number=[episode.number],
        tasks=episode.tasks or [""],
        length=[episode.length],
        rows=[episode.start, episode.stop],
    )
    yield Chunk.from_property("episode", about)


def _series_names(features: dict[str, Feature]) -> Iterator[Chunk]:
    """Yield the names of the lines of each plot."""
    for name, feature in features.items():
        names = feature.names
        if feature.kind == "number" and names and feature.shape == (len(names),):
            columns = rr.SeriesLines.columns(names=names).partition([len(names)])
            yield Chunk.from_columns(entity_path(name), [], columns)


def _columns(feature: Feature, read: NDArray[Any]) -> rr.ComponentColumnList:
    if feature.kind == "number" and read.ndim > 2:
        return rr.Tensor.columns(data=make_tensors(read))
    if feature.kind == "number":
        return rr.Scalars.columns(scalars=read)
    if feature.kind == "language":
        return rr.TextDocument.columns(text=[describe_language(value) for value in read])
    return rr.TextDocument.columns(text=["" if value is None else str(value) for value in read])


def _camera_chunks(source: Source, episode: Episode, name: str, times: Times) -> Iterator[Chunk]:
    """Return the chunks of a camera; its files are found now, its images read later."""
    feature = source.manifest.features[name]
    if feature.dtype == "video":
        return _video_chunks(source, episode, name, feature, times)
    path, frames = entity_path(name), np.arange(episode.length)
    pictures = source.pictures.read_span(name, episode.start, episode.stop)
    if feature.depth is None and feature.shape[-1] != 1:
        return _blob_chunks(path, _image, pictures, frames, times)
    per_metre = 1000.0 if feature.depth is not None and feature.depth.unit == "mm" else 1.0
    return _depth_chunks(path, pictures, per_metre, frames, times)


def _video_chunks(
    source: Source, episode: Episode, name: str, feature: Feature, times: Times
) -> Iterator[Chunk]:
    clip = find_clip(source.manifest, episode.position, name, source.videos)
    if len(clip.frames) < episode.length:
        source.note_missing(episode, name, clip.frames)
    path = entity_path(name)
    if feature.depth is not None:
        images = source.videos.stream(clip.request, layout="chw", depth=feature.depth)
        try:
            images = chain([next(images)], images)
        except UnsupportedVideoError:
            pass  # Depth, but not in the 12 bits that mean metres: shown as any other video.
        else:
            # 16 bits up to the largest distance: much finer than the 12-bit codes of the video.
            per_metre = 65535 / feature.depth.max_m
            pictures = map(partial(_depth_picture, per_metre=per_metre), images)
            return _depth_chunks(path, pictures, per_metre, clip.frames, times)
    pack = stream_packer(clip.table.coding) if clip.can_stream else None
    if pack is None:
        return _asset_chunks(path, clip, times)
    return _stream_chunks(path, clip, pack, times)


def _stream_chunks(
    path: str, clip: EpisodeClip, pack: Callable[[bytes, bool], bytes], times: Times
) -> Iterator[Chunk]:
    """Yield a video as its packets, each at its frame."""
    codec = _CODECS[clip.table.coding.codec]
    yield Chunk.from_columns(path, [], rr.VideoStream.columns(codec=[codec]))
    keyframes = clip.table.keyframe[clip.packets]
    packets = map(pack, read_packets(clip), keyframes.tolist())
    yield from _blob_chunks(path, _packet, packets, clip.frames, times, keyframes)
    # Apart from the packets, so that a viewer can find keyframes without fetching those.
    marks = rr.VideoStream.columns(is_keyframe=np.ones(int(keyframes.sum()), dtype=bool))
    yield Chunk.from_columns(path, times.at(clip.frames[keyframes]), marks)


def _asset_chunks(path: str, clip: EpisodeClip, times: Times) -> Iterator[Chunk]:
    """Yield a video as a file of its own, and the moment of it that each frame shows."""
    file, moments = copy_clip(clip)
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
    yield from _blob_chunks(path, _depth_image, pictures, frames, times)


def _depth_picture(image: NDArray[np.float32], per_metre: float) -> bytes:
    """Return metres as a picture: to the viewer, no video means distances."""
    return encode_png(np.rint(image[0] * per_metre).clip(0, 65535).astype(np.uint16))


def _blob_chunks(
    path: str,
    columns: Callable[[list[bytes | memoryview]], rr.ComponentColumnList],
    items: Iterable[bytes | memoryview],
    frames: NDArray[np.int64],
    times: Times,
    borders: NDArray[np.bool_] | None = None,
) -> Iterator[Chunk]:
    """Yield encoded images, each at its frame, in chunks that begin at borders if there are any."""
    gathered: list[bytes | memoryview] = []
    start, size_bytes = 0, 0
    for place, item in enumerate(items):
        if size_bytes >= _CHUNK_BYTES and (borders is None or borders[place]):
            yield Chunk.from_columns(path, times.at(frames[start:place]), columns(gathered))
            gathered, start, size_bytes = [], place, 0
        gathered.append(item)
        size_bytes += len(item)
    if gathered:
        yield Chunk.from_columns(path, times.at(frames[start:]), columns(gathered))


def _image(items: list[bytes | memoryview]) -> rr.ComponentColumnList:
    return rr.EncodedImage.columns(blob=make_blobs(items))


def _depth_image(items: list[bytes | memoryview]) -> rr.ComponentColumnList:
    return rr.EncodedDepthImage.columns(blob=make_blobs(items))


def _packet(items: list[bytes | memoryview]) -> rr.ComponentColumnList:
    return rr.VideoStream.columns(sample=make_blobs(items))
