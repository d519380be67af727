"""Arrays of several datasets, joined into one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FeatureNotFoundError
from roboreel.format.counters import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.members import Member
    from roboreel.schema import Feature


@dataclass(frozen=True, slots=True, eq=False)
class Blend:
    """One feature of a mixture: its name in each dataset, and its form in a batch."""

    name: str
    owns: tuple[str | None, ...]
    """Its name in each dataset; None where a dataset lacks it."""
    feature: Feature
    """As the first dataset that has it declares it."""
    shape: tuple[int, ...]
    """Shape of one value, as large as in any dataset. Not used for cameras: readers choose a size."""
    dtype: np.dtype[Any]
    ragged: bool
    """Whether some values are smaller, or missing, so that a mask is needed."""

    def empty(
        self, lead: tuple[int, ...], image_shape: tuple[int, ...], dtype: np.dtype[Any] | None
    ) -> dict[str, NDArray[Any]]:
        """Return an array of zeros for a batch, and its mask, all True, if it has one.

        Args:
            lead: ``(B,)`` or ``(B, T)``.
            image_shape: Shape of one image.
            dtype: If other than that of the stored values.
        """
        shape = image_shape if self.feature.is_camera else self.shape
        arrays = {self.name: np.zeros((*lead, *shape), dtype or self.dtype)}
        if self.ragged:
            masked = () if self.feature.is_camera else shape
            arrays[f"{self.name}_is_missing"] = np.ones((lead[0], *masked), bool)
        return arrays

    def put(
        self,
        batch: Mapping[str, NDArray[Any]],
        values: NDArray[Any],
        slots: NDArray[np.int64],
        lead: tuple[int, ...],
    ) -> None:
        """Put the values of one dataset into their slots of the batch.

        Raises:
            ValueError: Images differ in size from the rest of the batch.
        """
        held = batch[self.name]
        own, whole = values.shape[len(lead) :], held.shape[len(lead) :]
        if self.feature.is_camera and own != whole:
            raise ValueError(
                f"Images of {self.name!r} have the shape {own} in one dataset and {whole} in "
                "another. Pass image_size=(height, width) to scale them to one size."
            )
        inside: tuple[Any, ...] = tuple(slice(0, size) for size in own)
        steps: tuple[Any, ...] = (slice(None),) * (len(lead) - 1)
        held[(slots, *steps, *inside)] = values
        if self.ragged:
            masked: tuple[Any, ...] = () if self.feature.is_camera else inside
            batch[f"{self.name}_is_missing"][(slots, *masked)] = False


def blend_features(
    datasets: Sequence[Member], features: Mapping[str, str | Sequence[str | None]] | None
) -> dict[str, Blend]:
    """Return the features of a mixture: those named, or those that all datasets have.

    Raises:
        FeatureNotFoundError: A dataset has no feature of the name that is given for it.
        ValueError: A feature differs in kind between datasets.
    """
    return {name: _blend(name, owns, datasets) for name, owns in _names(datasets, features).items()}


def _blend(name: str, owns: tuple[str | None, ...], datasets: Sequence[Member]) -> Blend:
    owned = [d.features[own] for d, own in zip(datasets, owns, strict=True) if own is not None]
    kinds = {"image" if feature.is_camera else feature.kind for feature in owned}
    shapes = {feature.value_shape for feature in owned if not feature.is_camera}
    if len(kinds) > 1 or len({len(shape) for shape in shapes}) > 1:
        described = ", ".join(f"{feature.dtype} {feature.shape}" for feature in owned)
        raise ValueError(f"{name!r} differs in kind between the datasets: {described}.")
    dtypes = [
        np.dtype(np.float32) if feature.depth is not None else feature.numpy_dtype
        for feature in owned
    ]
    return Blend(
        name=name,
        owns=owns,
        feature=owned[0],
        shape=tuple(max(sizes) for sizes in zip(*shapes, strict=True)),
        dtype=np.result_type(*dtypes),
        ragged=len(shapes) > 1 or None in owns,
    )


def _names(
    datasets: Sequence[Member], features: Mapping[str, str | Sequence[str | None]] | None
) -> dict[str, tuple[str | None, ...]]:
    """Return the name that each feature of the mixture has in each dataset."""
    if features is None:
        first, *others = datasets
        shared = [n for n in first.features if all(n in other.features for other in others)]
        return {name: (name,) * len(datasets) for name in shared}
    names: dict[str, tuple[str | None, ...]] = {
        name: tuple(name if name in dataset.features else None for dataset in datasets)
        for name in COUNTERS
        if any(name in dataset.features for dataset in datasets)
    }
    for name, given in features.items():
        owns = (given,) * len(datasets) if isinstance(given, str) else tuple(given)
        if len(owns) != len(datasets) or not any(owns):
            raise ValueError(
                f"{name!r} needs one name for each of {len(datasets)} datasets, not all of them "
                f"None: {given!r} was given."
            )
        for dataset, own in zip(datasets, owns, strict=True):
            if own is not None and own not in dataset.features:
                raise FeatureNotFoundError(
                    f"There is no feature {own!r} for {name!r}: there are "
                    f"{', '.join(dataset.features)}, in {str(dataset.path)!r}."
                )
        names[name] = owns
    return names
