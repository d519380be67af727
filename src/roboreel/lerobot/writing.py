"""Episodes recorded through LeRobot's method names; a `Recorder` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import (
    FolderTakenError,
    FrameError,
    RecordingError,
    UnsupportedArgumentError,
)
from roboreel.format.features import feature_from_json
from roboreel.format.hub import lerobot_home
from roboreel.lerobot.encoders import choose_depth, encodings_of
from roboreel.lerobot.frame_checks import check_frame
from roboreel.record.checks import given_features
from roboreel.record.opening import create_dataset, resume_dataset
from roboreel.schema import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.format.limits import FileSizes
    from roboreel.record.options import RecordingKeywords
    from roboreel.record.recorder import Recorder

__all__ = ["EpisodeWriter", "create_writer", "new_folder", "resume_writer"]


def new_folder(repo_id: str, root: str | Path | None) -> Path:
    """Return where a new dataset is made: the given folder, or one in LeRobot's home.

    Raises:
        FolderTakenError: It exists, even if it is empty, as in LeRobot.
    """
    folder = lerobot_home() / repo_id if root is None else Path(root).expanduser()
    if folder.exists():
        raise FolderTakenError(
            f"{str(folder)!r} already exists: choose a new folder, or add to a dataset with "
            "LeRobotDataset.resume."
        )
    return folder


def create_writer(
    path: str | Path,
    *,
    fps: float,
    features: Mapping[str, Feature | Mapping[str, Any]],
    robot_type: str | None,
    use_videos: bool,
    encoders: Mapping[str, Any],
    queue_images: int,
    files: FileSizes,
) -> EpisodeWriter:
    """Return a writer into a new dataset.

    Raises:
        UnsupportedArgumentError: There are video features, and ``use_videos`` is False.
    """
    declared = {
        name: choose_depth(
            given if isinstance(given, Feature) else feature_from_json(name, given),
            encoders.get("depth_encoder"),
        )
        for name, given in features.items()
    }
    videos = [name for name, feature in declared.items() if feature.dtype == "video"]
    if videos and not use_videos:
        raise UnsupportedArgumentError(
            f"use_videos=False, but {videos[0]!r} has dtype 'video': declare it as 'image'."
        )
    recorder = create_dataset(
        path,
        fps=fps,
        features=declared,
        robot_type=robot_type,
        **_options(declared, encoders, queue_images / fps, files),
    )
    return EpisodeWriter(recorder, fps)


def resume_writer(
    path: str | Path,
    *,
    fps: float,
    features: Mapping[str, Feature],
    encoders: Mapping[str, Any],
    queue_images: int,
) -> EpisodeWriter:
    """Return a writer into a dataset that exists."""
    options = _options(features, encoders, queue_images / fps)
    return EpisodeWriter(resume_dataset(path, **options), fps)


def _options(
    features: Mapping[str, Feature],
    encoders: Mapping[str, Any],
    queue_s: float,
    files: FileSizes | None = None,
) -> RecordingKeywords:
    encodings = encodings_of(features, **encoders)
    return {"encoding": encodings, "queue_s": queue_s, "files": files}


class EpisodeWriter:
    """Takes frames as LeRobot's users give them."""

    _streaming_encoder: None = None  # Asked by ``VideoEncodingManager`` of LeRobot 0.6.

    def __init__(self, recorder: Recorder, fps: float) -> None:
        self.recorder = recorder
        self._fps = fps
        self.closed = False

    @property
    def num_pending(self) -> int:
        """Frames of the episode that is not saved yet."""
        return self.recorder.open_frames

    @property
    def episode_buffer(self) -> dict[str, int]:
        """The open episode, as far as it is in memory: its number, and how many frames it has."""
        return {"episode_index": self.recorder.num_episodes, "size": self.num_pending}

    def add_frame(
        self, frame: Mapping[str, Any], task: str | None, timestamp: float | None
    ) -> None:
        """Add a frame; its task is in it, as since LeRobot 0.4, or beside it, as before."""
        values = {name: _without_torch(value) for name, value in frame.items()}
        spoken = values.pop("task", task)
        if task is not None and spoken != task:
            raise FrameError(f"The frame has the task {spoken!r}, and {task!r} is given beside it.")
        given = values.pop("timestamp", timestamp)
        if given is not None:
            self._check_time(float(np.asarray(given).item()))
        features = self.recorder.features
        check_frame(given_features(features), values, spoken)
        self.recorder.add_frame(
            {name: _as_array(value, features[name]) for name, value in values.items()},
            task=spoken,
        )

    def cleanup_interrupted_episode(self, episode_index: int) -> None:
        """Do nothing: there are no temporary images of an episode that was interrupted."""
        del episode_index

    def finish(self) -> None:
        """Drop an unsaved episode, as LeRobot does, and close the recorder."""
        if not self.closed:
            self.recorder.discard_episode()
            self.recorder.close()
            self.closed = True

    def check_open(self, method: str) -> None:
        """Raise if recording has ended."""
        if self.closed:
            raise RecordingError(
                f"{method}() comes after finalize(): go on with LeRobotDataset.resume, in "
                f"{str(self.recorder.path)!r}."
            )

    def _check_time(self, given_s: float) -> None:
        counted_s = self.num_pending / self._fps
        if abs(given_s - counted_s) > 0.5 / self._fps:
            raise FrameError(
                f"timestamp is {given_s:g} s, but frame {self.num_pending} of the episode is at "
                f"{counted_s:g} s: timestamps are counted, so leave them out."
            )


def _without_torch(value: Any) -> Any:  # noqa: ANN401
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _as_array(value: Any, feature: Feature) -> Any:  # noqa: ANN401
    """Return a value as the recorder takes it: images as bytes ``(H, W, C)``."""
    if not feature.is_camera:
        return value
    image = np.asarray(value)
    height, width, channels = feature.shape
    if image.shape == (channels, height, width) != (height, width, channels):
        image = np.moveaxis(image, 0, -1)
    if feature.depth is None and image.dtype.kind == "f" and image.size:
        return _bytes_of(image)
    return image


def _bytes_of(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Return floats between 0 and 1 as bytes, rounded down as in LeRobot."""
    if not (image.min() >= 0 and image.max() <= 1):
        raise FrameError(
            f"An image of floats has values from 0 to 1: these are {image.min():g} to "
            f"{image.max():g}. Give uint8 for 0 to 255."
        )
    return (image * 255).astype(np.uint8)
