"""Features of a dataset that is edited: cameras whose images are encoded again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roboreel.format.video_info import encoding_of, with_video_info

if TYPE_CHECKING:
    from roboreel.schema import Feature
    from roboreel.video.encoding import Encoding


def with_coding(
    feature: Feature, encoding: Encoding | None, size: tuple[int, int] | None, fps: float
) -> Feature:
    """Return a camera whose video is encoded otherwise.

    Args:
        feature: The camera as it is.
        encoding: How it is encoded; None for the codec that it has.
        size: Height and width; None if they stay.
        fps: Images per second.
    """
    shape = feature.shape if size is None else (*size, feature.shape[2])
    extra = {key: value for key, value in feature.extra.items() if key != "video_info"}
    resized = replace(feature, shape=shape, extra=extra)
    return with_video_info(resized, encoding or encoding_of(feature), fps)
