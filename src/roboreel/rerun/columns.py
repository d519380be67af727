"""Arrays as columns of components, built in Arrow: Rerun's own conversions take much longer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import rerun as rr

from roboreel.errors import DatasetError
from roboreel.storage.arrow_types import numpy_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "ENCODED",
    "POOL",
    "Column",
    "Component",
    "blobs",
    "flat_array",
    "numbers",
    "row",
    "tensors",
    "values",
]

POOL = pa.system_memory_pool()
"""Where buffers go that are written at once: Arrow's own allocator takes memory in huge pages, more
of them for every new size, and keeps them."""
# Beyond, offsets do not fit in 32 bits.
_MOST_VALUES = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """What Rerun calls a value of some kind, and the Arrow type it wants; made once for each."""

    name: str
    archetype: str | None = None
    kind: str | None = None
    type: Any = None

    @classmethod
    def of(cls, example: Any) -> Component:  # noqa: ANN401  # rerun is untyped to us
        """Return the component of which a list of columns has an example."""
        (column,) = example
        described = column.descriptor
        kind = column.as_arrow_array().type.value_type
        return cls(described.component, described.archetype, described.component_type, kind)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one component of one entity, a list for each row."""

    path: str
    component: Component
    rows: Any
    """An Arrow list array of the component's type."""


def row(component: Component, items: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return one row of some values."""
    return pa.array([items], pa.list_(component.type), memory_pool=POOL)


def values(component: Component, items: Any, *, per_row: int = 1) -> Any:  # noqa: ANN401
    """Return rows of equally many values each.

    Args:
        component: What they are.
        items: A sequence or an Arrow array.
        per_row: How many make a row.
    """
    flat = (
        items if isinstance(items, pa.Array) else pa.array(items, component.type, memory_pool=POOL)
    )
    count = len(flat) // per_row if per_row else 0
    return _lists(pa.list_(component.type), count, _even_offsets(count, per_row), flat)


def numbers(component: Component, array: NDArray[Any]) -> Any:  # noqa: ANN401
    """Return rows of the numbers ``(T,)`` or ``(T, D)``."""
    flat = np.ascontiguousarray(array, dtype=numpy_type(component.type)).reshape(-1)
    return values(
        component, flat_array(component.type, flat), per_row=array.shape[1] if array.ndim > 1 else 1
    )


def blobs(component: Component, items: Sequence[bytes | memoryview]) -> Any:  # noqa: ANN401
    """Return rows of one byte string each."""
    bounds = np.fromiter(accumulate(map(len, items), initial=0), np.int64, len(items) + 1)
    if bounds[-1] > _MOST_VALUES:
        raise DatasetError(
            f"{len(items):,} images of {bounds[-1]:,} bytes together are more than Rerun takes at "
            "once. Leave the episode out with select()."
        )
    data, offsets = pa.py_buffer(b"".join(items)), pa.py_buffer(bounds.astype(np.int32))
    flat = pa.Array.from_buffers(pa.uint8(), data.size, [None, data])
    return values(component, _lists(component.type, len(items), offsets, flat))


def flat_array(kind: Any, array: NDArray[Any]) -> Any:  # noqa: ANN401
    """Return contiguous numbers as an Arrow array that shares their memory."""
    assert array.itemsize * 8 == kind.bit_width
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)])


def _lists(kind: Any, count: int, offsets: Any, flat: Any) -> Any:  # noqa: ANN401
    """Return the lists that begin and end at offsets."""
    return pa.Array.from_buffers(kind, count, [None, offsets], children=[flat])


@lru_cache(maxsize=8)
def _even_offsets(count: int, length: int) -> Any:  # noqa: ANN401
    """Return the offsets of lists of one length; the features of an episode have the same."""
    if count * length > _MOST_VALUES:
        raise DatasetError(
            f"{count:,} frames of {length:,} values each are more than Rerun takes at once. Leave "
            "the episode out with select()."
        )
    return pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(length))


# The members of Rerun's union of tensor buffers, in its order; the first stands for null.
_TENSOR_TYPES = (
    None,
    *(np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.int8, np.int16, np.int32, np.int64),
    *(np.float16, np.float32, np.float64),
)


def tensors(component: Component, array: NDArray[Any]) -> Any:  # noqa: ANN401
    """Return rows of one tensor each, of arrays ``(T, …)`` in their own type."""
    array = array.astype(np.uint8) if array.dtype == np.bool_ else array
    count, kind = len(array), component.type
    union, member = kind.field("buffer").type, _TENSOR_TYPES.index(array.dtype.type)
    children = [pa.array([], union.field(place).type) for place in range(union.num_fields)]
    children[member] = _even_lists(array.reshape(-1), count, union.field(member).type)
    members, places = np.full(count, member, np.int8), np.arange(count, dtype=np.int32)
    buffers = pa.UnionArray.from_buffers(
        union, count, [None, pa.py_buffer(members), pa.py_buffer(places)], children=children
    )
    shapes = _even_lists(
        np.tile(np.array(array.shape[1:], np.uint64), count), count, kind.field("shape").type
    )
    names = pa.nulls(count, kind.field("names").type)
    fields = list(kind)
    return values(component, pa.StructArray.from_arrays([shapes, names, buffers], fields=fields))


def _even_lists(flat: NDArray[Any], count: int, kind: Any) -> Any:  # noqa: ANN401
    """Return numbers as ``count`` lists of equal length."""
    items = flat_array(kind.value_type, np.ascontiguousarray(flat))
    offsets = _even_offsets(count, len(flat) // count if count else 0)
    return _lists(kind, count, offsets, items)


SCALARS = Component.of(rr.Scalars.columns(scalars=[0.0]))
SERIES_NAMES = Component.of(rr.SeriesLines.columns(names=[""]))
TEXT = Component.of(rr.TextDocument.columns(text=[""]))
TENSOR = Component.of(rr.Tensor.columns(data=np.zeros((1, 1))))
IMAGE = Component.of(rr.EncodedImage.columns(blob=[b"0"]))
DEPTH_IMAGE = Component.of(rr.EncodedDepthImage.columns(blob=[b"0"]))
DEPTH_METER = Component.of(rr.EncodedDepthImage.columns(meter=[1.0]))
VIDEO_CODEC = Component.of(rr.VideoStream.columns(codec=[rr.VideoCodec.AV1]))
VIDEO_SAMPLE = Component.of(rr.VideoStream.columns(sample=[b"0"]))
VIDEO_KEYFRAME = Component.of(rr.VideoStream.columns(is_keyframe=[True]))
ASSET_VIDEO = Component.of(rr.AssetVideo.columns(blob=[b"0"]))
ASSET_TYPE = Component.of(rr.AssetVideo.columns(media_type=["video/mp4"]))
VIDEO_TIME = Component.of(rr.VideoFrameReference.columns_nanos([0]))
RECORDING_NAME = Component.of(rr.archetypes.RecordingInfo.columns(name=[""]))
ENCODED = frozenset([IMAGE, DEPTH_IMAGE, VIDEO_SAMPLE, ASSET_VIDEO])
"""Components whose bytes are compressed already."""
