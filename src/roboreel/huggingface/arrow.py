"""The frames of a view in the Arrow types of `datasets`, a bounded number at a time."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import datasets
import numpy as np
import pyarrow as pa

from roboreel.dataset import Episode
from roboreel.errors import FeatureNotFoundError
from roboreel.image import encode_png

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.schema import Feature

_BYTES_AT_ONCE = 1 << 22
_PICTURES_LOOKED_AT = 64
_IMAGES_LOOKED_AT = 4


def to_hf_features(view: Dataset, features: Sequence[str] | None = None) -> Any:  # noqa: ANN401
    """Return the `datasets.Features` of what `to_datasets` returns."""
    names = feature_names(view, features)
    return datasets.Features({name: _hf_feature(view.features[name]) for name in names})


def arrow_bytes(view: Dataset, features: Sequence[str] | None = None) -> int:
    """Return about how many bytes the frames of a view take as Arrow, in memory or on disk.

    Numbers are counted exactly. The size of pictures is estimated from a few of them.

    Raises:
        FeatureNotFoundError: A feature does not exist.
    """
    names = feature_names(view, features)
    return round(len(view) * sum(_bytes_of_a_frame(view, name) for name in names))


def feature_names(view: Dataset, features: Sequence[str] | None) -> list[str]:
    """Return the features that are converted: those asked for, or all except video cameras."""
    if features is None:
        return [name for name, feature in view.features.items() if not feature.is_video]
    unknown = [name for name in features if name not in view.features]
    if unknown:
        raise FeatureNotFoundError(
            f"There is no feature {unknown[0]!r}: there are {', '.join(view.features)}, in "
            f"{str(view.path)!r}."
        )
    return list(features)


def frame_parts(view: Dataset, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the frames of a view, in order, in parts of about 4 MB or a frame.

    Yields:
        By name, an array of numbers ``(n, …)`` or texts, or a list of encoded pictures.
    """
    step = max(1, _BYTES_AT_ONCE // max(sum(_most_bytes(view.features[n]) for n in names), 1))
    selection = view.selection
    spans = pairwise(selection.bounds.tolist())
    for place, (start, stop) in zip(selection.filled.tolist(), spans, strict=True):
        episode = Episode(view, place)
        # A video is decoded from its start to its end, however many parts it takes.
        streams = {
            name: episode.stream(name, layout="hwc")
            for name in names
            if view.features[name].is_video
        }
        for first in range(start, stop, step):
            samples = np.arange(first, min(first + step, stop), dtype=np.int64)
            # Not kept in a variable: a part would then stay while the next one is read.
            yield _part(view, names, samples, streams)


def _part(
    view: Dataset,
    names: Sequence[str],
    samples: NDArray[np.int64],
    streams: Mapping[str, Iterator[Any]],
) -> dict[str, Any]:
    plain = [name for name in names if not view.features[name].is_camera]
    values = view.read(samples, plain) if plain else {}
    for name in names:
        if name in streams:
            values[name] = [encode_png(image) for image in islice(streams[name], len(samples))]
        elif name not in values:
            values[name] = view.encoded_images(name, samples)
    return values


def frame_batches(view: Dataset, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Return the frames of a view as Arrow record batches, one after the other: see `frame_parts`."""
    schema = to_hf_features(view, names).arrow_schema

    def to_batch(values: dict[str, Any]) -> pa.RecordBatch:
        arrays = [_arrow_column(view, values, field) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return map(to_batch, frame_parts(view, names))


def _hf_feature(feature: Feature) -> Any:  # noqa: ANN401  # a type of datasets
    if feature.is_camera:
        return datasets.Image()
    shape = feature.value_shape
    if not shape:
        return datasets.Value("string" if feature.kind != "number" else feature.dtype)
    if len(shape) == 1:
        return datasets.Sequence(datasets.Value(feature.dtype), length=shape[0])
    return getattr(datasets, f"Array{len(shape)}D")(shape=shape, dtype=feature.dtype)


def _arrow_column(view: Dataset, values: Mapping[str, Any], field: pa.Field) -> pa.Array:
    feature, column = view.features[field.name], values[field.name]
    if feature.is_camera:
        pictures = _binary(column)
        paths = pa.nulls(len(column), pa.string())
        return pa.StructArray.from_arrays([pictures, paths], ["bytes", "path"]).cast(field.type)
    if feature.kind != "number":
        return pa.array([str(value) for value in column], type=field.type)
    if column.ndim == 1:
        return pa.array(column, type=field.type)
    return _nested(column, field.type)


def _binary(values: Sequence[bytes]) -> pa.Array:
    """Return bytes as an array of exactly their size: `pa.array` leaves a third of it unused."""
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers).cast(pa.binary())


def _nested(values: Any, arrow_type: Any) -> Any:  # noqa: ANN401  # an array of several axes
    """Return an array of several axes as nested lists over one flat buffer."""
    column = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(column, values.shape[1]).cast(arrow_type)
    for size in reversed(values.shape[1:]):
        bounds = np.arange(0, len(column) + 1, size, dtype=np.int32)
        column = pa.ListArray.from_arrays(bounds, column)
    return pa.ExtensionArray.from_storage(arrow_type, column)


def _most_bytes(feature: Feature) -> int:
    size = 1 if feature.is_camera else 8
    return int(np.prod(feature.shape, dtype=np.int64)) * size


def _bytes_of_a_frame(view: Dataset, name: str) -> float:
    feature = view.features[name]
    if feature.kind == "number":
        count = int(np.prod(feature.value_shape, dtype=np.int64))
        return count * np.dtype(feature.numpy_dtype).itemsize
    if not len(view):
        return 0.0
    sizes = _looked_at(view, name)
    return sum(sizes) / len(sizes)


def _looked_at(view: Dataset, name: str) -> list[int]:
    """Return the bytes of a few values, spread over the view."""
    is_video = view.features[name].is_video
    count = min(len(view), _IMAGES_LOOKED_AT if is_video else _PICTURES_LOOKED_AT)
    samples = np.linspace(0, len(view) - 1, count).astype(np.int64)
    if is_video:
        images = view.read(samples, [name], layout="hwc")[name]
        return [len(encode_png(image)) for image in images]
    if view.features[name].is_camera:
        return [len(picture) for picture in view.encoded_images(name, samples)]
    return [len(str(text).encode()) for text in view.read(samples, [name])[name]]
