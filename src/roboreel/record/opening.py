"""A dataset begun, or gone on with: both give a `Recorder`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from roboreel.commit import Commit, Workshop, drop_commit, lock_folder
from roboreel.format import read_manifest
from roboreel.format.append_v3 import start_dataset
from roboreel.format.hub import writable_folder
from roboreel.format.info import read_info
from roboreel.format.ledger import empty_manifest
from roboreel.format.limits import FileSizes, with_file_sizes
from roboreel.record.checks import Door
from roboreel.record.declare import (
    check_rate,
    check_same,
    choose_encodings,
    declare_features,
    describe_videos,
)
from roboreel.record.episode import Settings, drop_folder, open_folder
from roboreel.record.folders import check_free
from roboreel.record.options import choose_options
from roboreel.record.recorder import Recorder
from roboreel.record.recover import check_choice, recover
from roboreel.record.totals import Totals

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

    from roboreel.record.declare import Declared
    from roboreel.record.options import CameraKind, RecordingKeywords, RecordingOptions
    from roboreel.record.recover import OpenEpisodeChoice


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
    read_info(root)  # before the lock, which makes a folder
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
