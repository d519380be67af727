"""Episodes recorded through LeRobot's method names; a `Recorder` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FolderTakenError, FrameError, RecordingError, UnsupportedArgumentError
from roboreel.format.features import feature_from_json
from roboreel.format.hub import lerobot_home
from roboreel.lerobot.encoders import choose_depth, encodings_of
from roboreel.record.checks import given_features
from roboreel.record.opening import create_dataset, resume_dataset
from roboreel.schema import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from roboreel.format.limits import FileSizes
    from roboreel.record.options import RecordingKeywords
    from roboreel.record.recorder import Recorder


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
    videos = [name for name, feature in declared.items() if feature.is_video]
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


# What LeRobot refuses in a frame, in the words that its users look for.


def check_frame(features: Mapping[str, Feature], frame: Mapping[str, Any], task: object) -> None:
    """Raise if LeRobot would refuse a frame.

    The recorder checks it too, and takes more: numbers for shape ``(1,)``, and lists.

    Args:
        features: The features that a caller gives.
        frame: Their values, without tensors.
        task: What the robot is doing, in words.

    Raises:
        FrameError: The task or a feature is missing, one is not declared, or a value has another
            type, dtype or shape than is declared.
    """
    if not isinstance(task, str):
        raise FrameError(
            "Feature mismatch in `frame` dictionary:\nMissing features: {'task'}\n"
            "Give it as frame['task'], or beside the frame as task='…'."
        )
    missing = [name for name in features if name not in frame]
    extra = [name for name in frame if name not in features]
    if missing or extra:
        raise FrameError(
            "Feature mismatch in `frame` dictionary:\n"
            + (f"Missing features: {{{str(missing)[1:-1]}}}\n" if missing else "")
            + (f"Extra features: {{{str(extra)[1:-1]}}}\n" if extra else "")
            + f"The features are {', '.join(features)}."
        )
    for name, feature in features.items():
        if feature.is_camera:
            _check_image(name, feature, frame[name])
        elif feature.kind == "number":
            _check_numbers(name, feature, frame[name])


def _check_numbers(name: str, feature: Feature, value: object) -> None:
    if not isinstance(value, np.ndarray):
        raise FrameError(
            f"The feature {name!r} is not a 'np.ndarray'. Expected type is {feature.dtype!r}, but "
            f"type '{type(value)}' provided instead.\nGive an array of shape {feature.shape}."
        )
    if value.dtype != feature.numpy_dtype:
        raise FrameError(
            f"The feature {name!r} of dtype '{value.dtype}' is not of the expected dtype "
            f"{feature.dtype!r}.\nConvert it with astype."
        )
    if value.shape != feature.shape:
        raise FrameError(
            f"The feature {name!r} of shape '{value.shape}' does not have the expected shape "
            f"'{feature.shape}'.\nReshape it, or declare its shape when the dataset is created."
        )


def _check_image(name: str, feature: Feature, value: ArrayLike) -> None:
    height, width, channels = feature.shape
    shape = np.shape(value)
    last, first = (height, width, channels), (channels, height, width)
    flat = (height, width) if feature.depth is not None else last
    if shape not in (last, first, flat):
        raise FrameError(
            f"The feature {name!r} of shape '{shape}' does not have the expected shape '{first}' "
            f"or '{last}'.\nResize the image, or declare its shape when the dataset is created."
        )
