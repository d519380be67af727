"""From a recording and a mapping to a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.defaults import default_map, unmapped_streams
from roboreel.importing.image_sources import remux_problem
from roboreel.importing.plan import ImportPlan, PlannedEpisode
from roboreel.importing.rates import bounded_rate
from roboreel.importing.resolving import resolve_feature
from roboreel.importing.rlds import LAST_NOTE
from roboreel.importing.timing import derived_rate, stream_policies, timed_episodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.importing.align import Piece
    from roboreel.importing.mapping import ImportMap
    from roboreel.importing.plan import PlannedFeature
    from roboreel.importing.recording import Recording, SourceEpisode

__all__ = ["UNKNOWN_TASK", "plan_import"]

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
    if recording.timed:
        return _timed(recording, mapping, features, fps)
    if mapping.episodes.by != "file":
        raise SourceError(
            f"[episodes] by = {mapping.episodes.by!r} needs a recording with times, and "
            f"{recording.layout} has steps: {str(recording.path)!r}."
        )
    planned, notes = [], []
    for number, source in enumerate(recording.episodes):
        length = (source.length or 0) - mapping.drop_last
        if length <= 0:
            notes.append(f"{source.name}: it has {source.length} steps, and was left out.")
            continue
        episode = PlannedEpisode(
            source.name, number, length, _task(mapping, source), dict(source.metadata)
        )
        planned.append(_with_remux(recording, features, episode))
    return planned, notes


def _timed(
    recording: Recording,
    mapping: ImportMap,
    features: Mapping[str, PlannedFeature],
    fps: float,
) -> tuple[list[PlannedEpisode], list[str]]:
    stream_policies(recording, mapping)
    planned, notes = [], []
    for number, source in enumerate(recording.episodes):
        found, said = timed_episodes(recording, mapping, number, fps)
        notes += said
        for one in found:
            length = len(one.piece) - mapping.drop_last
            if length <= 0:
                notes.append(f"{one.name}: it has {len(one.piece)} frames, and was left out.")
                continue
            episode = PlannedEpisode(
                one.name,
                number,
                length,
                _task(mapping, source),
                dict(source.metadata),
                one.piece,
            )
            planned.append(_with_remux(recording, features, episode))
    return planned, notes


def _task(mapping: ImportMap, source: SourceEpisode) -> str | None:
    """Return the task of a whole episode; None if a stream tells it."""
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
        if stream.kind not in ("packets", "video") or one.feature.dtype != "video":
            continue
        if one.mapped.changes_pixels:
            again[name] = "its images are changed"
            continue
        positions = _positions(episode.piece, stream.name, episode.length)
        problem = remux_problem(recording, episode.source, stream.name, positions)
        if problem:
            again[name] = problem
    return replace(episode, encoded_again=again) if again else episode


def _positions(piece: Piece | None, stream: str, length: int) -> NDArray[np.int64]:
    return np.arange(length) if piece is None else piece.picked[stream].first[:length]


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
