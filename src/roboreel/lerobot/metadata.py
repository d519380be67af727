"""The metadata of a dataset, under LeRobot's names."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roboreel.dataset import open_dataset
from roboreel.errors import FeatureNotFoundError, UnsupportedArgumentError
from roboreel.format.hub import dataset_folder, find_dataset
from roboreel.format.limits import FileSizes
from roboreel.lerobot.arguments import check_repo_type, refuse_sync
from roboreel.lerobot.depth import check_unit, stats_in_unit
from roboreel.lerobot.episode_records import EpisodeRecords
from roboreel.lerobot.info import Info, load_info
from roboreel.lerobot.language import LANGUAGE_FEATURES, default_tools
from roboreel.lerobot.version_21 import (
    API_V21,
    choose_api,
    episodes_by_number,
    episodes_stats,
    stats_as_dict,
)
from roboreel.lerobot.video_info import video_info
from roboreel.lerobot.writing import create_writer, new_folder
from roboreel.record.opening import resume_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

    from roboreel.dataset import Dataset
    from roboreel.lerobot.writing import EpisodeWriter
    from roboreel.stats import FeatureStats

CODEBASE_VERSION = "v3.0"
_QUEUE_IMAGES = 30
_MADE = ("episodes", "stats", "tasks", "subtasks", "episodes_stats")
_ASSIGNED = ("episodes", "stats", "tasks")


def locate(repo_id: str, root: str | Path | None, revision: str | None) -> Path:
    """Return the folder of a dataset: the given one, or where it was downloaded to.

    The given one may be an address: it is read in place then.
    """
    return find_dataset(repo_id, revision) if root is None else dataset_folder(root)


class LeRobotDatasetMetadata:
    """What is known about a dataset without opening its data.

    Args:
        repo_id: The dataset's id on the Hub.
        root: Its folder; if None, it is looked up in ``HF_LEROBOT_HOME`` and the Hub's cache.
        revision: Which snapshot of the Hub's cache.
        force_cache_sync: Not supported: use `roboreel.huggingface.download`.
        metadata_buffer_size: Has no effect: recording writes every episode at once.
        repo_type: Only ``"dataset"``: buckets are streamed from the Hub.
        token: Has no effect: a remote ``root`` takes its credentials from the environment.
        api: Whose answers to give: ``"v2.1"`` for those of LeRobot before 0.4, with ``tasks`` and
            ``episodes`` as dicts, or ``"v3.0"``. Default: that of the dataset's version.
    """

    def __init__(
        self,
        repo_id: str,
        root: str | Path | None = None,
        revision: str | None = None,
        force_cache_sync: bool = False,
        metadata_buffer_size: int = 10,
        *,
        repo_type: str = "dataset",
        token: str | bool | None = None,
        api: str | None = None,
        _dataset: Dataset | None = None,
    ) -> None:
        del metadata_buffer_size, token
        refuse_sync(repo_id, force_cache_sync)
        check_repo_type(repo_type)
        self.repo_id, self.repo_type = repo_id, repo_type
        self.revision = revision or CODEBASE_VERSION
        if _dataset is None:
            _dataset = open_dataset(locate(repo_id, root, revision))
        self._dataset = _dataset
        self.root = self._dataset.path
        self.info: Info = load_info(self.root)
        self.api = choose_api(api, self._dataset.version)
        self.writer: EpisodeWriter | None = None
        self._depth_unit: str | None = None

    @classmethod
    def create(
        cls,
        repo_id: str,
        fps: int,
        features: Mapping[str, Mapping[str, Any]],
        robot_type: str | None = None,
        root: str | Path | None = None,
        use_videos: bool = True,
        metadata_buffer_size: int = 10,
        chunks_size: int | None = None,
        data_files_size_in_mb: float | None = None,
        video_files_size_in_mb: float | None = None,
    ) -> Self:
        """Make a v3.0 dataset without episodes; `LeRobotDataset.resume` records into it.

        Args:
            repo_id: The dataset's id.
            fps: Frames per second.
            features: What every frame has, as LeRobot declares it.
            robot_type: What the robot is called.
            root: A folder that does not exist yet. Default: one in ``HF_LEROBOT_HOME``.
            use_videos: False if cameras are stored as images.
            metadata_buffer_size: Has no effect: recording writes every episode at once.
            chunks_size: How many files a folder takes.
            data_files_size_in_mb: How large a data file may grow.
            video_files_size_in_mb: How large a video file may grow.

        Raises:
            FolderTakenError: The folder already exists.
            MetadataError: A size is not positive.
        """
        del metadata_buffer_size
        writer = create_writer(
            new_folder(repo_id, root),
            fps=fps,
            features=features,
            robot_type=robot_type,
            use_videos=use_videos,
            encoders={},
            queue_images=_QUEUE_IMAGES,
            files=FileSizes(data_files_size_in_mb, video_files_size_in_mb, chunks_size),
        )
        writer.finish()
        return cls(repo_id, writer.recorder.path)

    @property
    def dataset(self) -> Dataset:
        """The whole dataset, as roboreel has it."""
        return self._dataset

    def refresh(self) -> None:
        """Read the metadata again, after episodes were recorded or files were changed."""
        self._dataset = open_dataset(self.root)
        self.info = load_info(self.root)
        for name in _MADE:
            self.__dict__.pop(name, None)

    def __setattr__(self, name: str, value: object) -> None:
        # LeRobot's tools change the files of a dataset, and then assign what they have written.
        if name in _ASSIGNED:
            self.refresh()
        super().__setattr__(name, value)

    def update_chunk_settings(
        self,
        chunks_size: int | None = None,
        data_files_size_in_mb: float | None = None,
        video_files_size_in_mb: float | None = None,
    ) -> None:
        """Change how many files a folder takes and how large they grow; None keeps a setting.

        Files that are there stay; those that are joined from now on follow.

        Raises:
            MetadataError: A setting is not positive.
        """
        self._amend(files=FileSizes(data_files_size_in_mb, video_files_size_in_mb, chunks_size))

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that the dataset declares, ``say`` if it declares none; may be replaced."""
        return [dict(tool) for tool in self.info.tools or default_tools()]

    @tools.setter
    def tools(self, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self._amend(extra={"tools": [dict(tool) for tool in tools] if tools else None})

    def _amend(
        self, *, files: FileSizes | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        if self.writer is not None and not self.writer.closed:
            self.writer.recorder.amend(files=files, extra=extra)
        else:
            with resume_dataset(
                self.root, open_episode="raise", compact_on_close=False
            ) as recorder:
                recorder.amend(files=files, extra=extra)
        self.refresh()

    def update_video_info(
        self,
        video_key: str | None = None,
        video_encoder: Any | None = None,  # noqa: ANN401  # LeRobot's settings
        preserve_keys: Collection[str] | None = None,
    ) -> None:
        """Describe the videos of one camera, or of all, anew in ``info``; the file stays as it is.

        Args:
            video_key: The camera.
            video_encoder: LeRobot's settings that the videos were encoded with.
            preserve_keys: Keys of the description that keep their value.
        """
        self._dataset = open_dataset(self.root)
        first = int(self._dataset.manifest.episodes.number[0])
        for name in self.video_keys if video_key is None else [video_key]:
            path = self.root / self.get_video_file_path(first, name)
            entry = self.features[name]
            entry["info"] = video_info(
                path, video_encoder, entry.get("info") or {}, preserve_keys or ()
            )

    @property
    def _version(self) -> Any:  # noqa: ANN401  # a packaging.version.Version
        """The version in info.json: converters and loaders compare it."""
        from packaging.version import parse

        return parse(self.info["codebase_version"])

    def ensure_readable(self) -> None:
        """Do nothing: metadata is read when it is asked for."""

    def finalize(self) -> None:
        """Do nothing: the metadata of every episode is on the disk when it is saved."""

    @cached_property
    def episodes(self) -> Any:  # noqa: ANN401  # EpisodeRecords, or a dict
        """What is known about each episode: a table, or with the API of v2.1 a dict.

        None if nothing was recorded yet, as with LeRobot; so are ``tasks`` and ``stats``.
        """
        if self.api == API_V21:
            return episodes_by_number(self._dataset.manifest)
        if not self.total_episodes:
            return None
        return EpisodeRecords(self._dataset.manifest)

    def filter_episodes(
        self,
        predicate: Callable[[dict[str, Any]], bool],
        candidates: Collection[int] | None = None,
    ) -> list[int]:
        """Return the numbers of the episodes whose record satisfies a predicate, ascending."""
        records = EpisodeRecords(self._dataset.manifest)
        allowed = None if candidates is None else set(candidates)
        return sorted(
            int(record["episode_index"])
            for record in records
            if (allowed is None or record["episode_index"] in allowed) and predicate(record)
        )

    @cached_property
    def stats(self) -> Any:  # noqa: ANN401  # a dict, or None
        """Statistics by feature and name: ``stats["action"]["mean"]``; None if there are none."""
        if not self.total_episodes:
            return None
        return {name: stats_as_dict(stats) for name, stats in self.feature_stats().items()}

    def feature_stats(self) -> dict[str, FeatureStats]:
        """Return the statistics by feature, as roboreel has them; depth in the unit chosen."""
        depth, unit = self.depth_keys, self._depth_unit
        return {
            name: stats_in_unit(stats, self.features[name], unit) if name in depth else stats
            for name, stats in self._dataset.stats.items()
        }

    def rescale_depth_stats(self, output_unit: str) -> None:
        """Have the statistics of depth cameras in a unit, ``"mm"`` or ``"m"``."""
        self._depth_unit = check_unit(output_unit)
        self.__dict__.pop("stats", None)

    @cached_property
    def episodes_stats(self) -> dict[int, dict[str, dict[str, NDArray[Any]]]]:
        """Statistics of each episode by its number, as in LeRobot 2.1."""
        return episodes_stats(self._dataset.manifest, self.stats or {})

    @cached_property
    def tasks(self) -> Any:  # noqa: ANN401  # a pandas.DataFrame, or a dict
        """Task numbers by text, as a DataFrame; with the API of v2.1, texts by number in a dict."""
        if self.api == API_V21:
            return dict(sorted(self._dataset.tasks.items()))
        if not self._dataset.tasks:
            return None
        return _numbered_texts(self._dataset.tasks, "task")

    @property
    def task_to_task_index(self) -> dict[str, int]:
        """Task numbers by text, as in LeRobot 2.1."""
        return {text: number for number, text in sorted(self._dataset.tasks.items())}

    @cached_property
    def subtasks(self) -> Any | None:  # noqa: ANN401  # a pandas.DataFrame
        """Subtask numbers by text, as a DataFrame; None if there are none."""
        subtasks = self._dataset.manifest.subtasks
        return _numbered_texts(subtasks, "subtask") if subtasks else None

    @property
    def depth_keys(self) -> list[str]:
        """Cameras whose images are distances."""
        features = self._dataset.features
        return [name for name in self._dataset.cameras if features[name].depth is not None]

    @property
    def has_language_columns(self) -> bool:
        """Whether frames carry messages."""
        return any(name in self.features for name in LANGUAGE_FEATURES)

    @property
    def url_root(self) -> str:
        """The dataset's address on the Hub."""
        return f"hf://datasets/{self.repo_id}"

    @property
    def data_path(self) -> str:
        """Template of the data files."""
        return str(self.info["data_path"])

    @property
    def video_path(self) -> str | None:
        """Template of the video files."""
        return self.info.get("video_path")

    @property
    def robot_type(self) -> str | None:
        """The robot that recorded it."""
        return self.info.get("robot_type")

    @property
    def fps(self) -> int:
        """Frames per second."""
        fps: int = self.info["fps"]
        return fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Features as in info.json."""
        features: dict[str, dict[str, Any]] = self.info["features"]
        return features

    @property
    def image_keys(self) -> list[str]:
        """Cameras that are stored as pictures."""
        return [name for name, feature in self.features.items() if feature["dtype"] == "image"]

    @property
    def video_keys(self) -> list[str]:
        """Cameras that are stored as video."""
        return [name for name, feature in self.features.items() if feature["dtype"] == "video"]

    @property
    def camera_keys(self) -> list[str]:
        """All cameras."""
        return list(self._dataset.cameras)

    @property
    def names(self) -> dict[str, Any]:
        """Names of the elements of each feature."""
        return {name: feature.get("names") for name, feature in self.features.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each feature."""
        return {name: feature["shape"] for name, feature in self.features.items()}

    @property
    def total_episodes(self) -> int:
        """Episodes of the whole dataset."""
        return len(self._dataset.manifest.episodes)

    @property
    def total_frames(self) -> int:
        """Frames of the whole dataset."""
        return self._dataset.manifest.episodes.num_rows

    @property
    def total_tasks(self) -> int:
        """Tasks of the whole dataset."""
        return len(self._dataset.tasks)

    @property
    def chunks_size(self) -> int:
        """Largest number of files in a chunk; before v3.0, of episodes."""
        return int(self.info["chunks_size"])

    @property
    def total_chunks(self) -> int:
        """Chunks of the whole dataset; 0 where info.json does not count them."""
        return int(self.info.get("total_chunks") or 0)

    def get_episode_chunk(self, ep_index: int) -> int:
        """Return the chunk of an episode, as LeRobot 2.1 counts them."""
        return ep_index // self.chunks_size

    @property
    def data_files_size_in_mb(self) -> int | None:
        """How large a data file may grow; None before v3.0."""
        return self.info.get("data_files_size_in_mb")

    @property
    def video_files_size_in_mb(self) -> int | None:
        """How large a video file may grow; None before v3.0."""
        return self.info.get("video_files_size_in_mb")

    def get_chunk_settings(self) -> dict[str, int | None]:
        """Return how many files a chunk has, and how large they grow."""
        return {
            "chunks_size": self.chunks_size,
            "data_files_size_in_mb": self.data_files_size_in_mb,
            "video_files_size_in_mb": self.video_files_size_in_mb,
        }

    def get_task_index(self, task: str) -> int | None:
        """Return the number of a task, or None if there is no such task."""
        return next((n for n, text in self._dataset.tasks.items() if text == task), None)

    def get_data_file_path(self, ep_index: int) -> Path:
        """Return the data file of an episode, below the dataset's folder."""
        manifest = self._dataset.manifest
        place = manifest.episodes.positions_of([ep_index])[0]
        return Path(manifest.data_files[int(manifest.episodes.data_file[place])])

    def get_video_file_path(self, ep_index: int, vid_key: str) -> Path:
        """Return the video file of an episode, below the dataset's folder."""
        manifest = self._dataset.manifest
        if vid_key not in manifest.video_files:
            raise FeatureNotFoundError(
                f"{vid_key!r} has no video: there are {', '.join(manifest.video_files) or 'none'}."
            )
        place = manifest.episodes.positions_of([ep_index])[0]
        return Path(
            manifest.video_files[vid_key][int(manifest.episodes.clips[vid_key].file[place])]
        )

    def __getstate__(self) -> dict[str, Any]:
        # Cached values are left out, so that a pickle stays small.
        kept = {name: value for name, value in self.__dict__.items() if name not in _MADE}
        return {**kept, "writer": None}

    def __repr__(self) -> str:
        return (
            f"LeRobotDatasetMetadata({self.repo_id!r}, {self.total_episodes} episodes, "
            f"{self.total_frames} frames, features: {', '.join(self.features)})"
        )


def keep_episodes(
    meta: LeRobotDatasetMetadata,
    keep: Callable[[dict[str, Any]], bool],
    episodes: Sequence[int] | None,
) -> list[int]:
    """Return the numbers of the episodes that an ``episode_filter`` keeps.

    Raises:
        UnsupportedArgumentError: It keeps none.
    """
    kept = meta.filter_episodes(keep, episodes)
    if not kept:
        among = meta.total_episodes if episodes is None else len(episodes)
        raise UnsupportedArgumentError(
            f"The episode filter did not match any episode: there are {among}. Give an "
            "episode_filter that keeps some."
        )
    return kept


def _numbered_texts(texts: Any, noun: str) -> Any:  # noqa: ANN401  # a mapping, a DataFrame
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"LeRobot keeps {noun}s in a pandas.DataFrame. Install it with: pip install pandas",
            name=error.name,
        ) from error
    ordered = sorted(texts.items())
    index = pd.Index([text for _, text in ordered], name=noun)
    return pd.DataFrame({f"{noun}_index": [number for number, _ in ordered]}, index=index)
