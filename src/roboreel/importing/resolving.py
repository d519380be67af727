"""Features of the new dataset, from a mapping and the streams of a recording. No value is read."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.mapping import UNITS
from roboreel.importing.plan import PlannedFeature
from roboreel.schema import Depth, Feature
from roboreel.video.encoding import Encoding

if TYPE_CHECKING:
    from roboreel.importing.mapping import FeatureMap
    from roboreel.importing.recording import Recording, Stream

__all__ = ["resolve_feature"]

_MOST_NAMED = 4096


def resolve_feature(recording: Recording, name: str, mapped: FeatureMap) -> PlannedFeature:
    """Return a feature of the new dataset.

    Raises:
        SourceError: A stream is not there, or cannot become this feature.
    """
    streams = [_stream(recording, name, stream) for stream in mapped.streams]
    kinds = {stream.kind for stream in streams}
    if "other" in kinds:
        wrong = next(stream for stream in streams if stream.kind == "other")
        raise SourceError(f"{wrong.name!r} cannot become {name!r}: {wrong.note}")
    if streams[0].is_camera:
        if len(streams) > 1:
            raise SourceError(
                f"{name!r} is a camera: it comes from one stream, not {len(streams)}."
            )
        return _camera(name, mapped, streams[0])
    if kinds == {"text"}:
        return PlannedFeature(Feature("string", (1,)), mapped, "kept")
    if kinds != {"numbers"}:
        raise SourceError(f"{name!r} joins streams of {' and '.join(sorted(kinds))}: give numbers.")
    return _numbers(name, mapped, streams)


def _stream(recording: Recording, feature: str, name: str) -> Stream:
    try:
        return recording.stream(name)
    except SourceError as error:
        parts = [n for n in recording.streams if n.partition(":")[0] == name]
        hint = (
            f" It has the fields {', '.join(n.partition(':')[2] for n in parts)}." if parts else ""
        )
        raise SourceError(f"The feature {feature!r}: {error}{hint}") from error


def _numbers(name: str, mapped: FeatureMap, streams: list[Stream]) -> PlannedFeature:
    for wrong in ("flip", "resize", "store"):
        if getattr(mapped, wrong) is not None:
            raise SourceError(f"{name!r} has {wrong}, which is for cameras: it is numbers.")
    dtype = np.result_type(*(stream.dtype for stream in streams))
    if mapped.unit is not None:
        if mapped.unit not in UNITS:
            raise SourceError(f"{name!r} is already in {mapped.unit!r}: leave the unit out.")
        dtype = dtype if dtype.kind == "f" else np.dtype(np.float32)
    if mapped.dtype is not None:
        dtype = Feature(mapped.dtype, (1,)).numpy_dtype
    positions, names = _elements(name, mapped, streams)
    shape = streams[0].shape or (1,)
    if len(streams) > 1 or positions is not None:
        count = sum(math.prod(stream.shape) for stream in streams)
        shape = (count if positions is None else len(positions),)
    feature = Feature(dtype.name, shape, names=names if len(shape) == 1 else None)
    said = [f"joined from {len(streams)}"] if len(streams) > 1 else []
    said += [f"{mapped.unit} converted"] if mapped.unit else []
    said += [f"{mapped.shift} frames later"] if mapped.shift else []
    changed = mapped.dtype is not None and any(s.dtype != dtype.name for s in streams)
    said += [f"as {dtype.name}"] if changed else []
    return PlannedFeature(feature, mapped, ", ".join(said) or "kept", positions)


def _elements(
    name: str, mapped: FeatureMap, streams: list[Stream]
) -> tuple[tuple[int, ...] | None, tuple[str, ...] | None]:
    """Return positions and names of the elements that are taken."""
    known: list[str] = []
    for stream in streams:
        size = math.prod(stream.shape)
        if stream.names is not None and len(stream.names) == size:
            known += stream.names
        elif size <= _MOST_NAMED:
            short = stream.name.rsplit("/", 1)[-1]
            known += [short] if size == 1 else [f"{short}_{i}" for i in range(size)]
    total = sum(math.prod(stream.shape) for stream in streams)
    named = len(known) == total and (
        len(streams) > 1 or mapped.elements is not None or streams[0].names is not None
    )
    if mapped.elements is None:
        return None, tuple(known) if named else None
    positions = []
    for element in mapped.elements:
        place = element if isinstance(element, int) else _place(element, known)
        if isinstance(element, bool) or place is None or not 0 <= place < total:
            listed = ", ".join(known[:20]) or f"0 to {total - 1}"
            raise SourceError(f"{name!r} has no element {element!r}: there are {listed}.")
        positions.append(place)
    return tuple(positions), tuple(known[i] for i in positions) if named else None


def _place(element: object, known: list[str]) -> int | None:
    return known.index(element) if isinstance(element, str) and element in known else None


def _camera(name: str, mapped: FeatureMap, stream: Stream) -> PlannedFeature:
    if mapped.elements is not None or mapped.dtype is not None:
        raise SourceError(f"{name!r} is a camera: it has no elements and no dtype.")
    height, width, channels = stream.shape
    height, width = mapped.resize or (height, width)
    depth = _depth(name, mapped, stream)
    store, how = _storage(mapped, stream, is_depth=depth is not None)
    feature = Feature(store, (height, width, channels), depth=depth)
    encoding = None
    if store == "video" and depth is None:
        if channels != 3:
            raise SourceError(
                f"{name!r} has {channels} channels, and video has 3: store = 'image'."
            )
        codec = stream.codec if stream.codec in ("h264", "hevc", "av1") else "av1"
        encoding = Encoding(codec)  # type: ignore[arg-type]  # it is one of the three
    return PlannedFeature(feature, mapped, how, encoding=encoding)


def _storage(mapped: FeatureMap, stream: Stream, *, is_depth: bool) -> tuple[str, str]:
    """Return how a camera is stored, and what becomes of its images, in words."""
    kept = not mapped.changes_pixels
    if stream.kind == "pictures":
        store = mapped.store or ("image" if kept or is_depth else "video")
        if kept and store == "image":
            return store, f"{stream.source_type or 'pictures'} kept byte for byte"
        return store, "decoded, stored as PNG" if store == "image" else "encoded as video"
    if stream.kind == "images":
        plain = stream.shape[2] == 3 and not is_depth
        store = mapped.store or ("video" if plain else "image")
        lossless = (
            "stored as PNG" if not is_depth or stream.depth_unit == "mm" else "stored as TIFF"
        )
        return store, lossless if store == "image" else "encoded as video"
    store = mapped.store or "video"
    if store == "image":
        return store, "decoded, stored as PNG"
    codec = stream.codec or "video"
    return store, f"{codec} packets kept" if kept else f"{codec} encoded again"


def _depth(name: str, mapped: FeatureMap, stream: Stream) -> Depth | None:
    unit = mapped.unit or stream.depth_unit
    if unit is None:
        return None
    if stream.depth_unit is None or unit not in ("mm", "m"):
        raise SourceError(f"{name!r} has unit {unit!r}: that is for numbers and for depth (mm, m).")
    if stream.dtype == "uint16" and unit != "mm":
        raise SourceError(
            f"{name!r} is depth in whole numbers, which count millimetres, not {unit}."
        )
    if mapped.resize is not None or mapped.channels != "rgb":
        raise SourceError(f"{name!r} is depth: it is neither resized nor recoloured.")
    return replace(Depth(), unit="mm" if stream.dtype == "uint16" else "m")
