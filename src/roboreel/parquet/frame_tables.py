"""Frames as Arrow tables, in the types that Hugging Face's `datasets` gives to arrays and images."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.schema import Feature


_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_MOST_IN_A_GROUP = 2**31 - 1


def frame_schema(features: Mapping[str, Feature], *, message: Mapping[str, str]) -> pa.Schema:
    """Return the schema of a data file; cameras stored as video have no column.

    Args:
        features: The dataset's features.
        message: What a message of a language feature has: Arrow's names of types, by field.
    """
    stored = {name: f for name, f in features.items() if not f.is_video}
    return pa.schema([_field(name, feature, message) for name, feature in stored.items()])


def frame_table(
    columns: Mapping[str, NDArray[Any] | Sequence[Any]],
    features: Mapping[str, Feature],
    schema: pa.Schema,
    *,
    picture_name: str,
    texts: Sequence[str] = (),
) -> pa.Table:
    """Return a table of frames.

    Args:
        columns: One entry per stored feature: numbers as ``(T, …)``, texts as a sequence, images as
            a sequence of encoded pictures.
        features: The dataset's features.
        schema: Their schema.
        picture_name: What pictures are called, a template over the number of the frame.
        texts: Further columns, of texts, that are no features.

    Raises:
        DatasetError: Values have another shape than declared, or are too many for a row group.
    """
    arrays = [
        _arrow_array(field, columns[field.name], features[field.name], picture_name)
        for field in schema
    ]
    arrays += [pa.array(columns[name], pa.string()) for name in texts]
    return pa.Table.from_arrays(arrays, names=[*schema.names, *texts])


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables of the same columns as one; nothing is copied."""
    return pa.concat_tables(tables)


def picture_columns(features: Mapping[str, Feature]) -> list[str]:
    """Return the leaf columns that hold encoded pictures."""
    return [f"{name}.bytes" for name, feature in features.items() if feature.dtype == "image"]


def _field(name: str, feature: Feature, message: Mapping[str, str]) -> pa.Field:
    shape = feature.value_shape
    if feature.kind != "number" or not 2 <= len(shape) <= 5:
        return pa.field(name, _arrow_type(feature, message))
    # `datasets` knows its array types by these; for everybody else they are nested lists.
    metadata = {
        "ARROW:extension:name": f"datasets.features.features.Array{len(shape)}DExtensionType",
        "ARROW:extension:metadata": json.dumps([list(shape), feature.dtype]),
    }
    return pa.field(name, _arrow_type(feature, message), metadata=metadata)


def _arrow_type(feature: Feature, message: Mapping[str, str]) -> pa.DataType:
    if feature.dtype == "image":
        return _IMAGE
    if feature.kind == "language":
        fields = [(name, pa.type_for_alias(alias)) for name, alias in message.items()]
        return pa.list_(pa.struct(fields))
    element = pa.string() if feature.kind == "text" else pa.from_numpy_dtype(feature.numpy_dtype)
    shape = feature.value_shape
    if not shape:
        return element
    if len(shape) == 1:
        return pa.list_(element, shape[0])
    for _ in shape:
        element = pa.list_(element)
    return element


def _arrow_array(
    field: pa.Field, values: NDArray[Any] | Sequence[Any], feature: Feature, picture_name: str
) -> pa.Array:
    if feature.dtype == "image":
        return _pictures(field.name, values, picture_name)
    if feature.kind != "number":
        return pa.array(list(values), field.type)
    return _numbers(field.name, values, feature)


def _pictures(name: str, values: NDArray[Any] | Sequence[Any], picture_name: str) -> pa.Array:
    if sum(map(len, values)) > _MOST_IN_A_GROUP:
        raise DatasetError(
            f"The pictures of {name!r} take more than 2 GiB in one episode: save shorter ones."
        )
    names = [picture_name.format(row) for row in range(len(values))]
    return pa.StructArray.from_arrays(
        [pa.array(values, pa.binary()), pa.array(names, pa.string())], fields=list(_IMAGE)
    )


def _numbers(name: str, values: NDArray[Any] | Sequence[Any], feature: Feature) -> pa.Array:
    array = np.asarray(values, dtype=feature.numpy_dtype)
    if array.shape[1:] != feature.value_shape and array.shape[1:] != feature.shape:
        raise DatasetError(
            f"{name!r} has values of shape {array.shape[1:]}: {feature.shape} is declared."
        )
    if array.size > _MOST_IN_A_GROUP:
        raise DatasetError(
            f"{name!r} has {array.size:,} elements in one episode: at most {_MOST_IN_A_GROUP:,} "
            "fit into a row group. Save shorter episodes."
        )
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    shape = feature.value_shape
    if len(shape) == 1:
        return pa.FixedSizeListArray.from_arrays(flat, shape[0])
    for size in reversed(shape):
        count = len(flat) // size if size else len(array)
        offsets = np.arange(count + 1, dtype=np.int32) * size
        flat = pa.ListArray.from_arrays(pa.array(offsets), flat)
    return flat
