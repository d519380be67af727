"""What the page shows of a dataset."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check import check_dataset
from roboreel.check.text import one_line_each, summary, unchecked
from roboreel.errors import DatasetError
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER
from roboreel.image import encode_jpeg
from roboreel.report.distribution import MOST_ELEMENTS, Distribution, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset, Episode
    from roboreel.schema import Feature

_MOST_ROWS = 100_000
"""How many rows to read at most; larger datasets are read in evenly spaced stretches."""
_STRETCHES = 64
_MOST_TEXTS = 5
_MOST_FINDINGS = 20
"""How many findings of one code are listed."""
_MOST_EPISODES = 4
_HEIGHT = 144


@dataclass(frozen=True, slots=True)
class Strip:
    """First, middle and last image of one camera in one episode."""

    episode: int
    camera: str
    frames: tuple[int, ...]
    pictures: tuple[str, ...]
    """Each as a data URL."""


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


# What looks odd beside the findings of `roboreel check`, in one sentence each.

_MOST_NAMED = 5


def doubt_episodes(dataset: Dataset) -> Iterator[str]:
    """Yield what looks wrong about the episodes, from metadata alone."""
    numbers, lengths = dataset.episodes.numbers, dataset.episodes.lengths
    if not len(lengths):
        yield "There are no episodes."
        return
    if (lengths == 0).any():
        yield f"{_name(numbers[lengths == 0])} no frames."
    typical = float(np.median(lengths))
    short, long = (lengths > 0) & (lengths < typical / 5), lengths > typical * 5
    if short.any():
        yield f"{_name(numbers[short])} less than a fifth of the typical {typical:g} frames."
    if long.any():
        yield f"{_name(numbers[long])} more than five times the typical {typical:g} frames."


def doubt_outliers(
    name: str,
    elements: list[Distribution],
    values: NDArray[Any],
    episodes: NDArray[np.int64],
) -> Iterator[str]:
    """Yield the elements of a feature that have outliers, each with the episode of its farthest.

    Args:
        name: The feature.
        elements: How the values of each element are distributed.
        values: The values ``(N, D)``.
        episodes: The number of each row's episode, ``(N,)``.
    """
    for place, shown in enumerate(elements):
        if shown.has_outliers:
            called = f"{name} · {shown.label}" if shown.label else name
            above = shown.maximum - shown.high >= shown.low - shown.minimum
            farthest = values[:, place] == (shown.maximum if above else shown.minimum)
            yield (
                f"{called} has outliers, the farthest in episode {episodes[farthest][0]}: it ranges "
                f"from {shown.minimum:.4g} to {shown.maximum:.4g}, but 98 % of its values lie "
                f"between {shown.low:.4g} and {shown.high:.4g}."
            )


def _name(numbers: NDArray[np.int64]) -> str:
    """Return the start of a sentence about some episodes."""
    if len(numbers) == 1:
        return f"Episode {numbers[0]} has"
    named = ", ".join(map(str, numbers[:_MOST_NAMED].tolist()))
    return f"{len(numbers)} episodes ({named}{', …' if len(numbers) > _MOST_NAMED else ''}) have"


# A few images of each camera, small enough for a page.


def take_pictures(dataset: Dataset) -> tuple[list[Strip], list[str]]:
    """Return strips of evenly spaced episodes, and what could not be shown."""
    count = len(dataset.episodes)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_EPISODES)).astype(int))
    strips, missing = [], []
    for place in chosen.tolist():
        episode = dataset.episodes[place]
        for camera in dataset.cameras if len(episode) else ():
            try:
                strips.append(_take(dataset, episode, camera))
            except DatasetError as error:  # noqa: PERF203  # a handful
                missing.append(f"Episode {episode.number}, {camera}: {error}")
    return strips, missing


def _take(dataset: Dataset, episode: Episode, camera: str) -> Strip:
    frames = tuple(sorted({0, (len(episode) - 1) // 2, len(episode) - 1}))
    height, width, _ = dataset.features[camera].shape
    size = (_HEIGHT, max(round(_HEIGHT * width / max(height, 1)), 1))
    read = dataset.select([episode.number]).read(frames, [camera], image_size=size, layout="hwc")
    return Strip(episode.number, camera, frames, tuple(_address(image) for image in read[camera]))


def _address(image: NDArray[Any]) -> str:
    is_colour = image.dtype == np.uint8 and image.shape[-1] >= 3
    pixels = image[..., :3] if is_colour else _grey(image)
    return "data:image/jpeg;base64," + base64.b64encode(encode_jpeg(pixels, quality=85)).decode()


def _grey(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Return depth as grey over the range of this image, near things bright."""
    values = np.nan_to_num(image[..., 0].astype(np.float64))
    low, high = np.quantile(values, (0.01, 0.99))
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return (255 * (1 - share.clip(0, 1))).astype(np.uint8)
