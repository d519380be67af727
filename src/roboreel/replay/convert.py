"""A replay buffer from a dataset, and a dataset from a replay buffer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from roboreel.errors import EmptyBufferError, FrameError, MetadataError, RecordingError
from roboreel.files import atomic_folder
from roboreel.format.counters import COUNTERS, TASK_NUMBER
from roboreel.record.compact import compact_dataset
from roboreel.record.recorder import check_free, create_dataset
from roboreel.schema import Feature

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.record.recorder import Encodings, Recorder, Store
    from roboreel.replay.store import RingStore

__all__ = ["Export", "ReadableDataset", "chosen_values", "stored_features", "write_dataset"]

# So many frames are decoded at once, however long an episode is.
_FRAMES_AT_ONCE = 32
# Nobody moves while a buffer is written down: an encoder on a busy machine is waited for.
_MAX_WAIT_S = 60.0


class ReadableEpisode(Protocol):
    """An episode that gives its values at once."""

    def read(
        self, features: Sequence[str] | None = None, *, layout: Literal["chw", "hwc"] = "chw"
    ) -> Mapping[str, Any]:
        """Return features as arrays ``(T, …)``, images in the given layout."""


class ReadableDataset(Protocol):
    """What a buffer can be filled from."""

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features that every frame has."""

    @property
    def tasks(self) -> Mapping[int, str]:
        """Tasks by their number."""

    @property
    def fps(self) -> float:
        """Frames per second."""

    @property
    def episodes(self) -> Iterable[ReadableEpisode]:
        """The episodes in order."""


def stored_features(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the features of a dataset as a buffer stores them: video becomes JPEG."""
    return {
        name: Feature("image", feature.shape, feature.names, feature.depth)
        if feature.dtype == "video"
        else feature
        for name, feature in features.items()
    }


def chosen_values(
    features: Mapping[str, Feature], values: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Return the values of an episode for these features, zeros for those that it lacks."""
    length = len(next(iter(values.values())))
    return {
        name: values[name]
        if name in values
        else np.zeros((length, *feature.value_shape), feature.numpy_dtype)
        for name, feature in features.items()
    }


@dataclass(frozen=True, slots=True)
class Export:
    """How a buffer becomes a dataset; what each means, `ReplayBuffer.to_dataset` tells."""

    fps: float | None = None
    task: str | None = None
    robot_type: str | None = None
    store: Store = "video"
    encoding: Encodings | None = None
    nan_allowed: Collection[str] = field(default=())


def write_dataset(store: RingStore, root: Path, export: Export) -> int:
    """Write the complete episodes of a buffer as a dataset; return how many they were.

    The dataset is made under another name beside its own, and renamed when it is complete: it is
    there entirely, or not at all.
    """
    check_free(root)
    if root.exists() and any(root.iterdir()):
        raise RecordingError(
            "A process that died has left the beginnings of a dataset there: remove the folder, or "
            f"choose a new one: {str(root)!r}."
        )
    fps, tasks = _rate(store, export), _Tasks.of(store, export)
    # Known before anything is made: no reader opens a dataset without episodes.
    _check_filled(len(store.snapshot()), store)
    with atomic_folder(root) as unfinished:
        with create_dataset(
            unfinished,
            fps=fps,
            features=_declared(store.layout.features, export.store),
            robot_type=export.robot_type,
            encoding=export.encoding,
            nan_allowed=export.nan_allowed,
            max_wait_s=_MAX_WAIT_S,
            compact_on_close=False,
        ) as recorder:
            _record(store, recorder, tasks)
        _check_filled(recorder.num_episodes, store)
        compact_dataset(unfinished)
    return recorder.num_episodes


def _record(store: RingStore, recorder: Recorder, tasks: _Tasks) -> None:
    for start, stop in pairwise(store.snapshot().starts.tolist()):
        for frame, task in _frames(store, start, stop, tasks):
            recorder.add_frame({n: frame[n] for n in frame if n not in COUNTERS}, task=task)
        if recorder.open_frames == stop - start:
            recorder.save_episode()
        else:
            # Its rows were overwritten while they were read.
            recorder.discard_episode()


def _frames(
    store: RingStore, start: int, stop: int, tasks: _Tasks
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the frames of an episode and their tasks, as long as it has not left the ring."""
    for first in range(start, stop, _FRAMES_AT_ONCE):
        places = np.arange(first, min(first + _FRAMES_AT_ONCE, stop)) % store.layout.capacity
        fetched = {name: column.fetch(places) for name, column in store.columns.items()}
        if start < store.header().tail:
            return
        values = {name: store.columns[name].decode(fetched[name]) for name in fetched}
        for i in range(len(places)):
            frame = {name: value[i] for name, value in values.items()}
            yield frame, tasks.text(frame)


def _declared(features: Mapping[str, Feature], store: Store) -> dict[str, Feature]:
    """Return the features of a buffer as a dataset has them."""
    declared = {}
    for name, feature in features.items():
        if feature.numpy_dtype.kind == "c":
            raise MetadataError(
                f"Feature {name!r} is {feature.dtype}, which no dataset holds: store the real and "
                "the imaginary part as two numbers."
            )
        if feature.is_camera or _is_colour(feature):
            # A video has three channels.
            kind = store if feature.shape[2] == 3 else "image"
            feature = replace(feature, dtype=kind)
        declared[name] = feature
    return declared


def _is_colour(feature: Feature) -> bool:
    return feature.dtype == "uint8" and len(feature.shape) == 3 and feature.shape[2] == 3


def _rate(store: RingStore, export: Export) -> float:
    held = store.layout.fps
    rate = held if export.fps is None else export.fps
    if rate is None:
        raise FrameError("The buffer has no rate: give fps, in frames per second.")
    if held not in (None, rate):
        raise FrameError(f"{rate:g} fps were asked for: the buffer has {held:g}.")
    return rate


def _check_filled(num_episodes: int, store: RingStore) -> None:
    if not num_episodes:
        raise EmptyBufferError(f"No complete episode to write, in {str(store.root)!r}.")


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The task of each frame: the same for all, or by its number."""

    task: str | None
    numbered: Mapping[int, str]

    @classmethod
    def of(cls, store: RingStore, export: Export) -> _Tasks:
        """Return the tasks of a buffer's frames."""
        layout = store.layout
        if export.task is None and not (layout.tasks and TASK_NUMBER in layout.features):
            raise FrameError("The buffer knows no task: give task='…', in words.")
        return cls(export.task, layout.tasks)

    def text(self, frame: Mapping[str, Any]) -> str:
        """Return the task of a frame."""
        if self.task is not None:
            return self.task
        number = int(frame[TASK_NUMBER])
        if number not in self.numbered:
            raise FrameError(
                f"A frame has task {number}, and the buffer knows {list(self.numbered)}: give "
                "task='…', which then holds for all frames."
            )
        return self.numbered[number]
