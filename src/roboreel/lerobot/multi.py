"""Several datasets one after the other, under LeRobot's name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from roboreel.errors import FeatureNotFoundError
from roboreel.format.hub import lerobot_home
from roboreel.lerobot.dataset import LeRobotDataset
from roboreel.lerobot.version_21 import stats_as_dict
from roboreel.numbers import positions, whole_numbers
from roboreel.stats.moments import merge_stats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


class MultiLeRobotDataset(TorchDataset):  # type: ignore[misc]  # torch is untyped to us
    """Datasets joined end to end; items have the features that all share, and ``dataset_index``.

    Args:
        repo_ids: The datasets' ids.
        root: The folder that holds a folder for each id. Default: ``HF_LEROBOT_HOME``.
        episodes: Episode numbers by id. Default: all.
        image_transforms: As for `LeRobotDataset`, like the arguments that follow.
        delta_timestamps: Seconds around the item's frame, by feature.
        tolerances_s: How far these may be off, by id.
        **arguments: Further arguments of `LeRobotDataset`.

    Raises:
        FeatureNotFoundError: The datasets share no feature.
    """

    def __init__(
        self,
        repo_ids: Sequence[str],
        root: str | Path | None = None,
        episodes: Mapping[str, Sequence[int]] | None = None,
        image_transforms: Callable[[torch.Tensor], Any] | None = None,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        tolerances_s: Mapping[str, float] | None = None,
        **arguments: Any,  # noqa: ANN401  # checked by LeRobotDataset
    ) -> None:
        super().__init__()
        self.repo_ids = list(repo_ids)
        self.root = lerobot_home() if root is None else Path(root).expanduser()
        self.tolerances_s = dict(tolerances_s or dict.fromkeys(self.repo_ids, 1e-4))
        self.delta_timestamps = delta_timestamps
        self.image_transforms = image_transforms
        self._datasets = [
            LeRobotDataset(
                repo_id,
                self.root / repo_id,
                None if episodes is None else episodes[repo_id],
                image_transforms=image_transforms,
                delta_timestamps=delta_timestamps,
                tolerance_s=self.tolerances_s[repo_id],
                **arguments,
            )
            for repo_id in self.repo_ids
        ]
        first, *others = (set(dataset.features) for dataset in self._datasets)
        shared = first.intersection(*others)
        if not shared:
            raise FeatureNotFoundError(f"{', '.join(self.repo_ids)} share no feature.")
        self.disabled_features = first.union(*others) - shared

    @property
    def repo_id_to_index(self) -> dict[str, int]:
        """The ``dataset_index`` of each id."""
        return {repo_id: i for i, repo_id in enumerate(self.repo_ids)}

    @property
    def repo_index_to_id(self) -> dict[int, str]:
        """The id of each ``dataset_index``."""
        return dict(enumerate(self.repo_ids))

    @property
    def fps(self) -> int:
        """Frames per second of the first dataset."""
        return self._datasets[0].fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """The features that all datasets share, as info.json describes them."""
        first = self._datasets[0].features
        return {name: f for name, f in first.items() if name not in self.disabled_features}

    @property
    def camera_keys(self) -> list[str]:
        """The cameras that all datasets share."""
        return [name for name, f in self.features.items() if f["dtype"] in ("image", "video")]

    @property
    def video(self) -> bool:
        """Whether the first dataset has video."""
        return bool(self._datasets[0].meta.video_keys)

    @property
    def video_frame_keys(self) -> list[str]:
        """The shared cameras that are stored as video."""
        return [name for name, f in self.features.items() if f["dtype"] == "video"]

    @property
    def tolerance_s(self) -> float:
        """The largest of ``tolerances_s``."""
        return max(self.tolerances_s.values())

    @property
    def num_frames(self) -> int:
        """Frames of all datasets."""
        return sum(dataset.num_frames for dataset in self._datasets)

    @property
    def num_episodes(self) -> int:
        """Episodes of all datasets."""
        return sum(dataset.num_episodes for dataset in self._datasets)

    @property
    def stats(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Statistics of all datasets together, by feature; depth in the unit of the items."""
        parts = [dataset.meta.feature_stats() for dataset in self._datasets]
        names = dict.fromkeys(name for part in parts for name in part)
        return {
            name: stats_as_dict(merge_stats([part[name] for part in parts if name in part]))
            for name in names
        }

    def set_image_transforms(self, image_transforms: Callable[[Any], Any] | None) -> None:
        """Replace what is called with the images of each item."""
        for dataset in self._datasets:
            dataset.set_image_transforms(image_transforms)
        self.image_transforms = image_transforms

    def clear_image_transforms(self) -> None:
        """Leave images as they are."""
        self.set_image_transforms(None)

    def __len__(self) -> int:
        return self.num_frames

    def __getitem__(self, idx: int) -> dict[str, Any]:
        place = positions(idx, len(self), "item")
        if not isinstance(place, int):
            raise TypeError(f"MultiLeRobotDataset takes one number at a time: not {idx!r}.")
        return self.__getitems__([place])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return several items, those of each dataset read at once; a DataLoader calls this."""
        items = whole_numbers(indices, "item")
        stops = np.cumsum([dataset.num_frames for dataset in self._datasets])
        owners = np.searchsorted(stops, items, side="right")
        found: list[dict[str, Any]] = [{} for _ in items]
        for owner in np.unique(owners).tolist():
            slots = np.flatnonzero(owners == owner)
            start = int(stops[owner]) - self._datasets[owner].num_frames
            read = self._datasets[owner].__getitems__((items[slots] - start).tolist())
            for slot, item in zip(slots.tolist(), read, strict=True):
                found[slot] = self._shared(item, owner)
        return found

    def __repr__(self) -> str:
        return (
            f"MultiLeRobotDataset({self.repo_ids}, {self.num_episodes} episodes, "
            f"{self.num_frames} frames)"
        )

    def _shared(self, item: dict[str, Any], owner: int) -> dict[str, Any]:
        kept = {name: v for name, v in item.items() if name not in self.disabled_features}
        return {**kept, "dataset_index": torch.tensor(owner)}
