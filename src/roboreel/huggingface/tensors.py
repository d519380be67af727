"""Values of `datasets` as the tensors that LeRobot gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def batch_to_tensors(batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return a batch with every value as a tensor; images are ``(C, H, W)``, texts stay."""
    return {name: [_to_tensor(value) for value in values] for name, values in batch.items()}


def example_to_tensors(example: Mapping[str, Any]) -> dict[str, Any]:
    """Return one example in the same way."""
    return {name: _to_tensor(value) for name, value in example.items()}


def _to_tensor(value: Any) -> Any:  # noqa: ANN401  # a number, a list, a picture, a text
    if value is None or isinstance(value, str | dict):
        return value
    if not hasattr(value, "getbands"):  # not a picture of Pillow
        return torch.tensor(value)
    image = np.asarray(value)
    if image.ndim == 2:
        values = torch.from_numpy(image.astype(np.float32))[None]
        return values / 255 if image.dtype == np.uint8 else values
    return torch.from_numpy(image.copy()).permute(2, 0, 1).contiguous().to(torch.float32).div_(255)
