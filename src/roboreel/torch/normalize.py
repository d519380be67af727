"""Values on a common scale, as modules that move and are saved with a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from roboreel.dataset.normalize import affines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roboreel.dataset.normalize import Mode
    from roboreel.stats import FeatureStats


class _Scale(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to us
    """Holds the scale of each feature in buffers, so that they move and are saved with a policy."""

    def __init__(self, stats: Mapping[str, FeatureStats], modes: Mapping[str, Mode]) -> None:
        super().__init__()
        self.names = tuple(modes)
        for place, affine in enumerate(affines_of(stats, modes).values()):
            self.register_buffer(f"middle_{place}", torch.from_numpy(affine.middle))
            self.register_buffer(f"half_{place}", torch.from_numpy(affine.half))

    def _scales(self, batch: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Yield the features of a batch that have a scale, with its middle and half."""
        for place, name in enumerate(self.names):
            if name in batch:
                yield name, getattr(self, f"middle_{place}"), getattr(self, f"half_{place}")


class Normalize(_Scale):
    """Puts features of a batch of tensors on a common scale, float32, on their own device.

    Images of uint8 are taken as 0 to 1, as in their statistics.

    Args:
        stats: Statistics by feature: `roboreel.Dataset.stats`, or those of a checkpoint.
        modes: How, for each feature that is to be changed: ``"mean_std"``, ``"min_max"``,
            ``"quantiles"`` or ``"quantiles10"``.

    Raises:
        FeatureNotFoundError: A feature has no statistics.
        ValueError: A mode is unknown, or the statistics lack the quantiles that it needs.
    """

    def forward(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with these features normalized; the others are passed on."""
        normal = dict(batch)
        for name, middle, half in self._scales(batch):
            if normal[name].dtype == torch.uint8:
                # From the buffers, not kept beside them: a checkpoint may replace those.
                middle, half = middle * 255, half * 255
            normal[name] = (normal[name] - middle) / half
        return normal


class Unnormalize(_Scale):
    """Puts features of a batch of tensors back on their own scale: the inverse of `Normalize`."""

    def forward(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with these features as they were; the others are passed on."""
        plain = dict(batch)
        for name, middle, half in self._scales(batch):
            plain[name] = plain[name] * half + middle
        return plain
