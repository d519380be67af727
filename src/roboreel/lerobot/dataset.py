"""A dataset that returns the same items as LeRobot's."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from torch.utils.data import Dataset as TorchDataset

from roboreel.dataset import open_dataset
from roboreel.errors import UnsupportedArgumentError
from roboreel.format.limits import FileSizes
from roboreel.lerobot.arguments import (
    ENCODERS,
    asks_to_record,
    check_reading,
    check_recording,
    not_offered,
    refuse_sync,
)
from roboreel.lerobot.depth import check_unit
from roboreel.lerobot.items import ItemOptions, read_items
from roboreel.lerobot.metadata import (
    CODEBASE_VERSION,
    LeRobotDatasetMetadata,
    keep_episodes,
    locate,
)
from roboreel.lerobot.recording import RecordingMethods
from roboreel.lerobot.version_21 import (
    API_V21,
    episode_data_index,
    episode_order,
    stats_of_episodes,
)
from roboreel.lerobot.writing import create_writer, new_folder, resume_writer
from roboreel.numbers import positions, whole_numbers
from roboreel.sample_spec import SampleSpec
from roboreel.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import torch
    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.lerobot.writing import EpisodeWriter

_MADE = ("_rows", "_order", "_chosen")
"""What is made from the dataset when it is needed."""


class LeRobotDataset(RecordingMethods, TorchDataset):  # type: ignore[misc]  # torch is untyped to us
    """A dataset of v2.0, v2.1 or v3.0 with the arguments, attributes and items of LeRobot's own.

    An item has every feature as a tensor, images as float32 ``(C, H, W)`` between 0 and 1, and the
    task as a text. A slice is a list of items. A DataLoader reads whole batches at once.

    Args:
        repo_id: The dataset's id on the Hub.
        root: Its folder; if None, it is looked up in ``HF_LEROBOT_HOME`` and the Hub's cache.
        episodes: Numbers of the episodes to read; their frames come in the dataset's order, or with
            the API of v2.1 in the order given.
        image_transforms: Called with the images of each colour camera of each item.
        delta_timestamps: Seconds around the item's frame, by feature: multiples of ``1 / fps``.
        tolerance_s: How far these may be off. Images are found by counting, without a tolerance.
        revision: Which snapshot of the Hub's cache.
        force_cache_sync: Not supported: use `roboreel.huggingface.download`.
        download_videos: Has no effect: videos that are on this machine are read.
        video_backend: Has no effect: there is one decoder, with the same pixels.
        return_uint8: Leave images from video as uint8, a quarter of the memory.
        episode_filter: Keeps the episodes whose record in ``meta.episodes`` it returns True for.
        depth_output_unit: Depth comes in whole millimetres, ``"mm"``, or in metres, ``"m"``.
        token: Has no effect: a remote ``root`` takes its credentials from the environment.
        api: Whose answers to give where LeRobot's versions differ: ``"v2.1"`` or ``"v3.0"``.
            Default: that of the dataset's version.
        **recording: Encoder arguments, which have no effect on reading. With ``streaming_encoding``
            or ``batch_encoding_size``, the dataset can be recorded into, as `resume` does it.

    Raises:
        UnsupportedArgumentError: An argument is not supported, or no episode passes the filter.
        NotADatasetError: The dataset is not on this machine.
        WindowError: Deltas do not fall on frames.
        EpisodeNotFoundError: An episode does not exist.
    """

    def __init__(
        self,
        repo_id: str,
        root: str | Path | None = None,
        episodes: Sequence[int] | None = None,
        *,
        image_transforms: Callable[[torch.Tensor], Any] | None = None,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        tolerance_s: float = 1e-4,
        revision: str | None = None,
        force_cache_sync: bool = False,
        download_videos: bool = True,
        video_backend: str | None = None,
        return_uint8: bool = False,
        episode_filter: Callable[[dict[str, Any]], bool] | None = None,
        depth_output_unit: str = "mm",
        token: str | bool | None = None,
        api: str | None = None,
        **recording: Any,  # noqa: ANN401  # checked below
    ) -> None:
        super().__init__()
        del token, download_videos
        refuse_sync(repo_id, force_cache_sync)
        recording = check_reading(recording, video_backend)
        dataset = open_dataset(locate(repo_id, root, revision))
        self.meta = LeRobotDatasetMetadata(repo_id, revision=revision, api=api, _dataset=dataset)
        self.meta.rescale_depth_stats(depth_output_unit)
        self.repo_id = repo_id
        self.root = dataset.path
        self.revision = revision or CODEBASE_VERSION
        self.episodes = None if episodes is None else list(episodes)
        if episode_filter is not None:
            self.episodes = keep_episodes(self.meta, episode_filter, self.episodes)
        self.set_image_transforms(image_transforms)
        self.tolerance_s = tolerance_s
        self._delta_timestamps = delta_timestamps
        self.video_backend = video_backend or "roboreel"
        self.return_uint8 = return_uint8
        self.depth_output_unit = depth_output_unit
        self.writer: EpisodeWriter | None = None
        self._made_from: Dataset | None = dataset
        # Wrong episodes and deltas are refused here, with the arguments, not at the first item.
        self.dataset.read([], [], windows=self._options.spec.windows)
        if asks_to_record(recording):
            self._record(recording)

    @classmethod
    def create(
        cls,
        repo_id: str,
        fps: int,
        features: Mapping[str, Mapping[str, Any]],
        root: str | Path | None = None,
        robot_type: str | None = None,
        use_videos: bool = True,
        *,
        vcodec: str | None = None,
        rgb_encoder: Any | None = None,  # noqa: ANN401  # LeRobot's, or an Encoding
        depth_encoder: Any | None = None,  # noqa: ANN401
        encoder_threads: int | None = None,
        encoder_queue_maxsize: int = 30,
        chunks_size: int | None = None,
        data_files_size_in_mb: float | None = None,
        video_files_size_in_mb: float | None = None,
        **further: Any,  # noqa: ANN401  # checked below
    ) -> LeRobotDataset:
        """Make a v3.0 dataset, empty at first, to record with `add_frame` and `save_episode`.

        Args:
            repo_id: The dataset's id.
            fps: Frames per second.
            features: What every frame has, as LeRobot declares it.
            root: A folder that does not exist yet. Default: one in ``HF_LEROBOT_HOME``.
            robot_type: What the robot is called.
            use_videos: False if cameras are stored as images.
            vcodec: The codec of colour cameras, as LeRobot 0.4 takes it.
            rgb_encoder: LeRobot's settings of colour cameras, or an `Encoding`.
            depth_encoder: The same for depth cameras.
            encoder_threads: Threads of each encoder.
            encoder_queue_maxsize: Images that may wait for an encoder.
            chunks_size: How many files a folder takes.
            data_files_size_in_mb: How large a data file may grow.
            video_files_size_in_mb: How large a video file may grow.
            **further: Other arguments of LeRobot's, which have no effect here.

        Raises:
            FolderTakenError: The folder already exists.
            UnsupportedArgumentError: An argument cannot be followed.
        """
        check_recording("create", further)
        writer = create_writer(
            new_folder(repo_id, root),
            fps=fps,
            features=features,
            robot_type=robot_type,
            use_videos=use_videos,
            encoders={
                "vcodec": vcodec,
                "rgb_encoder": rgb_encoder,
                "depth_encoder": depth_encoder,
                "encoder_threads": encoder_threads,
            },
            queue_images=encoder_queue_maxsize,
            files=FileSizes(data_files_size_in_mb, video_files_size_in_mb, chunks_size),
        )
        try:
            made = cls(repo_id, writer.recorder.path)
        except BaseException:
            writer.finish()
            raise
        made.writer = made.meta.writer = writer
        return made

    @classmethod
    def resume(
        cls,
        repo_id: str,
        root: str | Path | None = None,
        *,
        revision: str | None = None,
        force_cache_sync: bool = False,
        token: str | bool | None = None,
        vcodec: str | None = None,
        rgb_encoder: Any | None = None,  # noqa: ANN401
        depth_encoder: Any | None = None,  # noqa: ANN401
        encoder_threads: int | None = None,
        encoder_queue_maxsize: int = 30,
        **further: Any,  # noqa: ANN401  # checked below
    ) -> LeRobotDataset:
        """Open a v3.0 dataset to add episodes; arguments are those of `create`.

        Raises:
            UnsupportedArgumentError: ``root`` is missing, since a snapshot of the Hub's cache is
                shared and must not change, or an argument cannot be followed.
        """
        check_recording("resume", further)
        if not root:
            raise UnsupportedArgumentError(
                "resume() needs root='…', the folder to record into: the Hub's cache is shared."
            )
        made = cls(repo_id, root, revision=revision, force_cache_sync=force_cache_sync, token=token)
        made._record(
            {
                "vcodec": vcodec,
                "rgb_encoder": rgb_encoder,
                "depth_encoder": depth_encoder,
                "encoder_threads": encoder_threads,
                "encoder_queue_maxsize": encoder_queue_maxsize,
            }
        )
        return made

    def _record(self, recording: Mapping[str, Any]) -> None:
        """Make this dataset one that can be recorded into."""
        dataset = self.meta.dataset
        self.writer = self.meta.writer = resume_writer(
            self.root,
            fps=dataset.fps,
            features=dataset.features,
            encoders={name: recording[name] for name in ENCODERS},
            queue_images=recording["encoder_queue_maxsize"],
        )
        self.meta.refresh()

    @property
    def dataset(self) -> Dataset:
        """The chosen episodes, as a view of roboreel's."""
        whole = self.meta.dataset
        if whole is not self._made_from:  # Episodes were recorded, or files were changed.
            self._forget()
            self._made_from = whole
        return whole if self.episodes is None else self._chosen

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

    @property
    def delta_timestamps(self) -> Mapping[str, Sequence[float]] | None:
        """Seconds around the item's frame, by feature; may be replaced."""
        return self._delta_timestamps

    @delta_timestamps.setter
    def delta_timestamps(self, deltas: Mapping[str, Sequence[float]] | None) -> None:
        self._delta_timestamps = deltas
        self.__dict__.pop("_options", None)

    @property
    def delta_indices(self) -> dict[str, list[int]] | None:
        """Deltas in frames, by feature."""
        if self.delta_timestamps is None:
            return None
        windows = self._options.spec.windows
        return {name: window.offsets(self.fps).tolist() for name, window in windows.items()}

    @property
    def episode_data_index(self) -> dict[str, torch.Tensor]:
        """First item of each chosen episode and the one after its last, as in LeRobot 2.1."""
        return episode_data_index(self.meta.dataset, self.episodes)

    @property
    def absolute_to_relative_idx(self) -> dict[int, int] | None:
        """Items by their row in the whole dataset; None if all episodes are read."""
        if self.episodes is None:
            return None
        rows = self.dataset.selection.rows(self._samples(np.arange(len(self), dtype=np.int64)))
        return {row: item for item, row in enumerate(rows.tolist())}

    def set_image_transforms(self, image_transforms: Callable[[Any], Any] | None) -> None:
        """Replace what is called with the images of each item."""
        if image_transforms is not None and not callable(image_transforms):
            raise TypeError(f"image_transforms is {image_transforms!r}: give a function, or None.")
        self.image_transforms = image_transforms

    def clear_image_transforms(self) -> None:
        """Leave images as they are."""
        self.image_transforms = None

    @property
    def reader(self) -> Any:  # noqa: ANN401  # this object
        """The dataset itself, which reads; LeRobot 0.6 has an object of its own for that."""
        return self

    @property
    def hf_dataset(self) -> Any:  # noqa: ANN401  # a datasets.Dataset
        """The frames without video, as a `datasets.Dataset` of tensors; made at first access.

        It is held in memory, for code that inspects it or puts another in its place; items are read
        without it.
        """
        view = self.dataset  # which drops rows of an earlier state
        if "_rows" not in self.__dict__:
            from roboreel.huggingface import to_datasets

            rows = to_datasets(view, tensors=True)
            self._rows = rows if self._order is None else rows.select(self._order)
        return self._rows

    @hf_dataset.setter
    def hf_dataset(self, rows: Any) -> None:  # noqa: ANN401
        self._rows = rows

    @property
    def hf_features(self) -> Any:  # noqa: ANN401  # a datasets.Features
        """Features of ``hf_dataset``."""
        from roboreel.huggingface import to_hf_features

        return to_hf_features(self.dataset)

    def load_hf_dataset(self) -> Any:  # noqa: ANN401
        """Return ``hf_dataset``."""
        return self.hf_dataset

    def select_columns(self, column_names: str | list[str]) -> Any:  # noqa: ANN401
        """Return some columns of ``hf_dataset``."""
        return self.hf_dataset.select_columns(column_names)

    def get_raw_item(self, idx: int) -> dict[str, Any]:
        """Return a row of ``hf_dataset``: without deltas, video and transforms."""
        row: dict[str, Any] = self.hf_dataset[idx]
        return row

    def get_item(self, idx: int) -> dict[str, Any]:
        """Return an item."""
        return self.__getitems__([idx])[0]

    def get_episodes_file_paths(self) -> list[str]:
        """Return the data files of the chosen episodes, then their videos, below ``root``."""
        meta = self.meta
        every = meta.dataset.manifest.episodes.number.tolist()
        numbers = every if self.episodes is None else self.episodes
        files = [meta.get_data_file_path(number) for number in numbers]
        for camera in meta.video_keys:
            files += [meta.get_video_file_path(number, camera) for number in numbers]
        return [str(file) for file in dict.fromkeys(files)]

    @property
    def stats(self) -> Any:  # noqa: ANN401  # a dict, or None
        """Statistics of the chosen episodes, as in LeRobot 2.1, merged from those of each."""
        if self.episodes is None:
            return self.meta.stats
        return stats_of_episodes(self.meta.dataset.manifest, self.episodes) or self.meta.stats

    def __len__(self) -> int:
        return self.num_frames

    @overload
    def __getitem__(self, idx: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, idx: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, idx: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(idx, slice):
            return self.__getitems__(range(*idx.indices(len(self))))
        place = positions(idx, len(self), "item")
        if not isinstance(place, int):
            raise TypeError(
                f"LeRobotDataset takes a number or a slice, as LeRobot's does: not {idx!r}. For "
                "a batch of arrays, write dataset.dataset[…]."
            )
        return self.__getitems__([place])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return several items that were read at once; a DataLoader calls this."""
        view = self.dataset
        samples = self._samples(whole_numbers(indices, "item"))
        return read_items(view, samples, self._options, self.image_transforms)

    def __getstate__(self) -> dict[str, Any]:
        self._check_finalized("Pickling")
        made = (*_MADE, "_made_from", "_options")
        kept = {name: value for name, value in self.__dict__.items() if name not in made}
        return {**kept, "writer": None, "_made_from": None}

    def __repr__(self) -> str:
        return (
            f"LeRobotDataset({self.repo_id!r}, {self.num_episodes} episodes, "
            f"{self.num_frames} frames, features: {', '.join(self.features)})"
        )

    def __getattr__(self, name: str) -> NoReturn:
        said = not_offered(name) or f"{type(self).__name__!r} has no attribute {name!r}"
        raise AttributeError(said)

    def _forget(self) -> None:
        """Drop what was made from an earlier state of the dataset."""
        for name in _MADE:
            self.__dict__.pop(name, None)

    @cached_property
    def _options(self) -> ItemOptions:
        windows = {
            name: Window(seconds=seconds, tolerance_s=self.tolerance_s)
            for name, seconds in (self.delta_timestamps or {}).items()
        }
        units = {
            name: (self.features[name].get("info") or {}).get("depth_unit")
            for name in self.meta.depth_keys
        }
        unit = check_unit(self.depth_output_unit)
        return ItemOptions(SampleSpec(windows=windows), self.return_uint8, unit, units)

    @cached_property
    def _chosen(self) -> Dataset:
        return self.meta.dataset.select(self.episodes)

    @cached_property
    def _order(self) -> NDArray[np.int64] | None:
        """Sample of each item, where LeRobot 2.1 has the episodes in the order given."""
        if self.meta.api != API_V21 or self.episodes is None:
            return None
        return episode_order(self.dataset, self.episodes)

    def _samples(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        return items if self._order is None else self._order[items]
