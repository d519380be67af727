"""The statistics of a camera, accumulated image by image."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.stats.sketch import values_at
from roboreel.stats.summary import QUANTILES, FeatureStats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class ImageAccumulator:
    """Accumulates the exact statistics of a camera, from histograms of brightness.

    Args:
        num_channels: Channels of an image.
    """

    def __init__(self, num_channels: int = 3) -> None:
        self.num_images = 0
        self._histogram = np.zeros((num_channels, 256), np.int64)

    def update(self, images: NDArray[np.uint8]) -> None:
        """Add images ``(N, C, H, W)``, uint8.

        Raises:
            TypeError: The images are not uint8.
            ValueError: They have the wrong shape or number of channels.
        """
        if images.dtype != np.uint8:
            raise TypeError(f"Image statistics need uint8 images, not {images.dtype}.")
        channels = len(self._histogram)
        if images.ndim != 4 or images.shape[1] != channels:
            raise ValueError(f"Images must have shape (N, {channels}, H, W), not {images.shape}.")
        for image in images:
            for channel, pixels in enumerate(image):
                self._histogram[channel] += np.bincount(pixels.ravel(), minlength=256)
        self.num_images += len(images)

    def merge(self, other: ImageAccumulator) -> None:
        """Add all images of another accumulator."""
        if other._histogram.shape != self._histogram.shape:
            raise ValueError(
                f"Cannot add images of {len(other._histogram)} channels "
                f"to images of {len(self._histogram)}."
            )
        self._histogram += other._histogram
        self.num_images += other.num_images

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays, from which `from_state` continues."""
        return {"histogram": self._histogram.copy(), "num_images": np.array(self.num_images)}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> ImageAccumulator:
        """Return an accumulator in the state of another one.

        Raises:
            KeyError: The state is incomplete.
            ValueError: The state is not a histogram of brightness.
        """
        histogram = np.array(state["histogram"], np.int64)
        if histogram.ndim != 2 or histogram.shape[1] != 256:
            raise ValueError(f"A histogram must have shape (C, 256), not {histogram.shape}.")
        accumulator = cls(len(histogram))
        accumulator._histogram = histogram
        accumulator.num_images = int(state["num_images"])
        return accumulator

    def finish(self) -> FeatureStats:
        """Return the statistics per channel, of shape ``(C, 1, 1)``; 255 counts as 1.0."""
        brightness = np.arange(256) / 255.0
        channels = [_channel_stats(brightness, histogram) for histogram in self._histogram]
        shape = (len(channels), 1, 1)
        columns = dict(
            zip(
                ("min", "max", "mean", "std", *QUANTILES),
                np.array(channels).T.reshape(-1, *shape),
                strict=True,
            )
        )
        return FeatureStats(
            min=columns["min"],
            max=columns["max"],
            mean=columns["mean"],
            std=columns["std"],
            count=np.full(shape, self.num_images),
            quantiles={name: columns[name] for name in QUANTILES},
        )


def image_stats(images: NDArray[np.uint8]) -> FeatureStats:
    """Return the statistics of images ``(N, C, H, W)`` per channel, of shape ``(C, 1, 1)``.

    Values are between 0 and 1. All statistics are exact, quantiles too.
    """
    accumulator = ImageAccumulator(images.shape[1] if images.ndim == 4 else 3)
    accumulator.update(images)
    return accumulator.finish()


def _channel_stats(brightness: NDArray[np.float64], histogram: NDArray[np.int64]) -> list[float]:
    count = int(histogram.sum())
    if count == 0:
        return [math.nan] * (4 + len(QUANTILES))
    mean = float(histogram @ brightness) / count
    std = math.sqrt(float(histogram @ (brightness - mean) ** 2) / count)
    occurring = brightness[histogram > 0]
    quantiles = values_at(list(QUANTILES.values()), brightness, histogram, count)
    return [float(occurring[0]), float(occurring[-1]), mean, std, *quantiles.tolist()]
