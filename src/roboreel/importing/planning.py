"""From a recording and a mapping to a plan."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.defaults import default_map, unmapped_streams
from roboreel.importing.image_sources import remux_problem
from roboreel.importing.mapping import UNITS
from roboreel.importing.plan import ImportPlan, PlannedEpisode, PlannedFeature
from roboreel.importing.rates import bounded_rate
from roboreel.importing.rlds import LAST_NOTE
from roboreel.importing.timing import derived_rate, timed_pieces
from roboreel.schema import Depth, Feature
from roboreel.video.encoding import CODECS, Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.importing.align import Piece
    from roboreel.importing.mapping import FeatureMap, ImportMap
    from roboreel.importing.recording import Recording, SourceEpisode, Stream


UNKNOWN_TASK = "unknown"
"""The task of frames for which neither the recording nor anybody else gives one."""


def plan_import(recording: Recording, mapping: ImportMap | None = None) -> ImportPlan:
    """Return what importing a recording makes. Nothing is written, and few values are read.

    Args:
        recording: The recording, open.
        mapping: Which feature comes from which stream; None to go by layout and names.

    Raises:
        SourceError: The recording does not fit the mapping, or its rate is not known.
    """
    mapping = default_map(recording) if mapping is None else mapping
    features = {n: resolve_feature(recording, n, one) for n, one in mapping.features.items()}
    if mapping.task.stream is not None and recording.stream(mapping.task.stream).kind != "text":
        raise SourceError(f"The task comes from {mapping.task.stream!r}, which is not text.")
    fps, reason = _rate(recording, mapping)
    mapping = replace(mapping, fps=fps)
    episodes, notes = _episodes(recording, mapping, features, fps)
    if not any(episode.length for episode in episodes):
        said = f" {notes[-1]}" if notes else ""
        raise SourceError(f"No episode would have a frame.{said} In {str(recording.path)!r}.")
    return ImportPlan(
        recording.path,
        recording.layout,
        fps,
        reason,
        mapping,
        features,
        tuple(episodes),
        unmapped_streams(recording, mapping),
        {name: _describe(recording, name) for name in recording.streams},
        (*_notes(recording, mapping, episodes), *notes),
    )


def _rate(recording: Recording, mapping: ImportMap) -> tuple[float, str]:
    if mapping.fps is not None:
        return mapping.fps, "as asked"
    if recording.fps is not None:
        return recording.fps, recording.fps_reason
    derived = derived_rate(recording, mapping) if recording.timed else None
    if derived is None:
        raise SourceError(
            "The recording does not say how many frames there are in a second: give --fps (fps=…): "
            f"{str(recording.path)!r}."
        )
    return derived


def _episodes(
    recording: Recording,
    mapping: ImportMap,
    features: Mapping[str, PlannedFeature],
    fps: float,
) -> tuple[list[PlannedEpisode], list[str]]:
    if not recording.timed and mapping.episodes.by != "file":
        raise SourceError(
            f"[episodes] by = {mapping.episodes.by!r} needs a recording with times, and "
            f"{recording.layout} has steps: {str(recording.path)!r}."
        )
    planned: list[PlannedEpisode] = []
    notes: list[str] = []
    for number, source in enumerate(recording.episodes):
        pieces: dict[str, Piece | None] = {source.name: None}
        if recording.timed:
            pieces, problems = timed_pieces(recording, mapping, number, fps)
            notes += problems
        for name, piece in pieces.items():
            length = source.length or 0 if piece is None else len(piece)
            if length <= mapping.drop_last:
                noun = "steps" if piece is None else "frames"
                notes.append(f"{name}: it has {length} {noun}, and was left out.")
                continue
            kept, task = length - mapping.drop_last, _task(mapping, source)
            episode = PlannedEpisode(name, number, kept, task, dict(source.metadata), piece)
            planned.append(_with_remux(recording, features, episode))
    return planned, notes


def _task(mapping: ImportMap, source: SourceEpisode) -> str | None:
    """Return the task of a whole episode; None if a stream holds it."""
    if mapping.task.stream is not None:
        return None
    return source.task or mapping.task.text or UNKNOWN_TASK


def _with_remux(
    recording: Recording, features: Mapping[str, PlannedFeature], episode: PlannedEpisode
) -> PlannedEpisode:
    """Return an episode that knows of which cameras the packets cannot be kept."""
    again = {}
    for name, one in features.items():
        stream = recording.streams[one.mapped.streams[0]]
        if stream.kind not in ("packets", "video") or not one.feature.is_video:
            continue
        if one.mapped.changes_pixels:
            again[name] = "its images are changed"
            continue
        positions = np.arange(episode.length)
        if episode.piece is not None:
            positions = episode.piece.picked[stream.name].first[: episode.length]
        problem = remux_problem(recording, episode.source, stream.name, positions)
        if problem:
            again[name] = problem
    return replace(episode, encoded_again=again) if again else episode


def _describe(recording: Recording, name: str) -> dict[str, Any]:
    """Return what is known of a stream, as plain values."""
    stream = recording.streams[name]
    described: dict[str, Any] = {
        "kind": stream.kind,
        "dtype": stream.dtype,
        "shape": list(stream.shape),
        "type": stream.source_type,
        "values": sum(recording.count(i, name) for i in range(len(recording.episodes))),
    }
    if recording.timed and recording.episodes:
        times = recording.times(0, name)
        steps = np.diff(np.sort(times))
        described["rate_hz"] = bounded_rate(times)
        described["largest_gap_ms"] = float(steps.max()) / 1e6 if len(steps) else None
        described["clocks"] = list(stream.clocks)
    if stream.note:
        described["note"] = stream.note
    return described


def _notes(recording: Recording, mapping: ImportMap, episodes: list[PlannedEpisode]) -> list[str]:
    used = {name for one in mapping.features.values() for name in one.streams}
    notes = list(recording.remarks)
    for name in sorted(used):
        note = recording.streams[name].note
        if note == LAST_NOTE:
            note += "" if mapping.drop_last else " --drop-last leaves that frame out."
        notes += [f"{name}: {note}"] if note else []
    if any(episode.task == UNKNOWN_TASK for episode in episodes):
        notes.append(
            f"The recording has no task in words: {UNKNOWN_TASK!r} is written. Give one with --task."
        )
    return notes


# Features of the new dataset, from a mapping and the streams of a recording. No value is read.

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
        place = known.index(element) if element in known else element
        if not isinstance(place, int) or isinstance(element, bool) or not 0 <= place < total:
            listed = ", ".join(known[:20]) or f"0 to {total - 1}"
            raise SourceError(f"{name!r} has no element {element!r}: there are {listed}.")
        positions.append(place)
    return tuple(positions), tuple(known[i] for i in positions) if named else None


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
        codec = stream.codec if stream.codec in CODECS else "av1"
        encoding = Encoding(codec)
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
