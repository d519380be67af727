"""A Ray Data dataset as a LeRobot dataset."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FrameError
from roboreel.files import atomic_folder
from roboreel.format.counters import COUNTERS
from roboreel.format.hub import writable_folder
from roboreel.record.folders import check_absent
from roboreel.record.opening import create_dataset
from roboreel.schema import Feature

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import ray.data

    from roboreel.record.recorder import Recorder

_EPISODE, _FRAME, _TASK = "episode_index", "frame_index", "task"
_BATCH_ROWS = 64


def write(
    rows: ray.data.Dataset,
    path: str | os.PathLike[str],
    *,
    fps: float,
    features: Mapping[str, Feature] | None = None,
    **options: Any,  # noqa: ANN401  # of create_dataset
) -> Path:
    """Write a Ray Data dataset as a LeRobot v3.0 dataset, and return its folder.

    Rows are frames. They need ``episode_index`` and ``frame_index``, by which they are sorted, and
    ``task``, in words. The dataset appears at its path when all of it is on the disk; until then,
    and after a crash, there is nothing. Ray prepares the rows on all machines; this process encodes
    them, episode by episode, in memory that does not depend on their number.

    Args:
        rows: The frames. Images are uint8, ``(3, H, W)`` or ``(H, W, 3)``.
        path: A folder that does not exist yet, or is empty.
        fps: Frames per second.
        features: What to write; by default all columns. Images become video.
        **options: Further arguments of `roboreel.create_dataset`: ``robot_type``, ``encoding``, ….

    Raises:
        FolderTakenError: The path already exists.
        FrameError: A column is missing, or a row does not fit the features.
    """
    root = writable_folder(path)
    check_absent(root)
    frames = _frames(rows.sort([_EPISODE, _FRAME]))
    first = next(frames, None)
    if first is None:
        raise FrameError(f"There are no rows, so nothing was written to {str(root)!r}.")
    declared = _features(first) if features is None else dict(features)
    with (
        atomic_folder(root) as folder,
        create_dataset(folder, fps=fps, features=declared, **options) as recorder,
    ):
        _record(recorder, chain([first], frames), declared)
    return root


def _record(
    recorder: Recorder, frames: Iterable[Mapping[str, Any]], features: Mapping[str, Feature]
) -> None:
    episode = None
    for frame in frames:
        if episode not in (None, frame[_EPISODE]):
            recorder.save_episode()
        episode = frame[_EPISODE]
        values = {name: _value(frame, name, feature) for name, feature in features.items()}
        recorder.add_frame(values, task=str(frame.get(_TASK, "")))
    recorder.save_episode()


def _frames(rows: ray.data.Dataset) -> Iterator[dict[str, Any]]:
    for batch in rows.iter_batches(batch_size=_BATCH_ROWS, batch_format="numpy"):
        for name in (_EPISODE, _FRAME):
            if name not in batch:
                raise FrameError(f"The rows have no {name!r}: there are {', '.join(batch)}.")
        for place in range(len(batch[_EPISODE])):
            yield {name: values[place] for name, values in batch.items()}


def _features(frame: Mapping[str, Any]) -> dict[str, Feature]:
    """Return a feature for each column of a frame but counters, masks and the task."""
    return {
        name: _feature(np.asarray(value))
        for name, value in frame.items()
        if name not in (*COUNTERS, _TASK) and not name.endswith("_is_pad")
    }


def _feature(value: np.ndarray[Any, Any]) -> Feature:
    if value.dtype == np.uint8 and value.ndim == 3 and 3 in (value.shape[0], value.shape[-1]):
        height, width, channels = _last(value).shape
        return Feature("video", (height, width, channels))
    if value.dtype.kind in "UO":
        return Feature("string", (1,))
    return Feature(value.dtype.name, value.shape or (1,))


def _value(frame: Mapping[str, Any], name: str, feature: Feature) -> Any:  # noqa: ANN401
    if name not in frame:
        raise FrameError(f"The rows have no {name!r}: there are {', '.join(frame)}.")
    value = np.asarray(frame[name])
    if feature.is_camera:
        return np.ascontiguousarray(_last(value))
    if feature.kind == "text":
        return str(frame[name])
    return value.reshape(feature.shape)


def _last(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an image with its channels last."""
    return image if image.ndim != 3 or image.shape[-1] == 3 else image.transpose(1, 2, 0)
