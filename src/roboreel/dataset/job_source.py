"""The dataset of a job: named in its options, opened once in each process that runs its tasks."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.cache.manifest import dataset_state
from roboreel.dataset.opening import open_dataset
from roboreel.errors import StaleDatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.dataset import Dataset

# What one core does in a second, roughly: costs balance tasks, and promise nothing.
_PIXELS_PER_S = 8e7
_BYTES_PER_S = 5e7


def describe_source(dataset: Dataset) -> dict[str, Any]:
    """Return what names a dataset or view, and its present state, as plain values."""
    whole = len(dataset.selection.positions) == len(dataset.manifest.episodes)
    numbers = dataset.manifest.episodes.number[dataset.selection.positions]
    return {
        "path": str(dataset.path.resolve()),
        "state": dataset_state(dataset.manifest),
        "episodes": None if whole else numbers.tolist(),
    }


def open_source(source: Mapping[str, Any]) -> Dataset:
    """Open the dataset or view that `describe_source` named.

    Raises:
        StaleDatasetError: It has changed since.
    """
    return _open(json.dumps(source))


@lru_cache(maxsize=1)
def _open(source: str) -> Dataset:
    described = json.loads(source)
    dataset = open_dataset(described["path"])
    if dataset_state(dataset.manifest) != described["state"]:
        raise StaleDatasetError(
            f"The dataset has changed since the job was made. Remove the job, and start it again: "
            f"{described['path']!r}."
        )
    numbers = described["episodes"]
    return dataset if numbers is None else dataset.select(numbers)


def decoding_s(dataset: Dataset, camera: str, frames: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return about how long one core takes to decode this many frames of a camera."""
    height, width = dataset.features[camera].shape[:2]
    return frames.astype(np.float64) * (height * width / _PIXELS_PER_S)


def reading_s(
    dataset: Dataset, features: Sequence[str], frames: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return about how long one core takes to read the numbers of this many frames."""
    sizes = [
        math.prod(dataset.features[name].value_shape) * dataset.features[name].numpy_dtype.itemsize
        for name in features
    ]
    return frames.astype(np.float64) * (max(8, sum(sizes)) / _BYTES_PER_S)


def files_of(dataset: Dataset, camera: str | None = None) -> NDArray[np.int64]:
    """Return the file of each episode that has frames, in the order of their rows.

    Args:
        dataset: The dataset or view.
        camera: Whose files; those of the numbers if it has none of its own, or is not given.
    """
    table = dataset.manifest.episodes
    chosen = np.zeros(len(table), bool)
    chosen[dataset.selection.positions] = True
    order = table.row_order[chosen[table.row_order]]
    clips = None if camera is None else table.clips.get(camera)
    return (table.data_file if clips is None else clips.file)[order]
