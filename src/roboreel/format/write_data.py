"""Writing data files, which are alike in all versions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from roboreel.parquet.frame_tables import frame_schema, frame_table, picture_columns
from roboreel.parquet.writing import write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Feature

_PICTURE_NAME = "frame-{:06d}.png"
MESSAGE = {
    "role": "string",
    "content": "string",
    "style": "string",
    "timestamp": "double",
    "camera": "string",
    "tool_calls": "string",
}
"""What a message of a language feature has, and of which type."""


def write_data_file(
    path: Path,
    episodes: Iterable[Mapping[str, NDArray[Any] | Sequence[Any]]],
    features: Mapping[str, Feature],
    *,
    sync: bool = True,
) -> int:
    """Write a data file, one row group per episode; return how many rows it has.

    Args:
        path: Where the file will appear.
        episodes: The columns of each episode, as `frame_table` takes them.
        features: The dataset's features.
        sync: Whether the file must be on the disk when this returns.
    """
    schema = frame_schema(features, message=MESSAGE)
    return write_parquet(
        path,
        (frame_table(c, features, schema, picture_name=_PICTURE_NAME) for c in episodes),
        schema,
        plain=picture_columns(features),
        metadata={"huggingface": json.dumps({"info": {"features": _hf_features(features)}})},
        sync=sync,
    )


def _hf_features(features: Mapping[str, Feature]) -> dict[str, Any]:
    """Return the description by which `datasets` restores the types of a table."""
    return {
        name: _hf_feature(feature) for name, feature in features.items() if not feature.is_video
    }


def _hf_feature(feature: Feature) -> dict[str, Any]:
    if feature.dtype == "image":
        return {"_type": "Image"}
    value = {"dtype": feature.dtype, "_type": "Value"}
    shape = feature.value_shape
    if not shape:
        return value
    if len(shape) == 1:
        return {"feature": value, "length": shape[0], "_type": "List"}
    return {"shape": list(shape), "dtype": feature.dtype, "_type": f"Array{len(shape)}D"}
