"""Values on a common scale, by a dataset's statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from roboreel.errors import FeatureNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from roboreel.stats import FeatureStats

Mode = Literal["mean_std", "min_max", "quantiles", "quantiles10"]
"""How values are scaled: to mean 0 and deviation 1, or so that -1 and 1 are the minimum and maximum,
the 1st and 99th percentile, or the 10th and 90th percentile."""

_ENDS = {"quantiles": ("q01", "q99"), "quantiles10": ("q10", "q90")}


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """``normal = (value - middle) / half``, element by element, in the shape of the statistics."""

    middle: NDArray[np.float32]
    half: NDArray[np.float32]

    def normalize(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Return values on the common scale, float32, in any shape that broadcasts.

        Images of uint8 are taken as 0 to 1, as in their statistics.
        """
        brightest = np.float32(255 if values.dtype == np.uint8 else 1)
        scaled: NDArray[np.float32] = np.subtract(values, self.middle * brightest, dtype=np.float32)
        scaled /= self.half * brightest
        return scaled

    def unnormalize(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Return values on their own scale, float32."""
        return np.asarray(values, np.float32) * self.half + self.middle


def affine_of(name: str, stats: FeatureStats, mode: Mode) -> Affine:
    """Return the scale of a feature.

    An element that never changes becomes 0, and comes back unchanged.

    Raises:
        ValueError: The mode is unknown, or the statistics lack the quantiles that it needs.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"No mode {mode!r}: there are {', '.join(get_args(Mode))}.")
    if mode == "mean_std":
        middle, half = stats.mean, stats.std
    else:
        low, high = stats.min, stats.max
        if mode != "min_max":
            missing = [end for end in _ENDS[mode] if end not in stats.quantiles]
            if missing:
                raise ValueError(
                    f"The statistics of {name!r} have no {missing[0]}, which {mode!r} needs: "
                    "use those of Dataset.compute_stats()."
                )
            low, high = (stats.quantiles[end] for end in _ENDS[mode])
        middle, half = (low + high) / 2, (high - low) / 2
    # Elements that were never finite have NaN as statistics: they pass unchanged.
    middle = np.where(np.isfinite(middle), middle, 0.0)
    half = np.where(np.isfinite(half) & (half > 0), half, 1.0)
    return Affine(middle.astype(np.float32), half.astype(np.float32))


def affines_of(stats: Mapping[str, FeatureStats], modes: Mapping[str, Mode]) -> dict[str, Affine]:
    """Return the scale of each feature that has a mode.

    Raises:
        FeatureNotFoundError: A feature has no statistics.
    """
    missing = [name for name in modes if name not in stats]
    if missing:
        raise FeatureNotFoundError(
            f"There are no statistics of {missing[0]!r}: there are those of {', '.join(stats)}."
        )
    return {name: affine_of(name, stats[name], mode) for name, mode in modes.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Scaling:
    """The scales of some features, made once."""

    stats: Mapping[str, FeatureStats]
    modes: Mapping[str, Mode]
    """How, for each feature that is to be changed."""
    _affines: Mapping[str, Affine] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_affines", affines_of(self.stats, self.modes))

    def _scaled(
        self, batch: Mapping[str, Any], scale: Callable[[Affine, NDArray[Any]], NDArray[np.float32]]
    ) -> dict[str, Any]:
        affines = self._affines
        return {
            name: scale(affines[name], values) if name in affines else values
            for name, values in batch.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class Normalize(_Scaling):
    """Puts features of a batch of arrays on a common scale.

    Raises:
        FeatureNotFoundError: A feature has no statistics.
        ValueError: A mode is unknown, or the statistics lack the quantiles that it needs.

    Examples:
        >>> from roboreel.stats import Accumulator
        >>> accumulator = Accumulator((2,))
        >>> accumulator.update(np.array([[0.0, 5.0], [2.0, 5.0]]))
        >>> stats = {"action": accumulator.finish()}
        >>> Normalize(stats, {"action": "min_max"})({"action": np.array([[2.0, 5.0]])})
        {'action': array([[1., 0.]], dtype=float32)}
    """

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with these features normalized; the others are passed on."""
        return self._scaled(batch, Affine.normalize)


@dataclass(frozen=True, slots=True, eq=False)
class Unnormalize(_Scaling):
    """Puts features of a batch of arrays back on their own scale: the inverse of `Normalize`."""

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with these features as they were; the others are passed on."""
        return self._scaled(batch, Affine.unnormalize)
