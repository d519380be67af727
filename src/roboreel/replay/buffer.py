"""ReplayBuffer: a mapped ring that is mutated in place."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from roboreel.errors import FeatureNotFoundError, FrameError, WindowError
from roboreel.format.counters import TASK_NUMBER
from roboreel.record.values import check_episode, check_frame
from roboreel.replay.convert import Export, chosen_values, stored_features, write_dataset
from roboreel.replay.opening import open_layout
from roboreel.replay.ring import slot_spans
from roboreel.replay.sampling import draw_sample
from roboreel.replay.store import RingStore
from roboreel.replay.writer import RingWriter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.record.recorder import Encodings, Store
    from roboreel.replay.convert import ReadableDataset
    from roboreel.schema import Feature
    from roboreel.window import Window

__all__ = ["ReplayBuffer"]


@final
class ReplayBuffer:
    """A ring of the newest episodes on disk, mapped, sampled and changed in place.

    Any number of processes may open a buffer, sample from it and change values in place; the first
    one to add becomes its writer until it is closed. Only complete episodes are sampled. When room
    is needed the oldest episodes leave, each as a whole. If they all leave before the open episode
    is complete there is nothing to sample, so a capacity of many episodes is wise.

    What survives: if a process is killed, every `add` and `add_episode` that returned, the open
    episode too. If the power fails, on Linux, every episode that was complete at the last `flush`
    and has not left since; later ones are forgotten rather than trusted. A flush is also made when
    an episode ends and the last flush was ``flush_every_s`` ago, and by `close`. Values changed in
    place since the last flush may be lost with the power. On other systems nothing tells a loss of
    power from a killed process, and frames added since the last flush must then be doubted.

    On disk the files grow with the frames, up to the size of a full ring, which must be free at the
    start. A disk that fills up nevertheless raises `OSError` from `add`, with nothing added.
    Windows gives the files their full size at once.

    Args:
        path: Folder of the buffer; made if it does not exist.
        capacity: How many frames it holds. Needed for a new buffer.
        features: What every frame has. Needed for a new buffer. Images are stored as they are if
            declared ``uint8``, as JPEG if declared ``image``.
        fps: Frames per second, for windows in seconds.
        tasks: What robots do, in words, by the number that frames have as ``task_index``.
        flush_every_s: See above; None leaves flushing to the caller.

    Raises:
        BufferMismatchError: The folder holds a buffer of other features or capacity.
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
        self._layout = open_layout(self.path, capacity, features, fps, tasks)
        self._opened: RingStore | None = RingStore(self.path, self._layout)
        self._writer: RingWriter | None = None
        self._generator = np.random.default_rng()
        self._generator_pid = os.getpid()

    @classmethod
    def from_dataset(
        cls,
        path: str | os.PathLike[str],
        dataset: ReadableDataset,
        *,
        capacity: int,
        features: Mapping[str, Feature] | None = None,
    ) -> ReplayBuffer:
        """Return a buffer filled with the episodes of a dataset.

        Args:
            path: Folder of the buffer.
            dataset: Where the episodes come from; if they are too many, the last ones stay.
            capacity: How many frames it holds.
            features: What to store; those that the dataset lacks begin as zeros. Without it, all
                features of the dataset, with video as JPEG.
        """
        wanted = stored_features(dataset.features) if features is None else features
        stored = [name for name in wanted if name in dataset.features]
        if not stored:
            raise FeatureNotFoundError(
                f"The dataset has none of {list(wanted)}: it has {list(dataset.features)}."
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
        return self._layout.features

    @property
    def capacity(self) -> int:
        """How many frames fit."""
        return self._layout.capacity

    @property
    def fps(self) -> float | None:
        """Frames per second, if known."""
        return self._layout.fps

    @property
    def tasks(self) -> Mapping[int, str]:
        """Tasks by the number that frames have as ``task_index``, if known."""
        return self._layout.tasks

    @property
    def num_episodes(self) -> int:
        """Complete episodes that are held."""
        return len(self._store.snapshot())

    @property
    def open_frames(self) -> int:
        """Frames of the episode that is being added; they are not sampled yet."""
        header = self._store.header()
        return header.head - header.open_start

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of all frames of complete episodes, oldest first, ``(N,)``."""
        snapshot = self._store.snapshot()
        spans = slot_spans(snapshot.tail, snapshot.tail + snapshot.num_rows, self.capacity)
        return np.concatenate([np.arange(start, stop) for start, stop in spans])

    def __len__(self) -> int:
        """Return the number of frames in complete episodes."""
        return self._store.snapshot().num_rows

    def __repr__(self) -> str:
        return (
            f"ReplayBuffer({str(self.path)!r}: {len(self):,} of {self.capacity:,} frames in "
            f"{self.num_episodes:,} episodes, features {list(self.features)})"
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the values of a feature by row, ``(capacity, …)``: the map itself, to be changed.

        Rows here are places in the ring, 0 to ``capacity - 1``: `rows`, and ``"row"`` in a sample.
        What another process overwrites meanwhile belongs to a new frame.
        """
        return self._store.array(name)

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
        """Add one complete episode; others see all of it or nothing.

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
        """Make the open episode complete, for instance one that a crash left open."""
        if not self._writing().open_frames:
            raise FrameError("No episode is open: add a frame first.")
        self._writing().end_episode()
        self._flush_if_due()

    def discard_episode(self) -> None:
        """Forget the open episode; episodes that left to make room for it do not come back."""
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
            windows: Offsets around the drawn frame, by feature. A window that would leave the
                episode repeats its first or last frame.
            weights: A scalar feature to which the chance of each frame is proportional; all are
                equally likely without it.
            seed: The same seed draws the same frames from the same contents.

        Returns:
            For every feature an array of the caller's own: ``(batch, …)``, or with a window
            ``(batch, T, …)`` and, under ``"<feature>_is_pad"``, the mask ``(batch, T)``. Under
            ``"row"`` where the drawn frames stand.

        Raises:
            EmptyBufferError: No episode is complete, or all weights are zero.
        """
        if batch < 0:
            raise FrameError(f"batch is {batch}: give the number of frames to draw.")
        offsets = self._offsets(windows or {})
        generator = self._generator_of(seed)
        return draw_sample(self._store, batch, offsets, weights, generator)

    def episodes(self) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the complete episodes, oldest first, each as arrays ``(T, …)``.

        Those are the episodes at the time of the call; one that leaves meanwhile is passed over.
        """
        store, starts = self._store, self._store.snapshot().starts.tolist()
        for start, stop in pairwise(starts):
            slots = np.arange(start, stop) % self.capacity
            fetched = {name: column.fetch(slots) for name, column in store.columns.items()}
            if start >= store.header().tail:
                yield {name: store.columns[name].decode(value) for name, value in fetched.items()}

    def to_dataset(
        self,
        path: str | os.PathLike[str],
        *,
        fps: float | None = None,
        task: str | None = None,
        robot_type: str | None = None,
        store: Store = "video",
        encoding: Encodings | None = None,
        nan_allowed: Collection[str] = (),
    ) -> int:
        """Write the complete episodes as a LeRobot v3.0 dataset, entirely or not at all.

        Images are decoded; those declared ``uint8 (height, width, 3)`` become cameras too. An
        episode that leaves the ring before it is written down is left out.

        Args:
            path: A folder that does not exist yet, or is empty.
            fps: Frames per second; needed if the buffer has no rate.
            task: What the robot does in all frames, in words. Needed if the buffer has no tasks;
                otherwise frames have those.
            robot_type: What the robot is called.
            store: Whether cameras are stored as ``"video"``, or exactly as they are, in Parquet,
                as ``"image"``. Grey ones are stored as images always.
            encoding: How images become video; see `create_dataset`.
            nan_allowed: Features whose values may be NaN or infinite.

        Returns:
            How many episodes the dataset has.

        Raises:
            RecordingError: There is something at this path already.
            EmptyBufferError: No episode is complete.
            FrameError: There is no rate or no task, or a value is NaN where it may not be.
            MetadataError: A dataset cannot have one of the features.
        """
        export = Export(fps, task, robot_type, store, encoding, nan_allowed)
        return write_dataset(self._store, Path(path).expanduser(), export)

    def flush(self) -> None:
        """Wait until complete episodes and changes made in place are on the disk."""
        writer = self._own_writer()
        if writer is None:
            for column in self._store.columns.values():
                column.flush()
        else:
            writer.flush()
            self._flushed_s = time.monotonic()

    def close(self) -> None:
        """Flush what was added and let another process write; closing twice does nothing."""
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
    def _store(self) -> RingStore:
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
            writer = self._writer = RingWriter(self._store)
        return writer

    def _flush_if_due(self) -> None:
        every_s = self._flush_every_s
        if every_s is not None and time.monotonic() - self._flushed_s >= every_s:
            self.flush()

    def _generator_of(self, seed: int | np.random.Generator | None) -> np.random.Generator:
        if seed is not None:
            return np.random.default_rng(seed)
        if self._generator_pid != os.getpid():
            # Forked children would all draw what their parent draws.
            self._generator, self._generator_pid = np.random.default_rng(), os.getpid()
        return self._generator

    def _offsets(self, windows: Mapping[str, Window]) -> dict[str, NDArray[np.int64]]:
        for name, window in windows.items():
            if name not in self.features:
                raise FeatureNotFoundError(f"No feature {name!r}: there are {list(self.features)}.")
            if window.seconds is not None and self.fps is None:
                raise WindowError(f"{window} is in seconds: give the buffer an fps, or use frames.")
        return {name: window.offsets(self.fps or 0) for name, window in windows.items()}
