"""The metadata of a dataset, under LeRobot's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset import open_dataset
from roboreel.errors import EpisodeNotFoundError, FeatureNotFoundError, UnsupportedArgumentError
from roboreel.format.episode_columns import is_statistics, read_episode_columns
from roboreel.format.hub import find_dataset
from roboreel.format.json_files import read_json
from roboreel.format.paths import info_path
from roboreel.numbers import positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.schema import Manifest

__all__ = ["CODEBASE_VERSION", "EpisodeRecords", "LeRobotDatasetMetadata", "locate"]

CODEBASE_VERSION = "v3.0"


def locate(repo_id: str, root: str | Path | None, revision: str | None) -> Path:
    """Return the folder of a dataset: the given one, or where it was downloaded to."""
    return find_dataset(repo_id, revision) if root is None else Path(root).expanduser()


class EpisodeRecords(Sequence[dict[str, Any]]):
    """The episodes as a table: ``episodes[3]["length"]`` or ``episodes["length"][3]``.

    As in LeRobot, several episodes, ``episodes[:3]`` or ``episodes[[0, 2]]``, are a dict of lists.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        episodes = manifest.episodes
        self._columns: dict[str, NDArray[Any]] = {
            "episode_index": episodes.number,
            "length": episodes.length,
            "dataset_from_index": episodes.start,
            "dataset_to_index": episodes.start + episodes.length,
        }
        for name, column in manifest.data_files.numbers.items():
            self._columns.setdefault(f"data/{name}", column[episodes.data_file])
        for camera, clips in episodes.clips.items():
            for name, column in manifest.video_files[camera].numbers.items():
                self._columns[f"videos/{camera}/{name}"] = column[clips.file]
            self._columns[f"videos/{camera}/from_timestamp"] = clips.start_s
            self._columns[f"videos/{camera}/to_timestamp"] = clips.stop_s

    @cached_property
    def _further(self) -> dict[str, list[Any]]:
        """Every other column that is stored, except statistics, which LeRobot leaves out too."""
        made = ("tasks", *self._columns)
        return read_episode_columns(
            self._manifest, lambda name: name not in made and not is_statistics(name)
        )

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return ["tasks", *self._columns, *self._further]

    def __len__(self) -> int:
        return len(self._manifest.episodes)

    def __getitem__(self, key: int | str | slice | Sequence[int]) -> Any:  # noqa: ANN401
        if isinstance(key, str):
            return self._column(key)
        picked = positions(key, len(self), "episode", error=EpisodeNotFoundError)
        if isinstance(picked, int):
            return self._record(picked)
        records = [self._record(place) for place in picked.tolist()]
        return {name: [record[name] for record in records] for name in self.column_names}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self._record(place) for place in range(len(self)))

    def _record(self, place: int) -> dict[str, Any]:
        numbers = {name: column[place].item() for name, column in self._columns.items()}
        further = {name: column[place] for name, column in self._further.items()}
        return {**numbers, **further, "tasks": list(self._manifest.episodes.tasks_of(place))}

    def _column(self, name: str) -> list[Any]:
        if name == "tasks":
            return [list(self._manifest.episodes.tasks_of(place)) for place in range(len(self))]
        if name not in self._columns and name in self._further:
            return list(self._further[name])
        if name not in self._columns:
            raise FeatureNotFoundError(
                f"The episodes have no {name!r}: there are {', '.join(self.column_names)}."
            )
        values: list[Any] = self._columns[name].tolist()
        return values


class LeRobotDatasetMetadata:
    """What is known about a dataset without opening its data.

    Args:
        repo_id: The dataset's id on the Hub.
        root: Its folder; if None, it is looked up in ``HF_LEROBOT_HOME`` and the Hub's cache.
        revision: Which snapshot of the Hub's cache.
        force_cache_sync: Not supported: nothing here uses the network.
    """

    def __init__(
        self,
        repo_id: str,
        root: str | Path | None = None,
        revision: str | None = None,
        force_cache_sync: bool = False,
        *,
        _dataset: Dataset | None = None,
    ) -> None:
        if force_cache_sync:
            raise UnsupportedArgumentError(
                "force_cache_sync=True would use the network, which only "
                f"roboreel.huggingface.download({repo_id!r}) does: call that first."
            )
        self.repo_id = repo_id
        self.revision = revision or CODEBASE_VERSION
        self._dataset = _dataset or open_dataset(locate(repo_id, root, revision))
        self.root = self._dataset.path
        self.info: dict[str, Any] = read_json(info_path(self.root))
        for feature in self.info["features"].values():
            feature["shape"] = tuple(feature["shape"])

    @cached_property
    def episodes(self) -> EpisodeRecords:
        """What is known about each episode, as a table."""
        return EpisodeRecords(self._dataset.manifest)

    @cached_property
    def stats(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Statistics by feature and name: ``stats["action"]["mean"]``."""
        return {
            name: {
                **{key: getattr(stats, key) for key in ("min", "max", "mean", "std")},
                "count": np.atleast_1d(stats.count.max(initial=0)),
                **stats.quantiles,
            }
            for name, stats in self._dataset.stats.items()
        }

    @cached_property
    def tasks(self) -> Any:  # noqa: ANN401  # a pandas.DataFrame
        """Task numbers by task text, as a DataFrame; needs pandas."""
        return _numbered_texts(self._dataset.tasks, "task")

    @cached_property
    def subtasks(self) -> Any | None:  # noqa: ANN401  # a pandas.DataFrame
        """Subtask numbers by text, as a DataFrame; None if there are none."""
        subtasks = self._dataset.manifest.subtasks
        return _numbered_texts(subtasks, "subtask") if subtasks else None

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
        made = ("episodes", "stats", "tasks", "subtasks")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __repr__(self) -> str:
        return (
            f"LeRobotDatasetMetadata({self.repo_id!r}, {self.total_episodes} episodes, "
            f"{self.total_frames} frames, features: {', '.join(self.features)})"
        )


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
