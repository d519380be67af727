"""Arrays as chunks, built in Arrow: Rerun's own conversions take most of an export's time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import rerun as rr
from rerun.chunk import Chunk

from roboreel.errors import DatasetError
from roboreel.storage.arrow_types import numpy_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = [
    "Column",
    "Component",
    "Piece",
    "Times",
    "blobs",
    "chunks_of",
    "make_piece",
    "numbers",
    "tensors",
    "values",
]


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


class Times:
    """The timelines of an episode.

    Args:
        frame_index: Numbers of the frames, ``(T,)``.
        timestamp: Seconds, ``(T,)``. Left out where one of them is no number, or no time.
    """

    def __init__(self, frame_index: NDArray[np.int64], timestamp: NDArray[Any]) -> None:
        self._ticks = {"frame_index": np.ascontiguousarray(frame_index, np.int64)}
        seconds = timestamp.astype(np.float64)
        if (np.abs(seconds) < _MOST_SECONDS).all():
            self._ticks["timestamp"] = np.rint(seconds * 1e9).astype(np.int64)
        self._all = {name: _indexes(name, ticks) for name, ticks in self._ticks.items()}

    def at(self, frames: NDArray[np.int64] | None = None) -> dict[str, Any]:
        """Return the times of some frames, ascending, or of all, as Arrow arrays by timeline."""
        if frames is None:
            return self._all
        count = len(frames)
        first = int(frames[0]) if count else 0
        if count and int(frames[-1]) - first == count - 1:
            return {name: array.slice(first, count) for name, array in self._all.items()}
        return {name: _indexes(name, ticks[frames]) for name, ticks in self._ticks.items()}


# Beyond, nanoseconds do not fit in 64 bits.
_MOST_SECONDS = 9e9
_TIMELINES = {"frame_index": pa.int64(), "timestamp": pa.duration("ns")}


def _indexes(name: str, ticks: NDArray[np.int64]) -> Any:  # noqa: ANN401  # pyarrow is untyped
    return _flat(_TIMELINES[name], ticks)


@dataclass(frozen=True, slots=True)
class Piece:
    """What goes to Rerun at once."""

    chunks: list[Chunk]
    """One for each entity."""
    size_bytes: int


def chunks_of(pieces: Iterable[Piece]) -> Iterator[Chunk]:
    """Yield the chunks of pieces, one after another, as they are made."""
    return (chunk for piece in pieces for chunk in piece.chunks)


def make_piece(columns: Sequence[Column], times: dict[str, Any] | None = None) -> Piece:
    """Return columns as chunks.

    Args:
        columns: What to show; several of one entity have as many rows.
        times: When, as `Times.at` gives it; None for what holds at all times.
    """
    at = times or {}
    schema = _schema(tuple(at), tuple((column.path, column.component) for column in columns))
    arrays = [*at.values(), *(column.rows for column in columns)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    # Without times a batch must say that it has none on purpose.
    chunks = Chunk.from_record_batch(batch) if at else Chunk.from_record_batch(batch, index=None)
    return Piece(chunks, batch.nbytes)


@lru_cache(maxsize=256)
def _schema(timelines: tuple[str, ...], columns: tuple[tuple[str, Component], ...]) -> Any:  # noqa: ANN401
    """Return the Arrow schema of a batch; the same ones come with every episode."""
    indexes = [
        pa.field(name, _TIMELINES[name], metadata={"rerun:kind": "index", "rerun:index_name": name})
        for name in timelines
    ]
    return pa.schema([*indexes, *(_field(path, component) for path, component in columns)])


def _field(path: str, component: Component) -> Any:  # noqa: ANN401
    metadata = {
        "rerun:kind": "data",
        "rerun:entity_path": path,
        "rerun:component": component.name,
        "rerun:archetype": component.archetype,
        "rerun:component_type": component.kind,
    }
    return pa.field(
        f"{path}:{component.name}",
        pa.list_(component.type),
        metadata={key: value for key, value in metadata.items() if value is not None},
    )


def values(component: Component, items: Any, *, per_row: int = 1) -> Any:  # noqa: ANN401
    """Return rows of equally many values each.

    Args:
        component: What they are.
        items: A sequence or an Arrow array.
        per_row: How many make a row.
    """
    flat = items if isinstance(items, pa.Array) else pa.array(items, component.type)
    count = len(flat) // per_row if per_row else 0
    return _lists(pa.list_(component.type), _even_offsets(count, per_row), flat)


def numbers(component: Component, array: NDArray[Any]) -> Any:  # noqa: ANN401
    """Return rows of the numbers ``(T,)`` or ``(T, D)``."""
    flat = np.ascontiguousarray(array, dtype=numpy_type(component.type)).reshape(-1)
    return values(
        component, _flat(component.type, flat), per_row=array.shape[1] if array.ndim > 1 else 1
    )


def blobs(component: Component, items: Sequence[bytes]) -> Any:  # noqa: ANN401
    """Return rows of one byte string each."""
    offsets = np.fromiter(accumulate(map(len, items), initial=0), np.int32, len(items) + 1)
    joined = pa.py_buffer(b"".join(items))
    flat = pa.Array.from_buffers(pa.uint8(), joined.size, [None, joined])
    return values(component, _lists(component.type, offsets, flat))


def _flat(kind: Any, array: NDArray[Any]) -> Any:  # noqa: ANN401
    """Return contiguous numbers as an Arrow array that shares their memory."""
    assert array.itemsize * 8 == kind.bit_width
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)])


def _lists(kind: Any, offsets: NDArray[np.int32], flat: Any) -> Any:  # noqa: ANN401
    """Return the lists that begin and end at offsets."""
    buffers = [None, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, children=[flat])


def _even_offsets(count: int, length: int) -> NDArray[np.int32]:
    if count * length > np.iinfo(np.int32).max:
        raise DatasetError(
            f"{count:,} frames of {length:,} values each are more than Rerun takes at once. Leave "
            "the episode out with select()."
        )
    return np.arange(count + 1, dtype=np.int32) * np.int32(length)


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
    items = _flat(kind.value_type, np.ascontiguousarray(flat))
    return _lists(kind, _even_offsets(count, len(flat) // count if count else 0), items)


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
