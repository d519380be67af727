"""Recorder: the friendly face of recording."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roboreel.commit import Commit, Workshop, drop_commit, lock_folder
from roboreel.errors import DatasetError, FrameError, RecordingError
from roboreel.format import read_manifest
from roboreel.format.append_v3 import start_dataset
from roboreel.format.episode_metadata import check_metadata
from roboreel.format.hub import writable_folder
from roboreel.format.info import write_info
from roboreel.format.ledger import Ledger, empty_manifest
from roboreel.format.limits import FileSizes, with_file_sizes
from roboreel.format.paths import INFO_PATH
from roboreel.record.checks import Door
from roboreel.record.compact import compact
from roboreel.record.declare import (
    check_rate,
    check_same,
    choose_encodings,
    declare_features,
    describe_videos,
)
from roboreel.record.episode import OpenEpisode, Settings, drop_folder, open_folder
from roboreel.record.folders import check_free
from roboreel.record.options import choose_options
from roboreel.record.recover import check_choice, recover
from roboreel.record.saving import save_episode
from roboreel.record.totals import Totals

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from filelock import FileLock
    from typing_extensions import Unpack

    from roboreel.record.declare import Declared
    from roboreel.record.options import CameraKind, RecordingKeywords, RecordingOptions
    from roboreel.record.recover import OpenEpisodeChoice
    from roboreel.schema import Feature, Manifest

__all__ = ["Recorder", "create_dataset", "resume_dataset"]


def create_dataset(
    path: str | os.PathLike[str],
    *,
    fps: float,
    features: Declared,
    robot_type: str | None = None,
    store: CameraKind | None = None,
    options: RecordingOptions | None = None,
    **keywords: Unpack[RecordingKeywords],
) -> Recorder:
    """Make a LeRobot v3.0 dataset, empty at first, and return a recorder that adds episodes.

    Args:
        path: A folder that does not exist yet, or is empty, or holds a dataset in which nothing
            was ever recorded.
        fps: Frames per second.
        features: What every frame has: a `Feature`, or an entry as LeRobot's info.json has it.
            Timestamps, indices and tasks need not be listed.
        robot_type: What the robot is called.
        store: Whether cameras are stored as ``"video"`` or, in Parquet, as ``"image"``; as their
            features say when not given.
        options: How to record.
        **keywords: Fields of `RecordingOptions`, in place of those of ``options``: ``encoding``,
            ``nan_allowed``, ``queue_s``, ``max_wait_s``, ``compact_on_close``, ``files``.

    Raises:
        RecordingError: The path already exists, or an option is out of range.
        MetadataError: A feature cannot be recorded.
        EncodingError: A camera's images cannot be encoded as asked.
        DatasetInUseError: Another process is making a dataset at this path.
    """
    root = writable_folder(path)
    chosen = choose_options(options, keywords)
    check_free(root)
    check_rate(fps)
    declared = declare_features(features, store)
    encodings = choose_encodings(declared, chosen.encoding)
    declared = describe_videos(declared, encodings, fps)
    settings = Settings(declared, fps, encodings, chosen)
    door = Door(declared, chosen.nan_allowed)
    manifest = empty_manifest(root, fps=fps, features=declared, robot_type=robot_type)
    manifest = with_file_sizes(manifest, chosen.files or FileSizes())
    workshop = Workshop(root)
    lock = lock_folder(workshop)
    try:
        check_free(root)  # again: somebody else may have been here before the lock
        drop_commit(workshop)  # of a process that died while it made a dataset here
        drop_folder(open_folder(root))
        commit = Commit(workshop)
        start_dataset(manifest, commit.add)
        commit.run()
        return Recorder(manifest, Totals(declared), settings, door, lock)
    except BaseException:
        lock.release()
        raise


def resume_dataset(
    path: str | os.PathLike[str],
    *,
    fps: float | None = None,
    features: Declared | None = None,
    open_episode: OpenEpisodeChoice = "keep",
    options: RecordingOptions | None = None,
    **keywords: Unpack[RecordingKeywords],
) -> Recorder:
    """Return a recorder that adds episodes to a v3.0 dataset, after recovering what a crash left.

    Args:
        path: The dataset's folder.
        fps: If given, it must be the dataset's.
        features: If given, they must be the dataset's.
        open_episode: What becomes of an episode that was open when its recorder ended, or the
            machine. ``"keep"``: what there is of it is saved, ``recovered`` is True in its metadata,
            and a warning says how many frames it has. ``"discard"``: it is dropped. ``"raise"``: a
            `RecordingError` says how many frames it has, and it stays as it is.
        options: How to record.
        **keywords: Fields of `RecordingOptions`, in place of those of ``options``: ``encoding``,
            ``nan_allowed``, ``queue_s``, ``max_wait_s``, ``compact_on_close``, ``files``.

    Raises:
        NotADatasetError: There is no dataset at this path.
        UnsupportedVersionError: It is not of version v3.0.
        RecordingError: It has another rate or other features, or an option is out of range; or
            there is an open episode and ``open_episode="raise"``.
        DatasetInUseError: Another process changes it.
        UnsafePathError: One of its files or folders is a symbolic link.
    """
    root = writable_folder(path)
    chosen = choose_options(options, keywords)
    check_choice(open_episode)
    read_manifest(root)  # before the lock, which makes a folder
    lock = lock_folder(Workshop(root))
    try:
        found = recover(root, open_episode=open_episode)
        for sentence in found.sentences() if found.found_frames or found.problems else ():
            warnings.warn(f"{sentence} {str(root)!r}", stacklevel=2)
        manifest = read_manifest(root)
        check_same(manifest, fps, features)
        encodings = choose_encodings(manifest.features, chosen.encoding)
        settings = Settings(manifest.features, manifest.fps, encodings, chosen)
        door = Door(manifest.features, chosen.nan_allowed)
        recorder = Recorder(manifest, Totals.restore(manifest), settings, door, lock)
        if chosen.files is not None:
            recorder.amend(files=chosen.files)
        return recorder
    except BaseException:
        lock.release()
        raise


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
    def open_frames(self) -> int:
        """How many frames the open episode has."""
        return 0 if self._episode is None else len(self._episode)

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
            self._episode = OpenEpisode(self.path, self.num_episodes, self._settings)
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
        self._check_usable()
        self._finish_discarding()
        episode = self._episode
        if episode is None:
            raise FrameError("There is no episode to save: add_frame comes first.")
        checked = check_metadata(self._ledger, metadata or {})
        try:
            finished = episode.finish(checked)
            # Before, not in an `except`: Ctrl-C may strike between any two steps.
            self._failed = True
            self._ledger = save_episode(self._ledger, self._totals, finished)
            self._episode = None
            episode.clear()
        except OSError as error:
            raise RecordingError(self._why_unsaved(error)) from error
        self._failed = False
        self._remember(numbers=False)
        return self.num_episodes - 1

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
        reason = f"Saving episode {self.num_episodes} failed: {error.strerror or error}."
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
