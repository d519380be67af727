"""What the page shows of a dataset."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check import check_dataset
from roboreel.check.text import one_line_each, summary, unchecked
from roboreel.errors import DatasetError
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER
from roboreel.report.distribution import MOST_ELEMENTS, Distribution, spread
from roboreel.report.doubts import doubt_episodes, doubt_outliers
from roboreel.report.pictures import Strip, take_pictures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.schema import Feature

_MOST_ROWS = 100_000
"""How many rows to read at most; larger datasets are read in evenly spaced stretches."""
_STRETCHES = 64
_MOST_TEXTS = 5
_MOST_FINDINGS = 20
"""How many findings of one code are listed."""


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Everything the page shows."""

    dataset: Dataset
    rows_read: int
    tasks: Mapping[str, int]
    """Episodes by task."""
    numbers: Mapping[str, list[Distribution]]
    texts: Mapping[str, list[tuple[str, int]]]
    """The most frequent texts of each feature, and how many frames have them."""
    strips: list[Strip]
    doubts: list[str]
    """What looks wrong, in one sentence each."""
    checked: tuple[str, ...]
    """How many rules were checked, and what was not looked at."""


def survey_dataset(dataset: Dataset) -> Survey:
    """Return what the page shows: what a check finds, values of some rows, and a few images.

    Of a remote dataset only the metadata is checked: the rest would have to be fetched whole.
    """
    rows = _rows_to_read(len(dataset))
    is_whole = len(dataset.episodes) == len(dataset.manifest.episodes)
    findings = check_dataset(
        dataset.path,
        tier="index" if dataset.url is None else "metadata",
        episodes=None if is_whole else dataset.episodes.numbers.tolist(),
    )
    doubts = [*one_line_each(findings, most=_MOST_FINDINGS), *doubt_episodes(dataset)]
    numbers: dict[str, list[Distribution]] = {}
    texts: dict[str, list[tuple[str, int]]] = {}
    for name, feature in dataset.features.items():
        if feature.is_camera or not len(rows):
            continue
        try:
            values = dataset.read(rows, [name])[name]
        except DatasetError as error:
            doubts.append(f"{name} cannot be read: {error}")
            continue
        if feature.kind != "number":
            texts[name] = Counter(map(str, values)).most_common(_MOST_TEXTS)
            continue
        # The distribution of a counter says nothing.
        if name not in COUNTERS:
            numbers[name] = spread(_flat(values)[:, :MOST_ELEMENTS], _labels(feature))
            if any(shown.has_outliers for shown in numbers[name]):
                episodes = dataset.read(rows, [EPISODE_NUMBER])[EPISODE_NUMBER].reshape(-1)
                doubts += doubt_outliers(name, numbers[name], _flat(values), episodes)
    strips, missing = take_pictures(dataset)
    doubts += missing
    said = (summary(findings), *unchecked(findings, command="roboreel check "))
    return Survey(dataset, len(rows), _count_tasks(dataset), numbers, texts, strips, doubts, said)


def _rows_to_read(count: int) -> NDArray[np.int64]:
    if count <= _MOST_ROWS:
        return np.arange(count)
    starts = np.linspace(0, count - _MOST_ROWS // _STRETCHES, _STRETCHES).astype(np.int64)
    return np.concatenate([np.arange(s, s + _MOST_ROWS // _STRETCHES) for s in starts.tolist()])


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(len(values), -1)


def _labels(feature: Feature) -> list[str]:
    count = int(np.prod(feature.shape, dtype=np.int64))
    if feature.names is not None and len(feature.names) == count:
        return list(feature.names)[:MOST_ELEMENTS]
    if len(feature.shape) > 1:
        places = list(np.ndindex(*feature.shape))[:MOST_ELEMENTS]
        return [", ".join(map(str, place)) for place in places]
    return [str(place) for place in range(count)][:MOST_ELEMENTS] if count > 1 else [""]


def _count_tasks(dataset: Dataset) -> dict[str, int]:
    counts = Counter(task for episode in dataset.episodes for task in episode.tasks)
    return dict(counts.most_common())
