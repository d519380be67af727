"""One episode as blocks, encoded images as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import rerun as rr

from roboreel.errors import DatasetError, UnsupportedVideoError
from roboreel.format.counters import COUNTERS
from roboreel.image import encode_png
from roboreel.rerun import columns as rows
from roboreel.rerun.bitstream import stream_packer
from roboreel.rerun.blocks import Block, Moments, Times, make_blocks
from roboreel.rerun.clips import EpisodeClip, copy_clip, find_clip, read_packets
from roboreel.rerun.columns import Column, Component
from roboreel.rerun.text import describe_language

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from roboreel.dataset import Episode
    from roboreel.rerun.source import Source
    from roboreel.schema import Feature

__all__ = ["NOT_SHOWN", "EpisodeBlocks", "entity_path"]

NOT_SHOWN = frozenset([*COUNTERS, "subtask_index"])
"""Features that are not shown as values: they are the timelines, the texts, or where a row lies."""

_CODECS = {
    "av1": rr.VideoCodec.AV1,
    "libdav1d": rr.VideoCodec.AV1,
    "h264": rr.VideoCodec.H264,
    "hevc": rr.VideoCodec.H265,
    "vp9": rr.VideoCodec.VP9,
}
_PROPERTIES = "/__properties"
_EPISODE = {
    name: Component(name, type=kind)
    for name, kind in {
        "dataset": pa.string(),
        "number": pa.int64(),
        "tasks": pa.string(),
        "length": pa.int64(),
        "rows": pa.int64(),
        "fps": pa.float64(),
        "robot": pa.string(),
    }.items()
}
# Encoded images go in blocks of about this size: each costs time, and all of it is held at once.
_BLOCK_BYTES = 2**19
# Values go at once unless they are larger than this, as tensors may be.
_VALUE_BYTES = 2**24


class EpisodeBlocks:
    """Tells Rerun of the episodes of one dataset, one after another."""

    def __init__(self, source: Source) -> None:
        self.source, manifest = source, source.manifest
        shown = {name: f for name, f in manifest.features.items() if name not in NOT_SHOWN}
        self._stored = {name: f for name, f in shown.items() if not f.is_camera}
        self._cameras = [name for name, f in shown.items() if f.is_camera]
        subtasks = ["subtask_index"] if "subtask_index" in manifest.features else []
        self._read = ["frame_index", "timestamp", "task_index", *subtasks, *self._stored]
        self._constants = [*_facts(source), *_series_names(self._stored)]
        self._texts = _text_paths(shown)

    def of(self, episode: Episode) -> Iterator[Block]:
        """Yield all that Rerun shall know of an episode.

        What does not hold at all times has two timelines: ``frame_index``, and, where it is
        sound, ``timestamp`` in seconds.
        """
        source = self.source
        read = source.read(episode, self._read)
        times = Times(read["frame_index"], read["timestamp"])
        cameras = [_camera(source, episode, name, times) for name in self._cameras]
        static = [column for camera in cameras for column in camera.static]
        yield from make_blocks([*_properties(episode), *self._constants, *static])
        for part, moments in _parts(read, self._stored, times):
            columns = [_value_column(name, f, part[name]) for name, f in self._stored.items()]
            columns += self._instructions(episode, part)
            yield from make_blocks(columns, moments)
        for camera in cameras:
            yield from camera.blocks

    def _instructions(self, episode: Episode, read: dict[str, NDArray[Any]]) -> Iterator[Column]:
        """Yield the task and, where there is one, the subtask of every frame in words."""
        manifest = self.source.manifest
        if "/task" not in self._texts:
            numbers = read["task_index"].tolist()
            tasks = [manifest.task_text(number, episode.position) for number in numbers]
            yield Column("/task", rows.TEXT, rows.values(rows.TEXT, tasks))
        if "subtask_index" in read and manifest.subtasks and "/subtask" not in self._texts:
            texts = [manifest.subtasks.get(number, "") for number in read["subtask_index"].tolist()]
            yield Column("/subtask", rows.TEXT, rows.values(rows.TEXT, texts))


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
    """Return where features of texts lie; check that no two features lie at one place."""
    places: dict[str, str] = {}
    for name in features:
        other = places.setdefault(entity_path(name), name)
        if other != name:
            raise DatasetError(
                f"The features {other!r} and {name!r} have the same place in a recording, "
                f"{entity_path(name)!r}. Give one of them another name."
            )
    return {path for path, name in places.items() if features[name].is_text}


def _parts(
    read: dict[str, NDArray[Any]], features: Iterable[str], times: Times
) -> Iterator[tuple[dict[str, NDArray[Any]], Moments]]:
    """Yield what was read of an episode, and when it is, at once or, if it is large, in parts."""
    count = len(read["frame_index"])
    size_bytes = sum(read[name].nbytes for name in features)
    at_once = max(1, count * _VALUE_BYTES // max(1, size_bytes))
    if at_once >= count:
        yield read, times.at()
        return
    for first in range(0, count, at_once):
        frames = np.arange(first, min(count, first + at_once))
        part = {name: values[first : first + at_once] for name, values in read.items()}
        yield part, times.at(frames)


def _facts(source: Source) -> list[Column]:
    """Return what describes all recordings of a dataset."""
    manifest = source.manifest
    return [
        _property("dataset", [source.name]),
        _property("fps", [float(manifest.fps)]),
        _property("robot", [manifest.robot_type or ""]),
    ]


def _properties(episode: Episode) -> list[Column]:
    """Return what describes a recording as a whole."""
    name = rows.row(rows.RECORDING_NAME, [f"episode {episode.number}"])
    return [
        Column(_PROPERTIES, rows.RECORDING_NAME, name),
        _property("number", [episode.number]),
        _property("tasks", list(episode.tasks) or [""]),
        _property("length", [episode.length]),
        _property("rows", [episode.start, episode.stop]),
    ]


def _property(name: str, items: list[Any]) -> Column:
    component = _EPISODE[name]
    return Column(f"{_PROPERTIES}/episode", component, rows.row(component, items))


def _series_names(features: dict[str, Feature]) -> Iterator[Column]:
    """Yield what the lines of each plot are called."""
    for name, feature in features.items():
        called = feature.names
        if feature.kind == "number" and called and feature.shape == (len(called),):
            names = rows.row(rows.SERIES_NAMES, called)
            yield Column(entity_path(name), rows.SERIES_NAMES, names)


def _value_column(name: str, feature: Feature, read: NDArray[Any]) -> Column:
    path = entity_path(name)
    if feature.kind == "number" and read.ndim > 2:
        return Column(path, rows.TENSOR, rows.tensors(rows.TENSOR, read))
    if feature.kind == "number":
        return Column(path, rows.SCALARS, rows.numbers(rows.SCALARS, read))
    if feature.kind == "language":
        texts = [describe_language(value) for value in read]
    else:
        texts = ["" if value is None else str(value) for value in read]
    return Column(path, rows.TEXT, rows.values(rows.TEXT, texts))


@dataclass(frozen=True, slots=True)
class _Camera:
    """What Rerun shall know of a camera."""

    static: list[Column]
    """What holds at all times."""
    blocks: Iterator[Block]


def _camera(source: Source, episode: Episode, name: str, times: Times) -> _Camera:
    feature = source.manifest.features[name]
    if feature.dtype == "video":
        return _video(source, episode, name, feature, times)
    return _pictures(source, episode, name, feature, times)


def _pictures(
    source: Source, episode: Episode, name: str, feature: Feature, times: Times
) -> _Camera:
    path, component = entity_path(name), rows.IMAGE
    static: list[Column] = []
    if feature.depth is not None or feature.shape[-1] == 1:
        component = rows.DEPTH_IMAGE
        in_mm = feature.depth is not None and feature.depth.unit == "mm"
        static = [_meter(path, 1000.0 if in_mm else 1.0)]
    pictures = source.pictures.read_span(name, episode.start, episode.stop)
    frames = np.arange(episode.length)
    return _Camera(static, _blob_blocks(path, component, pictures, frames, times))


def _video(source: Source, episode: Episode, name: str, feature: Feature, times: Times) -> _Camera:
    clip = find_clip(source.manifest, episode.position, name, source.videos)
    if len(clip.frames) < episode.length:
        source.note_missing(episode, name, clip.frames)
    path = entity_path(name)
    if feature.depth is not None:
        images = source.videos.stream(clip.request, depth=feature.depth)
        try:
            images = chain([next(images)], images)
        except UnsupportedVideoError:
            pass  # Depth, but not in the 12 bits that mean metres: shown as any other video.
        else:
            return _depth(path, clip, images, feature.depth.max_m, times)
    pack = stream_packer(clip.table.coding) if clip.can_stream else None
    if pack is None:
        return _Camera([], _asset_blocks(path, clip, times))
    codec = rows.row(rows.VIDEO_CODEC, [_CODECS[clip.table.coding.codec].value])
    static = [Column(path, rows.VIDEO_CODEC, codec)]
    return _Camera(static, _stream_blocks(path, clip, pack, times))


def _stream_blocks(
    path: str, clip: EpisodeClip, pack: Callable[[bytes, bool], bytes], times: Times
) -> Iterator[Block]:
    """Yield a video as its packets, each at its frame."""
    keyframes = clip.table.keyframe[clip.packets]
    packets = map(pack, read_packets(clip), keyframes.tolist())
    yield from _blob_blocks(path, rows.VIDEO_SAMPLE, packets, clip.frames, times, keyframes)
    # Apart from the packets, so that a viewer can find keyframes without fetching those.
    marks = rows.values(rows.VIDEO_KEYFRAME, np.ones(int(keyframes.sum()), dtype=bool))
    column = Column(path, rows.VIDEO_KEYFRAME, marks)
    yield from make_blocks([column], times.at(clip.frames[keyframes]))


def _asset_blocks(path: str, clip: EpisodeClip, times: Times) -> Iterator[Block]:
    """Yield a video as a file of its own, and the moment of it that each frame shows."""
    file, moments = copy_clip(clip)
    yield from make_blocks(
        [
            Column(path, rows.ASSET_VIDEO, rows.blobs(rows.ASSET_VIDEO, [file])),
            Column(path, rows.ASSET_TYPE, rows.row(rows.ASSET_TYPE, ["video/mp4"])),
        ]
    )
    shown = Column(path, rows.VIDEO_TIME, rows.values(rows.VIDEO_TIME, moments))
    yield from make_blocks([shown], times.at(clip.frames))


def _depth(
    path: str,
    clip: EpisodeClip,
    images: Iterable[NDArray[np.float32]],
    max_m: float,
    times: Times,
) -> _Camera:
    """Return depth video as pictures of distances: no video means distances to the viewer."""
    # 16 bits up to the largest distance: much finer than the 12-bit codes of the video.
    per_metre = 65535 / max_m
    pictures = (
        encode_png(np.rint(image[0] * per_metre).clip(0, 65535).astype(np.uint16))
        for image in images
    )
    blocks = _blob_blocks(path, rows.DEPTH_IMAGE, pictures, clip.frames, times)
    return _Camera([_meter(path, per_metre)], blocks)


def _meter(path: str, per_metre: float) -> Column:
    """Return how many units of a depth picture are a metre."""
    return Column(path, rows.DEPTH_METER, rows.row(rows.DEPTH_METER, [per_metre]))


def _blob_blocks(
    path: str,
    component: Component,
    items: Iterable[bytes | memoryview],
    frames: NDArray[np.int64],
    times: Times,
    borders: NDArray[np.bool_] | None = None,
) -> Iterator[Block]:
    """Yield encoded images, each at its frame, in blocks that begin at borders if there are any."""
    gathered: list[bytes | memoryview] = []
    start, size_bytes = 0, 0
    for place, item in enumerate(items):
        if size_bytes >= _BLOCK_BYTES and (borders is None or borders[place]):
            yield from _blobs(path, component, gathered, frames[start:place], times)
            gathered, start, size_bytes = [], place, 0
        gathered.append(item)
        size_bytes += len(item)
    if gathered:
        yield from _blobs(path, component, gathered, frames[start:], times)


def _blobs(
    path: str,
    component: Component,
    items: list[bytes | memoryview],
    frames: NDArray[np.int64],
    times: Times,
) -> list[Block]:
    column = Column(path, component, rows.blobs(component, items))
    return make_blocks([column], times.at(frames))
