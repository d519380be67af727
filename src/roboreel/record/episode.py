"""The episode that is being recorded: its numbers in memory, and all of it on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.commit import Workshop
from roboreel.cores import usable_cores
from roboreel.errors import RecordingError
from roboreel.files import remove_tree, sync_directory
from roboreel.format.json_files import write_json
from roboreel.record.cameras import Camera, Cameras, PictureFile, VideoFile
from roboreel.record.checks import given_features
from roboreel.record.journal import RecordFile, Records, RowFormat, Rows
from roboreel.stats import sample_stride
from roboreel.threads import ThreadPool
from roboreel.video.splice import join_videos

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from roboreel.format.episode_metadata import Value
    from roboreel.record.cameras import Image, ImageFile
    from roboreel.record.options import RecordingOptions
    from roboreel.schema import Feature
    from roboreel.stats.gather import Gathered
    from roboreel.video.encode import Encoding

ROWS = "rows.journal"
METADATA = "metadata.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """What is recorded, and how."""

    features: Mapping[str, Feature]
    fps: float
    encodings: Mapping[str, Encoding]
    """By camera that is stored as video."""
    options: RecordingOptions


@dataclass(frozen=True, slots=True, eq=False)
class FinishedEpisode:
    """An episode that is complete, but not saved yet."""

    rows: Rows
    pictures: Mapping[str, Sequence[bytes]]
    """Encoded images, by camera that is stored as images."""
    videos: Mapping[str, Path]
    """By camera that is stored as video, an ordinary video file, which will be moved."""
    images: Mapping[str, Gathered]
    """Statistics of the cameras."""
    metadata: Mapping[str, Value]
    """What the caller says of the episode, by column of the episode table."""

    @property
    def size_bytes(self) -> int:
        """What numbers and pictures take, about."""
        numbers = sum(c.nbytes for c in self.rows.columns.values() if isinstance(c, np.ndarray))
        pictures = self.pictures.values()
        return numbers + sum(int(p.sizes.sum()) for p in pictures if isinstance(p, Records))


def open_folder(root: Path) -> Path:
    """Return the folder of a dataset's open episode."""
    return Workshop(root).path / "open"


def image_path(folder: Path, features: Mapping[str, Feature], camera: str) -> Path:
    """Return the file of a camera's images in an open episode."""
    # By number, since a file system may not accept the name.
    place = list(features).index(camera)
    return folder / f"{place}.{'mp4' if features[camera].dtype == 'video' else 'pictures'}"


class OpenEpisode:
    """An episode that is being recorded.

    Args:
        root: The dataset's folder.
        number: The number that the episode will have.
        settings: What is recorded, and how.
    """

    def __init__(self, root: Path, number: int, settings: Settings) -> None:
        self._folder = open_folder(root)
        # Of an episode whose first frame was interrupted: it has no frames.
        remove_tree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._settings = settings
        self._format = RowFormat(given_features(settings.features))
        self._records: list[bytes] = []
        self._adding = self._stopped = False
        self.is_discarded = False
        """Whether `discard` was called, even if it was interrupted."""
        self._names = [n for n, f in settings.features.items() if f.is_camera]
        self._file = RecordFile(self._folder / ROWS)
        self._cameras = Cameras({}, max_wait_s=0)
        try:
            self._file.append(json.dumps({"episode": number, **self._format.describe()}).encode())
            self._cameras = self._start_cameras()
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return len(self._records)

    def add(self, values: Mapping[str, Any], task: str) -> None:
        """Add a frame, entirely or not at all.

        Raises:
            TooSlowError: A camera's queue stayed full; nothing was added.
            RecordingError: The frame cannot be written, a camera has failed, or the episode takes
                no more frames.
        """
        self._check_open()
        images = {name: _own(values[name]) for name in self._names}
        record = self._format.pack(values, task)
        number, end = len(self._records), self._file.size_bytes
        self._cameras.wait_for_room(number)
        self._adding = True
        try:
            self._file.append(record)
            self._complete(number, record, images)
        except BaseException as error:
            # Ctrl-C strikes anywhere: a frame that is in the journal has its images too.
            if self._file.size_bytes > end:
                self._complete(number, record, images)
            self._adding = False
            if isinstance(error, OSError):
                raise RecordingError(
                    f"The frame was not recorded: {error.strerror or error}. The {number} frames "
                    f"before it are safe, in {str(self._folder)!r}."
                ) from error
            raise
        self._adding = False

    def finish(self, metadata: Mapping[str, Value]) -> FinishedEpisode:
        """Wait for the cameras and return what was recorded; no frame can be added any more.

        If this is interrupted, or the disk is full, it can be called again.

        Args:
            metadata: What the caller says of the episode.

        Raises:
            RecordingError: A camera has failed, or does not have an image for every frame.
        """
        self._check_whole()
        self._stopped = True
        # Into the journal: if saving is interrupted, this is recovered too.
        write_json(self._folder / METADATA, metadata, sync=False)
        cameras = self._cameras.finish()
        self._file.close()
        for camera in cameras.values():
            if camera.count != len(self._records):
                raise RecordingError(
                    f"{len(self._records)} frames were recorded, but {camera.count} images of "
                    f"{camera.name!r} are stored. Discard this episode; the saved ones are safe."
                )
        kinds = self._settings.features
        paths = {name: camera.file.path for name, camera in cameras.items()}
        videos = {name: path for name, path in paths.items() if kinds[name].is_video}
        images = {n: c.sampler.gathered for n, c in cameras.items()}
        return FinishedEpisode(
            rows=self._format.unpack(self._records),
            pictures={n: Records(path) for n, path in paths.items() if n not in videos},
            videos=dict(zip(videos, _whole_videos(videos.values()), strict=True)),
            images=images,
            metadata=metadata,
        )

    def move(self, finished: FinishedEpisode, folder: Path) -> FinishedEpisode:
        """Move the files of a finished episode to a new folder, and return it from there."""
        self._folder.rename(folder)
        pictures = {
            name: records.moved(folder) if isinstance(records, Records) else records
            for name, records in finished.pictures.items()
        }
        videos = {name: folder / path.name for name, path in finished.videos.items()}
        return replace(finished, pictures=pictures, videos=videos)

    def discard(self) -> None:
        """Drop the episode; if this is interrupted, it can be called again."""
        self.is_discarded = True
        self._stop()
        self.clear()
        # A power cut must not bring it back. A saved one may come back: its number is taken.
        sync_directory(self._folder.parent)

    def clear(self) -> None:
        """Remove the files, once the episode is saved or dropped."""
        drop_folder(self._folder)

    def abandon(self) -> None:
        """Stop, and leave on disk what can be recovered.

        Raises:
            RecordingError: A camera has failed: there are fewer images than frames.
        """
        self._stop()
        self._cameras.check()

    def _stop(self) -> None:
        self._stopped = True
        self._cameras.stop()
        self._file.close()

    def _complete(self, number: int, record: bytes, images: Mapping[str, Image]) -> None:
        """Do what follows once a frame is in the journal; doing it twice changes nothing."""
        self._records[number:] = [record]
        self._cameras.put(number, images)

    def _check_open(self) -> None:
        self._check_whole()
        if self._stopped:
            raise RecordingError(
                "This episode takes no more frames, since saving it was broken off: call "
                "save_episode again, or discard_episode."
            )

    def _check_whole(self) -> None:
        if self._adding:
            raise RecordingError(
                "add_frame was interrupted twice, so the last frame may lack images. Close the "
                "recorder: resume_dataset keeps the frames of this episode that are complete."
            )

    def _start_cameras(self) -> Cameras:
        cameras: dict[str, Camera] = {}
        try:
            for name in self._names:
                cameras[name] = self._camera(name)
        except BaseException:
            Cameras(cameras, max_wait_s=0).stop()
            raise
        return Cameras(cameras, max_wait_s=self._settings.options.max_wait_s)

    def _camera(self, name: str) -> Camera:
        feature, settings = self._settings.features[name], self._settings
        path = image_path(self._folder, settings.features, name)
        file: ImageFile = (
            VideoFile(path, feature.shape, settings.fps, settings.encodings[name])
            if feature.is_video
            else PictureFile(path, feature.depth)
        )
        return Camera(
            name,
            feature,
            file,
            capacity=max(2, round(settings.options.queue_s * settings.fps)),
            sample_every=sample_stride(settings.fps),
        )


def _own(image: Image) -> Image:
    """Return an image that the caller cannot change any more."""
    return image.copy() if isinstance(image, np.ndarray) else image


def drop_folder(folder: Path) -> None:
    """Remove the folder of an open episode, if it is there."""
    # One rename, so that a crash cannot bring back half of the episode.
    gone = folder.with_name("gone")
    remove_tree(gone, ignore_errors=True)
    if folder.exists():
        folder.rename(gone)
        remove_tree(gone)


def _whole_videos(paths: Iterable[Path]) -> list[Path]:
    """Copy fragmented files to ordinary ones beside them, which every reader opens."""

    def copy(path: Path) -> Path:
        whole = path.with_suffix(".whole.mp4")
        join_videos([path], whole)
        return whole

    with ThreadPool(usable_cores()) as pool:
        return list(pool.map(copy, paths))
