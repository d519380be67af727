"""The rows of a LeRobotDataset, and the files that they lie in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.lerobot.version_21 import stats_of_episodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.lerobot.metadata import LeRobotDatasetMetadata


class RowMethods:
    """What LeRobot offers beside items: rows of `datasets`, files, statistics."""

    meta: LeRobotDatasetMetadata
    episodes: list[int] | None
    _rows: Any

    @property
    def dataset(self) -> Dataset:
        """The chosen episodes, as a view of roboreel's."""
        raise NotImplementedError

    @property
    def _order(self) -> NDArray[np.int64] | None:
        """Sample of each item, where it is another."""
        raise NotImplementedError

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

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return several items."""
        raise NotImplementedError
