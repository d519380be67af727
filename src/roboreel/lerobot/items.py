"""Samples of a view as items in LeRobot's types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from roboreel.lerobot.depth import depth_from_pictures, depth_from_video
from roboreel.lerobot.language import parse_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.sample_spec import SampleSpec


@dataclass(frozen=True, slots=True)
class ItemOptions:
    """How the values of an item come."""

    spec: SampleSpec
    """Windows by feature."""
    return_uint8: bool
    """Whether images from video are uint8; pictures are float32 in any case, as in LeRobot."""
    depth_unit: str
    stored_units: Mapping[str, str | None]
    """Unit of each depth camera that is stored as pictures; None if info.json has none."""


def read_items(
    view: Dataset,
    samples: NDArray[np.int64],
    options: ItemOptions,
    image_transforms: Callable[[torch.Tensor], Any] | None,
) -> list[dict[str, Any]]:
    """Return several items that are read at once."""
    batch = view.read(samples, options.spec)
    columns = {name: _column(view, name, values, options) for name, values in batch.items()}
    items = [{name: values[i] for name, values in columns.items()} for i in range(len(samples))]
    if image_transforms is not None:
        colour = [name for name in view.cameras if view.features[name].depth is None]
        for item in items:
            item.update({camera: image_transforms(item[camera]) for camera in colour})
    return items


def _column(view: Dataset, name: str, values: Any, options: ItemOptions) -> Any:  # noqa: ANN401
    """Return the values of a batch in LeRobot's types."""
    if isinstance(values, list) or values.dtype == object:
        language = name in view.features and view.features[name].kind == "language"
        return [parse_messages(value) for value in values] if language else list(values)
    if name not in view.cameras:
        return torch.from_numpy(_as_lerobot_types(values))
    feature = view.features[name]
    if feature.is_video and len(options.spec.windows.get(name, ())) == 1:
        values = values[:, 0]  # LeRobot drops the axis of a single delta, but only for video.
    if feature.depth is None:
        return _colour(values, keep_bytes=options.return_uint8 and feature.is_video)
    if feature.is_video:
        return depth_from_video(values, feature.depth, options.depth_unit)
    return depth_from_pictures(values, options.stored_units.get(name), options.depth_unit)


def _colour(values: NDArray[Any], *, keep_bytes: bool) -> torch.Tensor:
    images = torch.from_numpy(values)
    if images.dtype == torch.uint8 and not keep_bytes:
        return images.to(torch.float32).div_(255)
    return images


def _as_lerobot_types(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as LeRobot has them after converting through Python: float32, int64, bool."""
    kind = values.dtype.kind
    if kind == "f":
        return values.astype(np.float32, copy=False)
    return values.astype(np.int64, copy=False) if kind in "iu" else values
