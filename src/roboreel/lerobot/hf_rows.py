"""Frames without video as a `datasets.Dataset` that yields tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from roboreel.dataset import Dataset

__all__ = ["rows_as_tensors"]


def rows_as_tensors(view: Dataset) -> Any:  # noqa: ANN401  # a datasets.Dataset
    """Return the frames of a view in memory; its rows are tensors, and images ``(C, H, W)``."""
    from roboreel.huggingface import to_datasets

    rows = to_datasets(view)
    rows.set_transform(_to_tensors)
    return rows


def _to_tensors(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: [_to_tensor(value) for value in values] for name, values in batch.items()}


def _to_tensor(value: Any) -> Any:  # noqa: ANN401  # a number, a list, a picture, a text
    if value is None or isinstance(value, str | dict):
        return value
    if not hasattr(value, "getbands"):
        return torch.tensor(value)
    image = np.asarray(value)
    if image.ndim == 2:
        values = torch.from_numpy(image.astype(np.float32))[None]
        return values / 255 if image.dtype == np.uint8 else values
    return torch.from_numpy(image.copy()).permute(2, 0, 1).contiguous().to(torch.float32).div_(255)
