"""Recorder: the friendly face of recording."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roboreel.commit import Commit, Workshop
from roboreel.errors import DatasetError, FrameError, RecordingError
from roboreel.format.info import write_info
from roboreel.format.ledger import Ledger
from roboreel.format.limits import FileSizes, file_limits, with_file_sizes
from roboreel.format.paths import INFO_PATH
from roboreel.record.compact import compact
from roboreel.record.episode import OpenEpisode, Settings
from roboreel.record.held import HeldEpisodes
from roboreel.record.saving import save_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from filelock import FileLock

    from roboreel.record.checks import Door
    from roboreel.record.episode import FinishedEpisode
    from roboreel.record.totals import Totals
    from roboreel.schema import Feature, Manifest


class Recorder:
    """Adds episodes to a dataset; made by `create_dataset` and `resume_dataset`.

    At every moment the folder is a valid dataset of the saved episodes. Use it from one thread.
    """

    def __init__(
        self,
        manifest: Manifest,
        totals: Totals,
        settings: Settings,
        door: Door,
        lock: FileLock,
    ) -> None:
        self._ledger = Ledger.of(manifest)
        self._totals = totals
        self._settings = settings
        self._door = door
        self._lock = lock
        self._episode: OpenEpisode | None = None
        self._held = HeldEpisodes(self._ledger)
        self._failed = False

    @property
    def path(self) -> Path:
        """The dataset's folder."""
        return self._ledger.about.root

    @property
    def features(self) -> Mapping[str, Feature]:
        """What every frame has, by name."""
        return self._settings.features

    @property
    def num_episodes(self) -> int:
        """How many episodes are saved."""
        return self._ledger.num_episodes

    @property
    def num_frames(self) -> int:
        """How many frames the saved episodes have."""
        return self._ledger.num_rows

    @property
    def held_episodes(self) -> int:
        """How many episodes `hold_episode` has taken that are not saved yet."""
        return len(self._held)

    @property
    def open_frames(self) -> int:
        """How many frames the open episode has."""
        episode = self._episode
        # An interrupted `discard_episode` leaves an episode that the next frame does not go on.
        return 0 if episode is None or episode.is_discarded else len(episode)

    def add_frame(self, frame: Mapping[str, object], *, task: str) -> None:
        """Add a frame to the open episode; if there is none, a new one begins.

        Args:
            frame: A value for every feature that was declared. Cameras: ``uint8 (H, W, 3)``, or
                for depth ``(H, W)``, floating point in metres or uint16 in millimetres. Arrays
                are copied. An `EncodedImage` or `EncodedPacket` is stored without encoding it again.
            task: What the robot is doing, in words.

        Raises:
            FrameError: The frame does not fit the features; nothing was added.
            TooSlowError: A camera's queue stayed full; nothing was added.
            RecordingError: The recorder is closed, or has failed.
        """
        self._check_usable()
        values = self._door.check(frame, task)
        self._finish_discarding()
        if self._episode is None:
            number = self.num_episodes + len(self._held)
            self._episode = OpenEpisode(self.path, number, self._settings)
        self._episode.add(values, task)

    def save_episode(self, *, metadata: Mapping[str, object] | None = None) -> int:
        """Save the open episode; when this returns, it is on the disk.

        Args:
            metadata: What to say of the episode, such as ``{"success": True, "operator": "ada"}``:
                booleans, integers, floats or texts. Each becomes a column of the episode table,
                null for episodes without it; `Episode.metadata` reads it.

        Returns:
            The number of the episode.

        Raises:
            FrameError: The episode has no frames, or the metadata has a name of LeRobot's own or
                another type than in earlier episodes; the episode stays open.
            RecordingError: It cannot be saved. What was recorded stays on disk: see `close`.
        """
        with self._saving(metadata) as (episode, finished):
            self._commit([*self._held.episodes, finished])
            self._episode = None
            episode.clear()
        self._remember(numbers=False)
        return self.num_episodes - 1

    def hold_episode(self, *, metadata: Mapping[str, object] | None = None) -> None:
        """End the open episode, and save it together with later ones: by one commit, in one file.

        It is saved before the held ones outgrow a data file, and by `save_episode`, `save_held` and
        `close`. Until then a crash loses it: this is for what can be recorded again, such as an
        import. `num_episodes` counts it once it is saved.

        Args:
            metadata: As of `save_episode`.

        Raises:
            FrameError: As of `save_episode`.
            RecordingError: It cannot be written.
        """
        with self._saving(metadata) as (episode, finished):
            limit_bytes = file_limits(self._ledger.about).data_bytes
            if self._held.size_bytes + finished.size_bytes > limit_bytes:
                self._commit(self._held.episodes)
            self._held.take(episode, finished)
            self._episode = None

    def save_held(self) -> None:
        """Save the episodes that are held; when this returns, they are on the disk.

        Raises:
            RecordingError: They cannot be saved, and are lost.
        """
        self._check_usable()
        if self._held:
            with self._failing():
                self._commit(self._held.episodes)
            self._remember(numbers=False)

    def amend(
        self, *, files: FileSizes | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        """Change what info.json says of the dataset, its episodes apart.

        Args:
            files: How large the files become when they are joined.
            extra: Values by further keys of info.json; None removes a key.

        Raises:
            RecordingError: The recorder is closed, or has failed.
        """
        self._check_usable()
        ledger = self._ledger
        about = with_file_sizes(ledger.about, files or FileSizes())
        kept = {**about.extra, **(extra or {})}
        about = replace(about, extra={key: v for key, v in kept.items() if v is not None})
        commit = Commit(Workshop(self.path))
        counts = (ledger.num_episodes, ledger.num_rows)
        write_info(commit.add(INFO_PATH), about, counts=counts, sync=False)
        commit.run()
        self._ledger = replace(ledger, about=about)

    def discard_episode(self) -> None:
        """Drop the open episode, if there is one."""
        if self._episode is not None:
            self._episode.discard()
            self._episode = None

    def close(self) -> None:
        """Join small files, and let other processes record; closing twice does nothing.

        An open episode is neither saved nor lost: `resume_dataset` and ``roboreel recover`` make an
        episode of it. Call `discard_episode` first to drop it.
        """
        if not self._lock.is_locked:
            return
        try:
            self._leave_open()
            if not self._failed:
                self.save_held()
                self._remember(numbers=True)
                if self._settings.options.compact_on_close:
                    self._join_files()
        finally:
            self._lock.release()

    def __enter__(self) -> Recorder:  # noqa: PYI034  # typing.Self is younger than 3.10
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"Recorder({str(self.path)!r}, {self.num_episodes} episodes, "
            f"{self.open_frames} frames of the next one)"
        )

    @contextmanager
    def _saving(
        self, metadata: Mapping[str, object] | None
    ) -> Iterator[tuple[OpenEpisode, FinishedEpisode]]:
        """Yield the open episode, with its files completed."""
        self._check_usable()
        self._finish_discarding()
        episode = self._episode
        if episode is None:
            raise FrameError("There is no episode to save: add_frame comes first.")
        checked = self._held.check(metadata or {})
        try:
            finished = episode.finish(checked)
        except OSError as error:
            raise RecordingError(self._why_unsaved(error)) from error
        with self._failing():
            yield episode, finished

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let this recorder be of no further use if something is broken off."""
        # Before, not in an `except`: Ctrl-C may strike between any two steps.
        self._failed = True
        try:
            yield
        except OSError as error:
            raise RecordingError(self._why_unsaved(error)) from error
        self._failed = False

    def _commit(self, episodes: Sequence[FinishedEpisode]) -> None:
        if episodes:
            self._ledger = save_episodes(self._ledger, self._totals, episodes)
            self._held.clear()
            self._held = HeldEpisodes(self._ledger)

    def _finish_discarding(self) -> None:
        """Drop an episode for good whose `discard_episode` was interrupted."""
        if self._episode is not None and self._episode.is_discarded:
            self.discard_episode()

    def _leave_open(self) -> None:
        episode, self._episode = self._episode, None
        if episode is None:
            return
        try:
            episode.abandon()
        except RecordingError as error:
            # The caller may not have heard of it: this is the last chance.
            warnings.warn(f"The open episode lacks images. {error}", stacklevel=4)

    def _remember(self, *, numbers: bool) -> None:
        try:
            self._totals.remember(self.path, self.num_episodes, self.num_frames, numbers=numbers)
        except OSError as error:
            # All episodes are saved; the next recorder reads their values again.
            warnings.warn(
                f"Sketches for statistics were not stored: {error.strerror or error}.",
                stacklevel=3,
            )

    def _why_unsaved(self, error: OSError) -> str:
        why = error.strerror or error
        if self._failed and self._held:
            return (
                f"Saving {len(self._held)} held episodes failed: {why}. They are lost, unless all of "
                "their files were written: close this recorder, and record again what "
                f"resume_dataset({str(self.path)!r}) does not have."
            )
        reason = f"Saving episode {self.num_episodes} failed: {why}."
        if self._failed:
            return (
                f"{reason} Its frames are on the disk: close this recorder, and go on with "
                f"resume_dataset({str(self.path)!r}), which saves it."
            )
        return f"{reason} Its frames are on the disk: call save_episode again, or close."

    def _join_files(self) -> None:
        try:
            compact(self.path)
        except (DatasetError, OSError) as error:
            # What was recorded is complete and safe, in more files than necessary.
            warnings.warn(f"The small files were not joined: {error}", stacklevel=3)

    def _check_usable(self) -> None:
        if not self._lock.is_locked:
            raise RecordingError(
                f"The recorder is closed: go on with resume_dataset({str(self.path)!r})."
            )
        if self._failed:
            raise RecordingError(
                f"Saving was broken off, so this recorder cannot go on. {self.num_episodes} episodes "
                "are saved for certain, and the frames of the last one are on the disk: close this "
                f"recorder, and go on with resume_dataset({str(self.path)!r})."
            )
