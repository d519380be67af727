"""Recorder: the friendly face of recording."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from roboreel.commit import Commit, Workshop, drop_commit, lock_folder
from roboreel.errors import DatasetError, EncodingError, FrameError, MetadataError, RecordingError
from roboreel.format import read_manifest
from roboreel.format.counters import COUNTERS
from roboreel.format.features import feature_from_json
from roboreel.format.write_v3 import write_info, write_tasks
from roboreel.record.checks import Door
from roboreel.record.compact import compact
from roboreel.record.episode import OpenEpisode, Settings
from roboreel.record.ledger import Ledger, empty_manifest
from roboreel.record.recover import recover
from roboreel.record.saving import save_episode
from roboreel.record.totals import Totals
from roboreel.schema import Feature
from roboreel.video.encode import Encoding, check_encoding

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping
    from types import TracebackType

    from filelock import FileLock

    from roboreel.schema import Manifest

    Store = Literal["video", "image"]
    Encodings = Encoding | Mapping[str, Encoding]

__all__ = ["Recorder", "check_free", "create_dataset", "resume_dataset"]


def create_dataset(
    path: str | os.PathLike[str],
    *,
    fps: float,
    features: Mapping[str, Feature | Mapping[str, Any]],
    robot_type: str | None = None,
    store: Store | None = None,
    encoding: Encodings | None = None,
    nan_allowed: Collection[str] = (),
    queue_s: float = 1.0,
    max_wait_s: float = 5.0,
    compact_on_close: bool = True,
) -> Recorder:
    """Make a LeRobot v3.0 dataset, empty at first, and return a recorder that adds episodes.

    Args:
        path: A folder that does not exist yet, or is empty.
        fps: Frames per second.
        features: What every frame has: a `Feature`, or an entry as LeRobot's info.json has it.
            Timestamps, indices and tasks need not be listed.
        robot_type: What the robot is called.
        store: Whether cameras are stored as ``"video"`` or, in Parquet, as ``"image"``; as their
            features say when not given.
        encoding: How images become video: one for all cameras, or one for each. AV1 when not
            given, and for depth lossless 12-bit HEVC.
        nan_allowed: Features whose values may be NaN or infinite.
        queue_s: Seconds of images that may wait for the encoder, in memory.
        max_wait_s: How long `Recorder.add_frame` waits for a full queue before it raises.
        compact_on_close: Whether `Recorder.close` joins small files.

    Raises:
        RecordingError: There is something at this path already.
        MetadataError: A feature cannot be recorded.
        EncodingError: A camera's images cannot be encoded so.
        DatasetInUseError: Somebody else is making a dataset at this path.
    """
    root = Path(path).expanduser()
    check_free(root)
    declared = _declare(features, store)
    encodings = _encodings(declared, encoding)
    for name, chosen in encodings.items():
        height, width, _ = declared[name].shape
        check_encoding(chosen, size=(height, width), fps=fps)
        declared[name] = _with_info(declared[name], chosen, fps)
    settings = Settings(declared, fps, encodings, queue_s, max_wait_s)
    door = Door(declared, nan_allowed)
    manifest = empty_manifest(root, fps=fps, features=declared, robot_type=robot_type)
    workshop = Workshop(root)
    lock = lock_folder(workshop)
    try:
        drop_commit(workshop)  # of a process that died while it made a dataset here
        commit = Commit(workshop)
        write_tasks(commit.add("meta/tasks.parquet"), {}, sync=False)
        write_info(manifest, path=commit.add("meta/info.json"))
        commit.run()
    except BaseException:
        lock.release()
        raise
    return Recorder(manifest, Totals(declared), settings, door, lock, compact_on_close)


def resume_dataset(
    path: str | os.PathLike[str],
    *,
    fps: float | None = None,
    features: Mapping[str, Feature | Mapping[str, Any]] | None = None,
    encoding: Encodings | None = None,
    nan_allowed: Collection[str] = (),
    queue_s: float = 1.0,
    max_wait_s: float = 5.0,
    compact_on_close: bool = True,
) -> Recorder:
    """Return a recorder that adds episodes to a v3.0 dataset, after recovering what a crash left.

    Args:
        path: The dataset's folder.
        fps: If given, it must be the dataset's.
        features: If given, they must be the dataset's.
        encoding: How images become video; in the dataset's codec when not given.
        nan_allowed: Features whose values may be NaN or infinite.
        queue_s: Seconds of images that may wait for the encoder, in memory.
        max_wait_s: How long `Recorder.add_frame` waits for a full queue before it raises.
        compact_on_close: Whether `Recorder.close` joins small files.

    Raises:
        NotADatasetError: There is no dataset at this path.
        UnsupportedVersionError: It is not of version v3.0.
        RecordingError: It has another rate or other features.
        DatasetInUseError: Somebody else records into it.
    """
    root = Path(path).expanduser()
    read_manifest(root)  # Before the lock, which makes a folder.
    lock = lock_folder(Workshop(root))
    try:
        recover(root)
        manifest = read_manifest(root)
        _check_same(manifest, fps, features)
        encodings = _encodings(manifest.features, encoding)
        settings = Settings(manifest.features, manifest.fps, encodings, queue_s, max_wait_s)
        door = Door(manifest.features, nan_allowed)
        totals = Totals.restore(manifest)
        return Recorder(manifest, totals, settings, door, lock, compact_on_close)
    except BaseException:
        lock.release()
        raise


class Recorder:
    """Adds episodes to a dataset; made by `create_dataset` and `resume_dataset`.

    At every moment the folder is a valid dataset of the saved episodes. To be used by one thread.
    """

    def __init__(
        self,
        manifest: Manifest,
        totals: Totals,
        settings: Settings,
        door: Door,
        lock: FileLock,
        compact_on_close: bool,
    ) -> None:
        self._ledger = Ledger.of(manifest)
        self._totals = totals
        self._settings = settings
        self._door = door
        self._lock = lock
        self._compact_on_close = compact_on_close
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
        """Add a frame to the open episode, which begins with it if there is none.

        Args:
            frame: A value for every feature that was declared. Cameras: ``uint8 (H, W, 3)``, or
                for depth ``(H, W)``, floating point in metres or uint16 in millimetres. Arrays
                are copied.
            task: What the robot is doing, in words.

        Raises:
            FrameError: The frame does not fit; the episode is as it was before.
            TooSlowError: A camera's queue stayed full; the frame was not taken.
            RecordingError: The recorder is closed, or has failed.
        """
        self._check_usable()
        values = self._door.check(frame, task)
        if self._episode is None:
            self._episode = OpenEpisode(self.path, self.num_episodes, self._settings)
        self._episode.add(values, task)

    def save_episode(self) -> int:
        """Save the open episode; when this returns it is on the disk.

        Returns:
            The number of the episode.

        Raises:
            FrameError: The episode has no frames.
            RecordingError: It cannot be saved. What was recorded stays on disk for `recover`.
        """
        self._check_usable()
        episode = self._episode
        if episode is None:
            raise FrameError("There is no frame to save: add_frame comes first.")
        finished = episode.finish()
        try:
            self._ledger = save_episode(self._ledger, self._totals, finished)
            self._episode = None
            episode.clear()
            self._totals.remember(self.path, self.num_episodes, self.num_frames, numbers=False)
        except BaseException:
            self._failed = True
            raise
        return self.num_episodes - 1

    def discard_episode(self) -> None:
        """Forget the open episode, if there is one."""
        episode, self._episode = self._episode, None
        if episode is not None:
            episode.discard()

    def close(self) -> None:
        """Join small files and let others record; nothing happens if that is done already.

        An open episode is not saved, and not lost: `resume_dataset` or ``roboreel recover`` makes
        an episode of it. Call `discard_episode` to forget it.
        """
        if not self._lock.is_locked:
            return
        try:
            self._leave_open()
            if not self._failed:
                self._totals.remember(self.path, self.num_episodes, self.num_frames, numbers=True)
                if self._compact_on_close:
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

    def _leave_open(self) -> None:
        episode, self._episode = self._episode, None
        if episode is None:
            return
        try:
            episode.abandon()
        except RecordingError as error:
            # Nobody may have asked since: this is the last moment to say so.
            warnings.warn(f"The open episode lacks images. {error}", stacklevel=4)

    def _join_files(self) -> None:
        try:
            compact(self.path)
        except (DatasetError, OSError) as error:
            # What was recorded is safe and whole; only its files are many.
            warnings.warn(f"The small files were not joined: {error}", stacklevel=3)

    def _check_usable(self) -> None:
        if not self._lock.is_locked:
            raise RecordingError(f"This recorder is closed: resume_dataset({str(self.path)!r}).")
        if self._failed:
            raise RecordingError(
                "Saving failed before, so that this recorder does not know what is on the disk: "
                f"close it, and resume_dataset({str(self.path)!r})."
            )


def check_free(root: Path) -> None:
    """Raise if a dataset cannot be made at a path, because there is something."""
    if not root.exists():
        return
    # A process that died while it made the dataset leaves these, and no info.json.
    ours = {Workshop(root).name, "meta"} if not (root / "meta" / "info.json").exists() else set()
    if not root.is_dir() or any(entry.name not in ours for entry in root.iterdir()):
        raise RecordingError(
            "There is something already: choose a new folder, or go on with "
            f"resume_dataset({str(root)!r})."
        )


def _declare(
    features: Mapping[str, Feature | Mapping[str, Any]], store: Store | None
) -> dict[str, Feature]:
    declared = {}
    for name, given in features.items():
        if name in COUNTERS:
            continue
        feature = given if isinstance(given, Feature) else _from_entry(name, given)
        if not name or name[0] == "." or "/" in name or "\\" in name or name == "task":
            raise MetadataError(f"A feature cannot be called {name!r}: choose another name.")
        if feature.kind == "language":
            raise MetadataError(f"Feature {name!r} is language, which is not recorded yet.")
        if feature.is_camera and store is not None:
            feature = replace(feature, dtype=store)
        if feature.dtype == "image" and feature.depth is not None:
            raise MetadataError(f"Depth camera {name!r} is recorded as video: use store='video'.")
        if feature.dtype == "video" and feature.depth is None and feature.shape[-1] != 3:
            raise MetadataError(
                f"Video of {name!r} has three colours, not the {feature.shape[-1]} of shape "
                f"{feature.shape}: use store='image', or Depth for distances."
            )
        declared[name] = feature
    return {**declared, **COUNTERS}


def _from_entry(name: str, entry: Mapping[str, Any]) -> Feature:
    # LeRobot's own entries have tuples where JSON has lists.
    listed = {key: list(v) if isinstance(v, tuple) else v for key, v in entry.items()}
    return feature_from_json(name, listed)


def _encodings(features: Mapping[str, Feature], encoding: Encodings | None) -> dict[str, Encoding]:
    cameras = {name: f for name, f in features.items() if f.dtype == "video"}
    if encoding is None or isinstance(encoding, Encoding):
        given: Mapping[str, Encoding] = {}
    else:
        given = encoding
    unknown = [name for name in given if name not in cameras]
    if unknown:
        raise EncodingError(
            f"There is an encoding for {unknown[0]!r}, which is no camera stored as video: there "
            f"are {', '.join(cameras) or 'none'}."
        )
    chosen = {}
    for name, feature in cameras.items():
        if name in given:
            chosen[name] = given[name]
        elif feature.depth is not None:
            chosen[name] = Encoding("hevc", depth=feature.depth)
        elif isinstance(encoding, Encoding):
            chosen[name] = encoding
        else:
            chosen[name] = _encoding_of(feature)
    return chosen


def _encoding_of(feature: Feature) -> Encoding:
    """Return the encoding that a dataset's metadata speaks of, or ours."""
    info = feature.extra.get("info") or feature.extra.get("video_info") or {}
    codec = info.get("video.codec")
    return Encoding(codec) if codec in ("av1", "h264", "hevc") else Encoding()


def _with_info(feature: Feature, encoding: Encoding, fps: float) -> Feature:
    info = encoding.info((feature.shape[0], feature.shape[1]), fps)
    # The schema says what concerns depth, and the format layer spells it.
    plain = {key: value for key, value in info.items() if "depth" not in key}
    return replace(feature, extra={**feature.extra, "info": plain})


def _check_same(
    manifest: Manifest,
    fps: float | None,
    features: Mapping[str, Feature | Mapping[str, Any]] | None,
) -> None:
    where = f"in {str(manifest.root)!r}"
    count = len(manifest.episodes)
    if count and int(manifest.episodes.number[-1]) != count - 1:
        raise RecordingError(
            f"The {count} episodes are not numbered 0 to {count - 1}, so that no reader would find "
            f"another one: make a new dataset of them, {where}."
        )
    if fps is not None and fps != manifest.fps:
        raise RecordingError(f"{fps:g} fps were asked for: there are {manifest.fps:g}, {where}.")
    if features is None:
        return
    asked = _declare(features, None)
    for name in dict.fromkeys([*asked, *manifest.features]):
        ours, theirs = asked.get(name), manifest.features.get(name)
        if ours is None or theirs is None:
            there = (
                "is not in the dataset" if theirs is None else "is in the dataset, not in features"
            )
            raise RecordingError(f"Feature {name!r} {there}, {where}.")
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            raise RecordingError(
                f"Feature {name!r} is {theirs.dtype} {theirs.shape} in the dataset, and "
                f"{ours.dtype} {ours.shape} was asked for, {where}."
            )
