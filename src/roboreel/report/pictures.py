"""A few images of each camera, small enough for a page."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import DatasetError
from roboreel.image import encode_jpeg

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.dataset import Dataset, Episode

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
