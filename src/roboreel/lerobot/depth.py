"""Depth in LeRobot's units: whole millimetres, or metres."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from roboreel.errors import UnsupportedArgumentError
from roboreel.video.depth import MAX_CODE, metres_of_codes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.schema import Depth
    from roboreel.stats import FeatureStats

UNITS = ("mm", "m")
_MM_PER_M = 1000.0
_MOST_MM = 65535.0


def check_unit(unit: str) -> str:
    """Return a unit of depth.

    Raises:
        UnsupportedArgumentError: It is neither ``"mm"`` nor ``"m"``.
    """
    if unit not in UNITS:
        raise UnsupportedArgumentError(f"depth_output_unit is {unit!r}: give 'mm' or 'm'.")
    return unit


def depth_from_video(metres: NDArray[np.float32], depth: Depth, unit: str) -> torch.Tensor:
    """Return depth that was read from video in a unit, with the rounding of LeRobot.

    Args:
        metres: Distances as `roboreel.dataset.Dataset.read` returns them.
        depth: The range of the camera's codes.
        unit: ``"mm"``, whole millimetres, or ``"m"``.

    Returns:
        float32, in the shape of ``metres``.
    """
    # LeRobot computes in float32, which rounds some codes to another millimetre than we do.
    codes = np.searchsorted(metres_of_codes(depth), metres)
    return _values_of_codes(depth, unit)[torch.from_numpy(codes)]


def depth_from_pictures(values: NDArray[Any], stored: str | None, unit: str) -> torch.Tensor:
    """Return depth that is stored as pictures in a unit; unchanged if its own is unknown."""
    images = torch.from_numpy(values.astype(np.float32))
    if stored is None or stored == unit:
        return images
    return images.mul_(_MM_PER_M) if stored == "m" else images.div_(_MM_PER_M)


def stats_in_unit(stats: FeatureStats, entry: Mapping[str, Any], unit: str | None) -> FeatureStats:
    """Return the statistics of a depth camera in a unit; unchanged if its own is unknown.

    Args:
        stats: Statistics as they are stored.
        entry: The camera's entry in info.json.
        unit: The unit that is wanted; None leaves statistics as they are.
    """
    stored = (entry.get("info") or {}).get("depth_unit")
    if stored is None or unit is None or stored == unit:
        return stats
    factor = _MM_PER_M if stored == "m" else 1.0 / _MM_PER_M
    scaled: Any = {name: getattr(stats, name) * factor for name in ("min", "max", "mean", "std")}
    quantiles = {name: values * factor for name, values in stats.quantiles.items()}
    return replace(stats, quantiles=quantiles, **scaled)


@lru_cache(maxsize=16)
def _values_of_codes(depth: Depth, unit: str) -> torch.Tensor:
    """Return the distance of every code, ``(4096,)``, in float32 steps as LeRobot computes it."""
    low, high = depth.min_m, depth.max_m
    if depth.log:
        low, high = math.log(low + depth.shift), math.log(high + depth.shift)
    values = torch.arange(MAX_CODE + 1, dtype=torch.float32)
    values.mul_((high - low) / MAX_CODE).add_(low)
    if depth.log:
        values.exp_().sub_(depth.shift)
    values.clamp_(depth.min_m, depth.max_m)
    return values if unit == "m" else values.mul_(_MM_PER_M).round_().clamp_(0.0, _MOST_MM)
