"""What importing a recording makes, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roboreel.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.importing.align import Piece
    from roboreel.importing.mapping import FeatureMap, ImportMap
    from roboreel.schema import Feature
    from roboreel.video.encoding import Encoding

_MOST_LINES = 12


@dataclass(frozen=True, slots=True)
class PlannedFeature:
    """A feature of the new dataset, and where it comes from."""

    feature: Feature
    mapped: FeatureMap
    how: str
    """What becomes of the values, in words: ``JPEG kept``, ``packets kept``, ``encoded``."""
    positions: tuple[int, ...] | None = None
    """Which elements of the flat value are taken; None for all."""
    encoding: Encoding | None = None
    """How video is encoded, where it is."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedEpisode:
    """An episode of the new dataset."""

    name: str
    """Unique in the recording: the source's name, and ``/1`` and so on for parts of it."""
    source: int
    """Position of the source episode in the recording."""
    length: int
    task: str | None
    """For the whole episode; None if a stream holds it."""
    metadata: Mapping[str, Any]
    piece: Piece | None = None
    """Which values the rows take, in a recording that is timed."""
    encoded_again: Mapping[str, str] = field(default_factory=dict)
    """Why the packets of a feature cannot be kept, by feature."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportPlan:
    """What importing a recording makes. Nothing is written yet."""

    path: Path
    layout: str
    fps: float
    fps_reason: str
    mapping: ImportMap
    features: Mapping[str, PlannedFeature]
    episodes: tuple[PlannedEpisode, ...]
    unmapped: Mapping[str, str]
    """By stream, why it is not mapped."""
    streams: Mapping[str, Mapping[str, Any]]
    """What is known of each stream, as plain values."""
    notes: tuple[str, ...] = ()
    """Sentences about what is peculiar, assumed, held or dropped."""

    @property
    def num_frames(self) -> int:
        """Frames of all episodes together."""
        return sum(episode.length for episode in self.episodes)

    def lines(self) -> list[str]:
        """Return the plan for people."""
        count = len(self.episodes)
        head = (
            f"{self.layout}: {count:,} {'episode' if count == 1 else 'episodes'}, "
            f"{self.num_frames:,} frames at {self.fps:g} fps ({self.fps_reason})"
        )
        lines = [head, "Features:"]
        for name, one in self.features.items():
            shape = "x".join(map(str, one.feature.shape))
            source = " + ".join(one.mapped.streams)
            lines.append(f"  {name}: {one.feature.dtype} {shape} from {source}, {one.how}")
        if self.unmapped:
            lines.append("Not mapped:")
            lines += [f"  {name}: {why}" for name, why in self.unmapped.items()]
        lines += self._episode_lines()
        return [readable(line) for line in [*lines, *self.notes]]

    def _episode_lines(self) -> list[str]:
        lines = []
        for episode in self.episodes:
            said = _used(episode, 0.5e9 / self.fps)
            if said:
                lines.append(f"  {episode.name}: {episode.length:,} frames, {said}")
        more = len(lines) - _MOST_LINES
        shown = lines[:_MOST_LINES] + ([f"  and {more:,} more"] if more > 0 else [])
        return ["Episodes:", *shown] if shown else []

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        from roboreel.importing.mapping_file import map_to_json

        return {
            "source": str(self.path),
            "layout": self.layout,
            "fps": self.fps,
            "fps_reason": self.fps_reason,
            "frames": self.num_frames,
            "streams": self.streams,
            "features": {
                name: {
                    "dtype": one.feature.dtype,
                    "shape": list(one.feature.shape),
                    "streams": list(one.mapped.streams),
                    "how": one.how,
                }
                for name, one in self.features.items()
            },
            "unmapped": dict(self.unmapped),
            "episodes": [describe_episode(episode) for episode in self.episodes],
            "notes": list(self.notes),
            "mapping": map_to_json(self.mapping),
        }


def describe_episode(episode: PlannedEpisode) -> dict[str, Any]:
    """Return an episode as plain values: what was held, interpolated and left out."""
    described: dict[str, Any] = {"source": episode.name, "frames": episode.length}
    if episode.piece is not None:
        described["start_ns"] = int(episode.piece.times[0])
        described["streams"] = {
            name: {
                "held": usage.held,
                "interpolated": usage.interpolated,
                "unused": usage.unused,
                "largest_gap_ms": usage.largest_gap_ns / 1e6,
            }
            for name, usage in episode.piece.usage().items()
        }
    if episode.encoded_again:
        described["encoded_again"] = dict(episode.encoded_again)
    return described


def _used(episode: PlannedEpisode, half_ns: float) -> str:
    """Return what was done to the values of an episode, in words; nothing if nothing was.

    Values that are more than half a frame, ``half_ns``, from their row are listed too.
    """
    parts = []
    for name, usage in episode.piece.usage().items() if episode.piece is not None else ():
        said = [
            f"{count} {word}"
            for count, word in (
                (usage.held, "held"),
                (usage.interpolated, "interpolated"),
                (usage.unused, "unused"),
            )
            if count
        ]
        if said or usage.largest_gap_ns > half_ns:
            shown = [name, *([", ".join(said)] if said else [])]
            parts.append(f"{' '.join(shown)} (gap {usage.largest_gap_ns / 1e6:.3g} ms)")
    parts += [f"{name} encoded again: {why}" for name, why in episode.encoded_again.items()]
    return "; ".join(parts)
