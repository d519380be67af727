"""One episode as Rerun's chunks."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import rerun as rr
from rerun.chunk import Chunk

from roboreel.rerun.camera_chunks import picture_chunks, video_chunks
from roboreel.rerun.columns import make_properties, make_tensors
from roboreel.rerun.entities import entity_path, shown_features
from roboreel.rerun.times import Times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset import Episode
    from roboreel.frames.frame_reader import FrameReader
    from roboreel.schema import Feature


# A feature's values are one chunk unless all features together are larger, as tensors may be.
_VALUE_BYTES = 2**24


class EpisodeChunks:
    """Makes the chunks of a dataset's episodes, one episode after another.

    Args:
        frames: Reads the dataset.
        on_problem: Called with a sentence for each camera that lacks its files, or images of an
            episode.
    """

    def __init__(
        self, frames: FrameReader, on_problem: Callable[[str], object] = lambda _: None
    ) -> None:
        self._frames, self._manifest, self._on_problem = frames, frames.manifest, on_problem
        shown = shown_features(self._manifest.features)
        absent = self._manifest.absent_cameras
        self._cameras = [n for n, f in shown.items() if f.is_camera and n not in absent]
        for camera in sorted(absent):
            on_problem(f"Camera {camera!r} has no video file, and is left out.")
        self._values = {name: f for name, f in shown.items() if not f.is_camera}
        self._texts = {entity_path(name) for name, f in shown.items() if f.is_text}
        self._read = ["frame_index", "timestamp", *self._values]
        self.name = self._manifest.root.resolve().name or "dataset"
        """What the recordings have in common, so that the viewer gives them one layout."""

    def of(self, episode: Episode) -> Iterator[Chunk]:
        """Yield the chunks of an episode; all its files are found before the first."""
        read = self._frames.columns.read_span(self._read, episode.start, episode.stop)
        times = Times(read["frame_index"], read["timestamp"])
        cameras = [self._camera(episode, camera, times) for camera in self._cameras]
        yield from self._properties(episode)
        yield from _series_names(self._values)
        size_bytes = sum(read[name].nbytes for name in self._values)
        for part in _parts(episode.length, size_bytes):
            values, moments = {name: array[part] for name, array in read.items()}, times.at(part)
            rows = episode.start + np.arange(episode.length)[part]
            for path, columns in self._columns(episode, rows, values):
                yield Chunk.from_columns(path, moments, columns)
        yield from chain.from_iterable(cameras)

    def _camera(self, episode: Episode, camera: str, times: Times) -> Iterator[Chunk]:
        if not self._manifest.features[camera].is_video:
            return picture_chunks(self._frames, episode, camera, times)
        clip = self._frames.clips.find(camera, episode.position)
        missing = np.setdiff1d(np.arange(episode.length), clip.frames)
        if len(missing):
            self._on_problem(
                f"Episode {episode.number} has no image of {camera!r} for {len(missing)} of its "
                f"{episode.length} frames, the first being frame {int(missing[0])}."
            )
        return video_chunks(self._frames, clip, camera, times)

    def _properties(self, episode: Episode) -> Iterator[Chunk]:
        """Yield what describes a recording as a whole."""
        name = rr.archetypes.RecordingInfo.columns(name=[f"episode {episode.number}"])
        yield Chunk.from_columns("/__properties", [], name)
        about = make_properties(
            dataset=[self.name],
            fps=[float(self._manifest.fps)],
            robot=[self._manifest.robot_type or ""],
            number=[episode.number],
            tasks=episode.tasks or [""],
            length=[episode.length],
            rows=[episode.start, episode.stop],
        )
        yield Chunk.from_property("episode", about)

    def _columns(
        self, episode: Episode, rows: NDArray[np.int64], read: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[str, rr.ComponentColumnList]]:
        """Yield values, then the task and the subtask in words, each with its entity."""
        manifest = self._manifest
        for name, feature in self._values.items():
            if read[name].size:
                yield entity_path(name), _value_columns(feature, read[name])
        if "/task" not in self._texts:
            tasks = self._frames.task_texts.tasks(rows, np.full(len(rows), episode.position))
            yield "/task", rr.TextDocument.columns(text=tasks)
        has_subtasks = "subtask_index" in manifest.features and bool(manifest.subtasks)
        if has_subtasks and "/subtask" not in self._texts:
            texts = self._frames.task_texts.subtasks(rows)
            yield "/subtask", rr.TextDocument.columns(text=texts)


def _parts(length: int, size_bytes: int) -> Iterator[slice]:
    """Yield spans of an episode's frames whose values are small enough to go together."""
    step = max(1, length * _VALUE_BYTES // max(1, size_bytes))
    for start in range(0, length, step):
        yield slice(start, start + step)


def _series_names(features: Mapping[str, Feature]) -> Iterator[Chunk]:
    """Yield the names of the lines in each plot."""
    for name, feature in features.items():
        names = feature.names
        if feature.kind == "number" and names and feature.shape == (len(names),):
            columns = rr.SeriesLines.columns(names=names).partition([len(names)])
            yield Chunk.from_columns(entity_path(name), [], columns)


def _value_columns(feature: Feature, read: NDArray[Any]) -> rr.ComponentColumnList:
    if feature.kind == "number" and read.ndim > 2:
        return rr.Tensor.columns(data=make_tensors(read))
    if feature.kind == "number":
        return rr.Scalars.columns(scalars=read)
    if feature.kind == "language":
        return rr.TextDocument.columns(text=[describe_language(value) for value in read])
    return rr.TextDocument.columns(text=["" if value is None else str(value) for value in read])


# Language features as readable text.


def describe_language(entries: Sequence[Mapping[str, Any]] | None) -> str:
    """Return what was said at a frame, one line per entry.

    Examples:
        >>> describe_language([{"role": "user", "content": "pick it up", "style": "task"}])
        'user (task): pick it up'
    """
    return "\n".join(_describe(entry) for entry in entries or ())


def _describe(entry: Mapping[str, Any]) -> str:
    details = [str(entry[key]) for key in ("style", "camera") if entry.get(key)]
    speaker = str(entry.get("role") or "unknown") + (f" ({', '.join(details)})" if details else "")
    said = [str(entry[key]) for key in ("content", "tool_calls") if entry.get(key)]
    return f"{speaker}: {' '.join(said)}"
