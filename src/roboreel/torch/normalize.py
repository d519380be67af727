"""Values on a common scale, as modules that move and are saved with a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from roboreel.dataset.normalize import affines_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.dataset.normalize import Mode
    from roboreel.stats import FeatureStats

__all__ = ["Normalize", "Unnormalize"]


class _Scale(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to us
    """Holds the scale of each feature in buffers, so that a checkpoint has them."""

    def __init__(self, stats: Mapping[str, FeatureStats], modes: Mapping[str, Mode]) -> None:
        super().__init__()
        self.names = tuple(modes)
        for place, affine in enumerate(affines_of(stats, modes).values()):
            self.register_buffer(f"middle_{place}", torch.from_numpy(affine.middle))
            self.register_buffer(f"half_{place}", torch.from_numpy(affine.half))

    def _scale_of(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        place = self.names.index(name)
        return self.get_buffer(f"middle_{place}"), self.get_buffer(f"half_{place}")


class Normalize(_Scale):
    """Puts features of a batch of tensors on a common scale, float32, on their own device.

    Images of uint8 count as 0 to 1, as their statistics do.

    Args:
        stats: Statistics by feature: `roboreel.Dataset.stats`, or those of a checkpoint.
        modes: How, for each feature that is to be changed: ``"mean_std"``, ``"min_max"``,
            ``"quantiles"`` or ``"quantiles10"``.
    """

    def forward(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with these features normalized; the others are passed on."""
        normal = dict(batch)
        for name in self.names:
            if name in normal:
                middle, half = self._scale_of(name)
                brightest = 255 if normal[name].dtype == torch.uint8 else 1
                normal[name] = (normal[name] - middle * brightest) / (half * brightest)
        return normal


class Unnormalize(_Scale):
    """Puts features of a batch of tensors back on their own scale: what `Normalize` did, undone."""

    def forward(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with these features as they were; the others are passed on."""
        plain = dict(batch)
        for name in self.names:
            if name in plain:
                middle, half = self._scale_of(name)
                plain[name] = plain[name] * half + middle
        return plain
