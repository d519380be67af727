"""A replay buffer from a dataset, and a dataset from a replay buffer."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import EmptyBufferError, FrameError, MetadataError
from roboreel.files import atomic_folder
from roboreel.format.counters import COUNTERS, TASK_NUMBER
from roboreel.record.compact import compact_dataset
from roboreel.record.folders import check_absent
from roboreel.record.opening import create_dataset
from roboreel.schema import Feature

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.record.options import CameraKind, RecordingOptions
    from roboreel.record.recorder import Recorder
    from roboreel.replay.ring import Ring
    from roboreel.replay.spec import RingSpec

# Frames that are decoded at once, however long an episode is.
_FRAMES_AT_ONCE = 32
# No robot waits while a buffer is written: give an encoder on a busy machine its time.
_MAX_WAIT_S = 60.0


def stored_features(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the features of a dataset as a buffer stores them: video becomes JPEG."""
    return {
        name: Feature("image", feature.shape, feature.names, feature.depth)
        if feature.is_video
        else feature
        for name, feature in features.items()
    }


def chosen_values(
    features: Mapping[str, Feature], values: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Return the values of an episode for these features, zeros for features that it lacks."""
    length = len(next(iter(values.values())))
    return {
        name: values[name]
        if name in values
        else np.zeros((length, *feature.value_shape), feature.numpy_dtype)
        for name, feature in features.items()
    }


def write_dataset(
    ring: Ring,
    root: Path,
    *,
    fps: float | None,
    task: str | None,
    robot_type: str | None,
    store: CameraKind,
    options: RecordingOptions,
) -> int:
    """Write the complete episodes of a buffer as a dataset; return how many there were.

    The dataset is made under another name beside its own, and renamed when it is complete.
    """
    check_absent(root)
    rate = _rate(ring, fps)
    _check_tasks(ring.spec, task)
    # Before anything is made: LeRobot opens no dataset without episodes.
    _check_filled(len(ring.snapshot()), ring)
    with atomic_folder(root) as unfinished:
        with create_dataset(
            unfinished,
            fps=rate,
            features=_declared(ring.spec.features, store),
            robot_type=robot_type,
            options=options,
            max_wait_s=_MAX_WAIT_S,
            compact_on_close=False,
        ) as recorder:
            _record(ring, recorder, task)
        _check_filled(recorder.num_episodes, ring)
        compact_dataset(unfinished)
    return recorder.num_episodes


def _record(ring: Ring, recorder: Recorder, task: str | None) -> None:
    for start, stop in pairwise(ring.snapshot().starts.tolist()):
        for frame in _frames(ring, start, stop):
            text = _task_of(frame, ring.spec.tasks) if task is None else task
            recorder.add_frame({n: frame[n] for n in frame if n not in COUNTERS}, task=text)
        if recorder.open_frames == stop - start:
            recorder.save_episode()
        else:
            # Its rows were overwritten while they were read.
            recorder.discard_episode()


def _frames(ring: Ring, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Yield the frames of an episode, until it leaves the ring."""
    for first in range(start, stop, _FRAMES_AT_ONCE):
        end = min(first + _FRAMES_AT_ONCE, stop)
        values = ring.read(first, end, episode_start=start)
        if values is None:
            return
        for i in range(end - first):
            yield {name: value[i] for name, value in values.items()}


def _declared(features: Mapping[str, Feature], camera_kind: CameraKind) -> dict[str, Feature]:
    """Return the features of a buffer as a dataset has them."""
    declared = {}
    for name, feature in features.items():
        if feature.numpy_dtype.kind == "c":
            raise MetadataError(
                f"Feature {name!r} is {feature.dtype}, which a dataset cannot hold: store the real "
                "and the imaginary part as two numbers."
            )
        if feature.is_camera or _is_colour(feature):
            # A video has three channels.
            kind = camera_kind if feature.shape[2] == 3 else "image"
            feature = replace(feature, dtype=kind)
        declared[name] = feature
    return declared


def _is_colour(feature: Feature) -> bool:
    return feature.dtype == "uint8" and len(feature.shape) == 3 and feature.shape[2] == 3


def _rate(ring: Ring, fps: float | None) -> float:
    held = ring.spec.fps
    rate = held if fps is None else fps
    if rate is None:
        raise FrameError("The buffer has no rate: give fps, in frames per second.")
    if held not in (None, rate):
        raise FrameError(f"{rate:g} fps were asked for: the buffer has {held:g}.")
    return rate


def _check_filled(num_episodes: int, ring: Ring) -> None:
    if not num_episodes:
        raise EmptyBufferError(f"No complete episode to write, in {str(ring.root)!r}.")


def _check_tasks(spec: RingSpec, task: str | None) -> None:
    if task is None and not (spec.tasks and TASK_NUMBER in spec.features):
        raise FrameError("The buffer knows no task: give task='…', in words.")


def _task_of(frame: Mapping[str, Any], tasks: Mapping[int, str]) -> str:
    number = int(frame[TASK_NUMBER])
    if number not in tasks:
        raise FrameError(
            f"A frame has task {number}, and the buffer knows {list(tasks)}: give "
            "task='…' for all frames."
        )
    return tasks[number]
