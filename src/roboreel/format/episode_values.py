"""Digests that identify the values of episodes, taken from metadata alone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import DatasetError
from roboreel.format.counters import COUNTERS
from roboreel.format.statistics import read_episode_stat_columns
from roboreel.io.sources import size_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import Manifest

_FILES = "sizes of data files"


def value_digests(manifest: Manifest, positions: NDArray[np.int64]) -> dict[str, str]:
    """Return digests of the values of some episodes, by what they were taken from.

    Of each feature with numbers, the least and the greatest value of every episode, as the metadata
    has them: they stay the same whoever computes them, and when a dataset is copied, converted or
    compacted, or its cameras are encoded again. Where the metadata of a v2.0 or v2.1 dataset has none,
    the sizes of the data files, one per episode. Empty if there is neither.

    Args:
        manifest: The dataset.
        positions: Positions of the episodes in its table, ``(E,)``.
    """
    if not len(positions):
        return {}
    try:
        return _of_statistics(manifest, positions) or _of_files(manifest, positions)
    except (DatasetError, OSError):  # Files that reading and `roboreel check` complain of.
        return {}


def _of_statistics(manifest: Manifest, positions: NDArray[np.int64]) -> dict[str, str]:
    names = [
        name
        for name, feature in manifest.features.items()
        if feature.kind == "number" and name not in COUNTERS
    ]
    digests = {}
    for name, columns in read_episode_stat_columns(manifest, names).items():
        extremes = np.concatenate([columns.min[positions], columns.max[positions]], axis=1)
        if not np.isnan(extremes).any():  # Statistics that are missing may be computed later.
            digests[name] = _digest(extremes + 0.0)  # -0.0 and 0.0 are one value.
    return digests


def _of_files(manifest: Manifest, positions: NDArray[np.int64]) -> dict[str, str]:
    if not manifest.version.startswith("v2"):  # A file of several episodes grows with others.
        return {}
    files = manifest.episodes.data_file[positions].tolist()
    paths = (manifest.root / manifest.data_files[file] for file in files)
    return {_FILES: _digest(np.array([size_of(path) for path in paths], np.int64))}


def _digest(values: NDArray[np.float64] | NDArray[np.int64]) -> str:
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return hashlib.sha256(little.tobytes()).hexdigest()
