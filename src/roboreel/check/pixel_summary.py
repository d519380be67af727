"""The brightness of decoded images, compared with the stored statistics of a camera.

The two cannot be equal: LeRobot looks at some images only, at some of their pixels, and before they
are encoded, which takes away much of what is noise. So extremes are not compared, and the others only
roughly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.stats import ImageAccumulator

# Values are between 0 and 1.
_MEAN_TOLERANCE = 0.05
_STD_TOLERANCE = 0.03
# Encoding lowers the deviation: of pure noise to less than half. It never raises it by much.
_LEAST_STD, _MOST_STD = 0.75, 2.5


@dataclass(frozen=True, slots=True, eq=False)
class PixelSummary:
    """Mean and deviation of each channel, ``(C,)``, as parts of 255."""

    num_images: int
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    overflown: NDArray[np.float64]
    """The deviation that LeRobot 0.4.0 to 0.5.1 computes, which squares pixels in 8 bits."""


def summarize_pixels(counted: ImageAccumulator) -> PixelSummary:
    """Return what the images of one episode look like."""
    histogram = counted.state()["histogram"]
    levels = np.arange(256)
    share = histogram / histogram.sum(axis=1, keepdims=True)
    mean = share @ levels
    variance = share @ levels**2 - mean**2
    overflown = share @ (levels**2 % 256) - mean**2
    return PixelSummary(
        counted.num_images,
        mean / 255,
        np.sqrt(variance.clip(0)) / 255,
        np.sqrt(overflown.clip(0)) / 255,
    )


def join_summaries(parts: Sequence[PixelSummary]) -> PixelSummary:
    """Return what the images of several episodes look like, at least one."""
    counts = np.array([part.num_images for part in parts])
    weights = (counts / counts.sum())[:, None]
    means = np.stack([part.mean for part in parts])
    mean = (weights * means).sum(axis=0)
    between = (weights * (means - mean) ** 2).sum(axis=0)
    within = [
        (weights * np.stack([getattr(part, name) for part in parts]) ** 2).sum(axis=0)
        for name in ("std", "overflown")
    ]
    std, overflown = (np.sqrt(one + between) for one in within)
    return PixelSummary(int(counts.sum()), mean, std, overflown)


@dataclass(frozen=True, slots=True)
class Differences:
    """How stored statistics differ from the images."""

    problem: str | None
    """What differs, if anything does."""
    is_overflow: bool = False
    """Whether only deviations differ, and they are what LeRobot's known defect makes of the images."""


def differences(
    mean: NDArray[np.float64], std: NDArray[np.float64], true: PixelSummary
) -> Differences:
    """Compare stored statistics with images. A deviation of 0 is not compared: it has a rule.

    Args:
        mean: The stored means.
        std: The stored deviations.
        true: What the images look like.
    """
    mean, std = mean.reshape(-1), std.reshape(-1)
    if mean.shape != true.mean.shape or std.shape != true.std.shape:
        return Differences(f"there are {mean.size} means for {len(true.mean)} channels")
    wrong = np.flatnonzero(~(np.abs(mean - true.mean) <= _MEAN_TOLERANCE))
    if len(wrong):
        return Differences(_says("mean", mean, true.mean, int(wrong[0])) + _scale(mean, true))
    off = (std < _LEAST_STD * true.std) | (std > _MOST_STD * true.std)
    off &= (np.abs(std - true.std) > _STD_TOLERANCE) & np.isfinite(std) & (std > 0)
    if not off.any():
        return Differences(None)
    is_overflow = bool((np.abs(std - true.overflown)[off] < _STD_TOLERANCE).all())
    return Differences(_says("std", std, true.std, int(np.flatnonzero(off)[0])), is_overflow)


def _says(name: str, stored: NDArray[np.float64], true: NDArray[np.float64], channel: int) -> str:
    return (
        f"{name} is {stored[channel]:.4g} in the metadata and {true[channel]:.4g} in the images, "
        f"channel {channel}"
    )


def _scale(mean: NDArray[np.float64], true: PixelSummary) -> str:
    if (np.abs(mean / 255 - true.mean) <= _MEAN_TOLERANCE).all():
        return "; it seems to count from 0 to 255 instead of 0 to 1"
    return ""
