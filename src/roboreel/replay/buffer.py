"""ReplayBuffer: the friendly face of the ring."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from roboreel.errors import FeatureNotFoundError, FrameError
from roboreel.format.counters import TASK_NUMBER
from roboreel.format.hub import writable_folder
from roboreel.record.options import RecordingOptions
from roboreel.record.values import check_episode, check_frame
from roboreel.replay.convert import chosen_values, stored_features, write_dataset
from roboreel.replay.ring import Ring
from roboreel.replay.sampling import draw_sample, window_offsets
from roboreel.replay.source import ReplaySource
from roboreel.replay.writer import RingWriter, open_spec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.record.options import CameraKind, Encodings
    from roboreel.schema import Feature
    from roboreel.window import Window


@final
class ReplayBuffer:
    """A ring of the newest episodes, in mapped files: sampled and changed in place.

    Any number of processes may open a buffer, sample from it and change values in place. The first
    one to add becomes its writer, until it closes the buffer. Only complete episodes are sampled.
    When room is needed, the oldest episodes leave, each as a whole. If all of them leave before the
    open episode is complete, there is nothing to sample: choose a capacity of many episodes.

    If a process is killed, every frame whose `add` or `add_episode` returned survives, also those of
    the open episode. If the power fails (on Linux), every episode survives that was complete at the
    last `flush` and has not left since; later ones are dropped, since their bytes may not be on the
    disk. Values changed in place since the last flush may be lost. `close` flushes, and so does the
    end of an episode if the last flush was ``flush_every_s`` ago. Other systems do not tell a power
    failure from a killed process: there, do not trust frames added since the last flush.

    The files grow with the frames, up to the size of a full ring, which must be free at the start.
    If the disk fills up nevertheless, `add` raises `OSError` and adds nothing. On Windows the files
    have their full size at once.

    Args:
        path: Folder of the buffer; made if it does not exist.
        capacity: How many frames it holds. Needed for a new buffer.
        features: What every frame has. Needed for a new buffer. Images are stored as they are if
            declared ``uint8``, as JPEG if declared ``image``.
        fps: Frames per second, for windows in seconds.
        tasks: Tasks in words, by the number that frames have as ``task_index``.
        flush_every_s: Seconds between flushes; None leaves flushing to the caller.

    Raises:
        BufferMismatchError: The folder holds a buffer of other features, capacity, rate or tasks.
        MissingFileError: There is no buffer, and capacity or features are not given.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        capacity: int | None = None,
        features: Mapping[str, Feature] | None = None,
        fps: float | None = None,
        tasks: Mapping[int, str] | None = None,
        flush_every_s: float | None = 10.0,
    ) -> None:
        self.path = Path(path)
        self._flush_every_s = flush_every_s
        self._flushed_s = time.monotonic()
        self._spec = open_spec(self.path, capacity, features, fps, tasks)
        self._opened: Ring | None = Ring(self.path, self._spec)
        self._writer: RingWriter | None = None
        self._generator = np.random.default_rng()
        self._generator_pid = os.getpid()

    @classmethod
    def from_dataset(
        cls,
        path: str | os.PathLike[str],
        dataset: Dataset,
        *,
        capacity: int,
        features: Mapping[str, Feature] | None = None,
    ) -> ReplayBuffer:
        """Return a buffer filled with the episodes of a dataset.

        Args:
            path: Folder of the buffer.
            dataset: Where the episodes come from; if not all fit, the last ones stay.
            capacity: How many frames it holds.
            features: What to store; features that the dataset lacks begin as zeros. When not
                given, all features of the dataset, with video as JPEG; texts and depth cameras
                are refused.
        """
        wanted = stored_features(dataset.features) if features is None else features
        stored = [name for name in wanted if name in dataset.features]
        if not stored:
            raise FeatureNotFoundError(
                f"The dataset has none of {list(wanted)}: its features are "
                f"{list(dataset.features)}."
            )
        tasks = dataset.tasks if TASK_NUMBER in stored else None
        buffer = cls(path, capacity=capacity, features=wanted, fps=dataset.fps, tasks=tasks)
        try:
            for episode in dataset.episodes:
                buffer.add_episode(chosen_values(wanted, episode.read(stored, layout="hwc")))
        except BaseException:
            buffer.close()
            raise
        return buffer

    @property
    def features(self) -> Mapping[str, Feature]:
        """What every frame has."""
        return self._spec.features

    @property
    def capacity(self) -> int:
        """How many frames fit."""
        return self._spec.capacity

    @property
    def fps(self) -> float | None:
        """Frames per second, if known."""
        return self._spec.fps

    @property
    def tasks(self) -> Mapping[int, str]:
        """Tasks by the number that frames have as ``task_index``, if known."""
        return self._spec.tasks

    @property
    def num_episodes(self) -> int:
        """How many complete episodes are held."""
        return len(self._ring.snapshot())

    @property
    def open_frames(self) -> int:
        """How many frames the open episode has; they are not sampled yet."""
        header = self._ring.header()
        return header.head - header.open_start

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of all frames of complete episodes, oldest first, ``(N,)``."""
        snapshot = self._ring.snapshot()
        return np.arange(snapshot.start, snapshot.stop) % self.capacity

    def __len__(self) -> int:
        """Return the number of frames in complete episodes."""
        return self._ring.snapshot().num_rows

    def __repr__(self) -> str:
        return (
            f"ReplayBuffer({str(self.path)!r}: {len(self):,} of {self.capacity:,} frames in "
            f"{self.num_episodes:,} episodes, features {list(self.features)})"
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the values of a feature by row, ``(capacity, …)``: the map itself, writable.

        Rows are those of `rows`, and of ``"row"`` in a sample: 0 to ``capacity - 1``. If another
        process overwrites a row meanwhile, a change to it changes the new frame.
        """
        return self._ring.array(name)

    def add(self, frame: Mapping[str, object], *, end: bool = False) -> None:
        """Add one frame to the open episode.

        Args:
            frame: A value for every feature.
            end: Whether it is the last one of its episode.

        Raises:
            FrameError: The frame does not fit the features; nothing was added.
            BufferInUseError: Another process adds to this buffer.
        """
        self._writing().append(check_frame(self.features, frame), end=end)
        if end:
            self._flush_if_due()

    def add_episode(self, episode: Mapping[str, object]) -> None:
        """Add one complete episode; other processes see all of it or nothing.

        Args:
            episode: An array ``(T, …)`` for every feature.

        Raises:
            FrameError: It does not fit the features, or another episode is open; nothing was added.
            BufferInUseError: Another process adds to this buffer.
        """
        writer = self._writing()
        if writer.open_frames:
            raise FrameError(
                f"An episode of {writer.open_frames} frames is open: call end_episode() or "
                "discard_episode() first."
            )
        writer.append(check_episode(self.features, episode), end=True)
        self._flush_if_due()

    def end_episode(self) -> None:
        """Complete the open episode, also one that a crash left open."""
        if not self._writing().open_frames:
            raise FrameError("No episode is open: add a frame first.")
        self._writing().end_episode()
        self._flush_if_due()

    def discard_episode(self) -> None:
        """Drop the open episode; episodes that left to make room for it do not come back."""
        self._writing().discard_episode()

    def sample(
        self,
        batch: int,
        *,
        windows: Mapping[str, Window] | None = None,
        weights: str | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Return frames drawn at random, with replacement.

        Args:
            batch: How many to draw.
            windows: Offsets around the drawn frame, by feature. Where a window leaves the episode,
                its first or last frame is repeated.
            weights: A scalar feature that the chance of each frame is proportional to; without it
                all are equally likely.
            seed: The same seed draws the same frames from the same contents.

        Returns:
            For every feature a copy ``(batch, …)``, or with a window ``(batch, T, …)`` and, under
            ``"<feature>_is_pad"``, its mask ``(batch, T)``. Under ``"row"`` the rows of the drawn
            frames, ``(batch,)``.

        Raises:
            EmptyBufferError: No episode is complete, or all weights are zero.
        """
        if batch < 0:
            raise FrameError(f"batch is {batch}: give the number of frames to draw.")
        offsets = window_offsets(self._spec, windows or {})
        return draw_sample(self._ring, batch, offsets, weights, self._generator_of(seed))

    def episodes(self) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the complete episodes, oldest first, each as arrays ``(T, …)``.

        These are the episodes at the time of the call; one that leaves meanwhile is skipped.
        """
        ring = self._ring
        for start, stop in pairwise(ring.snapshot().starts.tolist()):
            values = ring.read(start, stop)
            if values is not None:
                yield values

    def as_source(self) -> ReplaySource:
        """Return the frames held now as samples; ``Loader`` and ``Mixture`` do this themselves."""
        return ReplaySource(self, self._ring.snapshot())

    def to_dataset(
        self,
        path: str | os.PathLike[str],
        *,
        fps: float | None = None,
        task: str | None = None,
        robot_type: str | None = None,
        store: CameraKind = "video",
        encoding: Encodings | None = None,
        nan_allowed: Collection[str] = (),
    ) -> int:
        """Write the complete episodes as a LeRobot v3.0 dataset, entirely or not at all.

        Features declared ``uint8 (height, width, 3)`` become cameras too. An episode that leaves
        the ring before it is written is left out.

        Args:
            path: A folder that does not exist yet, or is empty.
            fps: Frames per second; needed if the buffer has no rate.
            task: The task of all frames, in words. Needed if the buffer has no tasks of its own.
            robot_type: What the robot is called.
            store: Whether cameras are stored as ``"video"`` or, without loss in Parquet, as
                ``"image"``. Grey ones are always stored as images.
            encoding: How images become video: see `create_dataset`.
            nan_allowed: Features whose values may be NaN or infinite.

        Returns:
            How many episodes the dataset has.

        Raises:
            RecordingError: The path already exists, and is not an empty folder.
            EmptyBufferError: No episode is complete.
            FrameError: There is no rate or no task, or a value is NaN where that is not allowed.
            MetadataError: A dataset cannot hold one of the features.
        """
        options = RecordingOptions(encoding=encoding, nan_allowed=nan_allowed)
        return write_dataset(
            self._ring,
            writable_folder(path),
            fps=fps,
            task=task,
            robot_type=robot_type,
            store=store,
            options=options,
        )

    def flush(self) -> None:
        """Wait until complete episodes, and changes made in place, are on the disk."""
        writer = self._own_writer()
        if writer is None:
            for slots in self._ring.slots.values():
                slots.flush()
        else:
            writer.flush()
            self._flushed_s = time.monotonic()

    def close(self) -> None:
        """Flush what was added, and let another process write; closing twice does nothing."""
        writer = self._own_writer()
        if writer is not None:
            try:
                writer.flush()
            finally:
                writer.close()
        self._writer = self._opened = None

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "flush_every_s": self._flush_every_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], flush_every_s=state["flush_every_s"])

    @property
    def _ring(self) -> Ring:
        if self._opened is None:
            raise ValueError(f"The replay buffer is closed: {str(self.path)!r}.")
        return self._opened

    def _own_writer(self) -> RingWriter | None:
        """Return this process's writer: after a fork the child has none, the parent keeps it."""
        writer = self._writer
        return writer if writer is not None and writer.pid == os.getpid() else None

    def _writing(self) -> RingWriter:
        writer = self._own_writer()
        if writer is None:
            writer = self._writer = RingWriter(self._ring)
        return writer

    def _flush_if_due(self) -> None:
        every_s = self._flush_every_s
        if every_s is not None and time.monotonic() - self._flushed_s >= every_s:
            self.flush()

    def _generator_of(self, seed: int | np.random.Generator | None) -> np.random.Generator:
        if seed is not None:
            return np.random.default_rng(seed)
        if self._generator_pid != os.getpid():
            # Forked children would all draw the same frames as their parent.
            self._generator, self._generator_pid = np.random.default_rng(), os.getpid()
        return self._generator
