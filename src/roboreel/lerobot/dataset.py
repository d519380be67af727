"""A dataset that returns the same items as LeRobot's."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from roboreel.dataset import open_dataset
from roboreel.errors import UnsupportedArgumentError
from roboreel.lerobot.metadata import CODEBASE_VERSION, LeRobotDatasetMetadata, locate
from roboreel.numbers import positions, whole_numbers
from roboreel.sample_spec import SampleSpec
from roboreel.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["LeRobotDataset"]

_BACKENDS = ("torchcodec", "pyav", "video_reader")
_FOR_RECORDING = {
    "batch_encoding_size": 1,
    "vcodec": "libsvtav1",
    "streaming_encoding": False,
    "encoder_queue_maxsize": 30,
    "encoder_threads": None,
}
_RECORDING_METHODS = (
    "add_frame",
    "save_episode",
    "clear_episode_buffer",
    "start_image_writer",
    "stop_image_writer",
    "create_episode_buffer",
    "finalize",
    "push_to_hub",
    "pull_from_repo",
    "download",
)


class LeRobotDataset(TorchDataset):  # type: ignore[misc]  # torch is untyped to us
    """A dataset of v2.0, v2.1 or v3.0 with the arguments, attributes and items of LeRobot's own.

    An item has every feature as a tensor, images as float32 ``(C, H, W)`` between 0 and 1, and the
    task as a text. A DataLoader reads whole batches at once.

    Args:
        repo_id: The dataset's id on the Hub.
        root: Its folder; if None, it is looked up in ``HF_LEROBOT_HOME`` and the Hub's cache.
        episodes: Numbers of the episodes to read; their frames come in the dataset's order.
        image_transforms: Called with the images of each camera of each item.
        delta_timestamps: Seconds around the item's frame, by feature: multiples of ``1 / fps``.
        tolerance_s: How far these may be off. Images are found by counting, without a tolerance.
        revision: Which snapshot of the Hub's cache.
        force_cache_sync: Not supported: nothing here uses the network.
        download_videos: False is not supported, for the same reason.
        video_backend: Has no effect: there is one decoder, with the same pixels.
        return_uint8: Leave images as uint8, a quarter of the memory.
        recording: Arguments for recording; only their defaults are supported.

    Raises:
        UnsupportedArgumentError: An argument is not supported.
        NotADatasetError: The dataset is not on this machine.
        WindowError: Deltas do not fall on frames.
    """

    def __init__(
        self,
        repo_id: str,
        root: str | Path | None = None,
        episodes: Sequence[int] | None = None,
        image_transforms: Callable[[torch.Tensor], Any] | None = None,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        tolerance_s: float = 1e-4,
        revision: str | None = None,
        force_cache_sync: bool = False,
        download_videos: bool = True,
        video_backend: str | None = None,
        return_uint8: bool = False,
        **recording: Any,  # noqa: ANN401  # checked below
    ) -> None:
        super().__init__()
        _refuse(recording, video_backend, download_videos)
        dataset = open_dataset(locate(repo_id, root, revision))
        self.meta = LeRobotDatasetMetadata(
            repo_id, dataset.path, revision, force_cache_sync, _dataset=dataset
        )
        self.dataset = dataset if episodes is None else dataset.select(episodes)
        self.repo_id = repo_id
        self.root = dataset.path
        self.revision = revision or CODEBASE_VERSION
        self.episodes = None if episodes is None else list(episodes)
        self.image_transforms = image_transforms
        self.delta_timestamps = delta_timestamps
        self.tolerance_s = tolerance_s
        self.video_backend = video_backend or "roboreel"
        self.return_uint8 = return_uint8
        windows = {
            name: Window(seconds=seconds, tolerance_s=tolerance_s)
            for name, seconds in (delta_timestamps or {}).items()
        }
        self._spec = SampleSpec(windows=windows)
        self.delta_indices = None
        if delta_timestamps is not None:
            # Wrong deltas are refused here, with the arguments, and not at the first item.
            self.delta_indices = {
                name: window.offsets(dataset.fps).tolist() for name, window in windows.items()
            }
            dataset.read([], [], windows=windows)

    @classmethod
    def create(cls, *args: object, **kwargs: object) -> NoReturn:
        """Refuse: recording is done by `roboreel.create_dataset`, or by LeRobot itself."""
        del args, kwargs
        raise _reading_only("create")

    @property
    def fps(self) -> int:
        """Frames per second."""
        return self.meta.fps

    @property
    def num_frames(self) -> int:
        """Frames of the chosen episodes."""
        return len(self.dataset)

    @property
    def num_episodes(self) -> int:
        """Number of the chosen episodes."""
        return len(self.dataset.episodes)

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Features as info.json describes them."""
        return self.meta.features

    @cached_property
    def hf_dataset(self) -> Any:  # noqa: ANN401  # a datasets.Dataset
        """The frames without video, as a `datasets.Dataset` in memory; made at first access.

        It is here for code that inspects it; items are read without it.
        """
        from roboreel.huggingface import to_datasets

        return to_datasets(self.dataset)

    @property
    def hf_features(self) -> Any:  # noqa: ANN401  # a datasets.Features
        """Features of ``hf_dataset``."""
        from roboreel.huggingface import to_hf_features

        return to_hf_features(self.dataset)

    def __len__(self) -> int:
        return self.num_frames

    def __getitem__(self, idx: int) -> dict[str, Any]:
        place = positions(idx, len(self), "item")
        if not isinstance(place, int):
            raise TypeError(
                f"LeRobotDataset takes one number at a time, as LeRobot's does: not {idx!r}. For "
                "a batch of arrays, write dataset.dataset[…]."
            )
        return self.__getitems__([place])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return several items that were read at once; a DataLoader calls this."""
        numbers = whole_numbers(indices, "item")
        batch = self.dataset.read(numbers, self._spec)
        columns = {name: self._column(name, values) for name, values in batch.items()}
        items = [{name: values[i] for name, values in columns.items()} for i in range(len(numbers))]
        if self.image_transforms is not None:
            for item in items:
                for camera in self.dataset.cameras:
                    item[camera] = self.image_transforms(item[camera])
        return items

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "hf_dataset"}

    def __repr__(self) -> str:
        return (
            f"LeRobotDataset({self.repo_id!r}, {self.num_episodes} episodes, "
            f"{self.num_frames} frames, features: {', '.join(self.features)})"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name in _RECORDING_METHODS:
            raise AttributeError(str(_reading_only(name)))
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def _column(self, name: str, values: Any) -> Any:  # noqa: ANN401  # an array or texts
        """Return the values of a batch in LeRobot's types."""
        if isinstance(values, list) or values.dtype == object:
            return list(values)
        if name not in self.dataset.cameras:
            return torch.from_numpy(_as_lerobot_types(values))
        images = torch.from_numpy(values)
        if name in self._spec.windows and len(self._spec.windows[name]) == 1:
            # LeRobot drops the axis of a single delta, but only for video.
            images = images[:, 0] if self.dataset.features[name].dtype == "video" else images
        if images.dtype == torch.uint8 and not self.return_uint8:
            return images.to(torch.float32).div_(255)
        return images


def _as_lerobot_types(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as LeRobot has them after converting through Python: float32, int64, bool."""
    kind = values.dtype.kind
    if kind == "f":
        return values.astype(np.float32, copy=False)
    return values.astype(np.int64, copy=False) if kind in "iu" else values


def _refuse(recording: Mapping[str, Any], video_backend: str | None, download_videos: bool) -> None:
    for name, value in recording.items():
        if name not in _FOR_RECORDING:
            raise TypeError(f"LeRobotDataset() got an unexpected keyword argument {name!r}")
        if value != _FOR_RECORDING[name]:
            raise UnsupportedArgumentError(
                f"{name}={value!r} is for recording, and this class only reads: record with "
                "roboreel.create_dataset, or with LeRobot itself."
            )
    if video_backend is not None and video_backend not in _BACKENDS:
        raise UnsupportedArgumentError(
            f"No video backend {video_backend!r}: LeRobot has {', '.join(_BACKENDS)}; here they "
            "all have the same effect."
        )
    if not download_videos:
        raise UnsupportedArgumentError(
            "download_videos=False would use the network, which only "
            "roboreel.huggingface.download does. To read no images, leave out the cameras: "
            "roboreel.torch.SampleDataset(dataset, features=[…])."
        )


def _reading_only(name: str) -> UnsupportedArgumentError:
    return UnsupportedArgumentError(
        f"LeRobotDataset.{name} is not supported: this class only reads. Record with "
        "roboreel.create_dataset, or with LeRobot itself."
    )
