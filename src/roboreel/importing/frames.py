"""Values of a recording → frames of an episode, a block of rows at a time."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, DatasetError, SourceError
from roboreel.image import decode_image
from roboreel.importing.align import Picked
from roboreel.importing.image_sources import open_images, read_packets
from roboreel.importing.mapping import UNITS
from roboreel.importing.planning import UNKNOWN_TASK
from roboreel.record.encoded import EncodedImage
from roboreel.video.scale import scale_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.importing.image_sources import ImageSource
    from roboreel.importing.mapping import FeatureMap
    from roboreel.importing.plan import ImportPlan, PlannedEpisode, PlannedFeature
    from roboreel.importing.recording import Recording, Values

    Frame = tuple[dict[str, Any], str]
    """The values of a frame, and its task."""

_BLOCK_BYTES = 32 * 1024**2
_MOST_ROWS = 256


def read_frames(recording: Recording, plan: ImportPlan, episode: PlannedEpisode) -> Iterator[Frame]:
    """Yield the frames of an episode, in order. Memory holds a block of them.

    Raises:
        SourceError: Values do not fit what was planned.
        CorruptFileError: The recording is damaged.
    """
    decoders = {
        name: open_images(recording, episode.source, one.mapped.streams[0])
        for name, one in plan.features.items()
        if recording.streams[one.mapped.streams[0]].kind in ("packets", "video")
        and (not one.feature.is_video or name in episode.encoded_again)
    }
    step = block_rows(plan)
    for start in range(0, episode.length, step):
        rows = np.arange(start, min(start + step, episode.length))
        yield from _block(recording, plan, episode, rows, decoders)


def block_rows(plan: ImportPlan) -> int:
    """Return how many rows are read at once, so that a block stays small."""
    sizes = [
        math.prod(feature.shape) * (1 if feature.is_camera else feature.numpy_dtype.itemsize)
        for feature in (planned.feature for planned in plan.features.values())
    ]
    return int(np.clip(_BLOCK_BYTES // (1 + sum(sizes)), 1, _MOST_ROWS))


def _block(
    recording: Recording,
    plan: ImportPlan,
    episode: PlannedEpisode,
    rows: NDArray[np.int64],
    decoders: Mapping[str, ImageSource],
) -> Iterator[Frame]:
    taken = {
        (stream, one.mapped.shift): _taken(episode, stream, rows, one.mapped.shift)
        for one in plan.features.values()
        for stream in one.mapped.streams
    }
    task_stream = plan.mapping.task.stream
    if task_stream is not None:
        taken[task_stream, 0] = _taken(episode, task_stream, rows, 0)
    direct = {s for s in recording.streams if recording.streams[s].kind not in ("packets", "video")}
    read = _read_once(recording, episode, {k: t for k, t in taken.items() if k[0] in direct})
    columns = {}
    for name, one in plan.features.items():
        columns[name] = _column(recording, episode, name, one, taken, read, decoders.get(name))
    if task_stream is None:
        tasks: Sequence[str] = [episode.task or UNKNOWN_TASK] * len(rows)
    else:
        said = read(task_stream, taken[task_stream, 0].first)
        tasks = [str(text).strip() or plan.mapping.task.text or UNKNOWN_TASK for text in said]
    for place in range(len(rows)):
        yield {name: column[place] for name, column in columns.items()}, tasks[place]


def _taken(episode: PlannedEpisode, stream: str, rows: NDArray[np.int64], shift: int) -> Picked:
    """Return what rows take of a stream; past the ends of the episode, its last or first value."""
    last = (episode.length if episode.piece is None else len(episode.piece)) - 1
    moved = (rows + shift).clip(0, last)
    if episode.piece is not None:
        return episode.piece.picked[stream].rows(moved)
    nothing = np.zeros(len(rows), np.int64)
    return Picked(moved, moved, nothing.astype(float), nothing, nothing == 0)


def _read_once(
    recording: Recording, episode: PlannedEpisode, taken: Mapping[tuple[str, int], Picked]
) -> Callable[[str, NDArray[np.int64]], Values]:
    """Read every value that rows take, once, and return a function that picks from them."""
    wanted: dict[str, NDArray[np.int64]] = {}
    for (stream, _), one in taken.items():
        before = wanted.get(stream, np.empty(0, np.int64))
        wanted[stream] = np.unique(np.concatenate([before, one.first, one.second]))
    found = recording.read(episode.source, wanted)

    def pick(stream: str, positions: NDArray[np.int64]) -> Values:
        places = np.searchsorted(wanted[stream], positions)
        values = found[stream]
        if isinstance(values, np.ndarray):
            return values[places]
        return [values[i] for i in places.tolist()]

    return pick


def _column(
    recording: Recording,
    episode: PlannedEpisode,
    name: str,
    one: PlannedFeature,
    taken: Mapping[tuple[str, int], Picked],
    read: Callable[[str, NDArray[np.int64]], Values],
    decoder: ImageSource | None,
) -> Sequence[Any] | NDArray[Any]:
    """Return the values of a feature for a block of rows."""
    stream = recording.streams[one.mapped.streams[0]]
    where = f"in {name!r}, episode {episode.name!r} of {str(recording.path)!r}"
    first = taken[stream.name, one.mapped.shift].first
    if decoder is not None:
        return _changed(decoder.read(first), one.mapped)
    if stream.kind in ("packets", "video"):
        return read_packets(recording, episode.source, stream.name, first)
    if stream.kind == "text":
        return read(stream.name, first)
    if stream.kind == "numbers":
        parts = [_mixed(partial(read, s), taken[s, one.mapped.shift]) for s in one.mapped.streams]
        return _numbers(parts, one)
    values = read(stream.name, first)
    try:
        if stream.kind == "pictures" and not one.mapped.changes_pixels:
            return [EncodedImage(data) for data in values if isinstance(data, bytes)]
        if stream.kind == "pictures":
            values = [decode_image(data) for data in values]  # type: ignore[assignment, arg-type]
    except DatasetError as error:
        raise CorruptFileError(f"{error} {where}.") from error
    if stream.depth_unit is not None and one.mapped.unit == "mm" and stream.dtype != "uint16":
        values = np.asarray(values) * 1e-3
    return _changed(values, one.mapped)


def _mixed(read: Callable[[NDArray[np.int64]], Values], taken: Picked) -> NDArray[Any]:
    """Return numbers, between two values where rows lie between them."""
    first = np.asarray(read(taken.first))
    if not taken.weight.any():
        return first
    second = np.asarray(read(taken.second))
    weight = taken.weight.reshape(-1, *[1] * (first.ndim - 1))
    between = (1 - weight) * first + weight * second
    mixed: NDArray[Any] = np.where(weight > 0, between, first).astype(first.dtype)
    return mixed


def _numbers(parts: Sequence[NDArray[Any]], one: PlannedFeature) -> NDArray[Any]:
    feature, count = one.feature, len(parts[0])
    if len(parts) == 1 and one.positions is None:
        values = parts[0]
    else:
        values = np.concatenate([part.reshape(count, -1) for part in parts], axis=1)
        values = values if one.positions is None else values[:, list(one.positions)]
    if one.mapped.unit is not None:
        values = values * UNITS[one.mapped.unit]
    becomes_whole = feature.numpy_dtype.kind in "iu" and values.dtype.kind == "f"
    is_whole = np.isfinite(values) & (np.rint(values) == values) if becomes_whole else np.True_
    if one.mapped.dtype is not None and not is_whole.all():
        raise SourceError(
            f"{' + '.join(one.mapped.streams)} has fractions, which dtype = {one.mapped.dtype!r} "
            "cannot hold."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        typed = values.astype(feature.numpy_dtype)
    return typed.reshape(count, *feature.value_shape)


def _changed(images: Sequence[Any] | NDArray[Any], mapped: FeatureMap) -> Sequence[Any]:
    """Return images, turned, recoloured and resized as the mapping says."""
    return [_change(np.asarray(image), mapped) for image in images]


def _change(image: NDArray[Any], mapped: FeatureMap) -> NDArray[Any]:
    if mapped.flip in ("vertical", "both"):
        image = image[::-1]
    if mapped.flip in ("horizontal", "both"):
        image = image[:, ::-1]
    if mapped.channels == "bgr" and image.shape[2] == 3:
        image = image[..., ::-1]
    image = np.ascontiguousarray(image)
    return image if mapped.resize is None else scale_picture(image, mapped.resize)
