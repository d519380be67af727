"""Changes that a caller makes to a mapping."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from roboreel.importing.defaults import default_map
from roboreel.importing.mapping import TaskRule

if TYPE_CHECKING:
    from roboreel.importing.align import Method
    from roboreel.importing.mapping import ClockChoice, FeatureMap, ImportMap
    from roboreel.importing.recording import Recording
    from roboreel.record.options import CameraKind

__all__ = ["Changes", "changed_map"]


@dataclass(frozen=True, slots=True)
class Changes:
    """Settings that count for all features; None leaves what the mapping says."""

    fps: float | None = None
    task: str | None = None
    """For frames of which the recording does not say what the task is."""
    align: Method | None = None
    max_gap_ns: int | None = None
    """-1 for any distance."""
    clock: ClockChoice | None = None
    follow: str | None = None
    store: CameraKind | None = None
    """How all colour cameras are stored."""
    drop_last: int | None = None
    float32: bool = False
    """Whether numbers of 64 bits are stored in 32."""
    distro: str | None = None
    """The distribution of ROS that recorded it, for bags that do not define their messages."""

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values, by name."""
        return asdict(self)


def changed_map(recording: Recording, mapping: ImportMap | None, changes: Changes) -> ImportMap:
    """Return a mapping, or the one that a recording gets by default, with changes."""
    given = default_map(recording) if mapping is None else mapping
    features = {
        name: _changed_feature(recording, one, changes) for name, one in given.features.items()
    }
    task = given.task if changes.task is None else TaskRule(changes.task, given.task.stream)
    names = ("fps", "align", "max_gap_ns", "clock", "follow", "drop_last")
    fields = {name: getattr(changes, name) for name in names}
    kept = {name: value for name, value in fields.items() if value is not None}
    return replace(given, features=features, task=task, **kept)


def _changed_feature(recording: Recording, one: FeatureMap, changes: Changes) -> FeatureMap:
    streams = [recording.streams[name] for name in one.streams if name in recording.streams]
    if changes.store is not None and any(s.is_camera and s.depth_unit is None for s in streams):
        one = replace(one, store=changes.store)
    wide = any(s.kind == "numbers" and s.dtype == "float64" for s in streams)
    if changes.float32 and wide and one.dtype is None:
        one = replace(one, dtype="float32")
    return one
