"""One mapping for several recordings, where nobody gives one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roboreel.importing.changes import changed_map
from roboreel.importing.defaults import task_stream
from roboreel.importing.mapping import TaskRule
from roboreel.importing.opening import open_recording
from roboreel.importing.planning import plan_import

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.importing.changes import Changes
    from roboreel.importing.mapping import FeatureMap, ImportMap
    from roboreel.importing.recording import Recording

__all__ = ["first_map", "fitted_map"]


def first_map(source: Path, changes: Changes) -> ImportMap | None:
    """Return the mapping that a recording and those after it get; None if each gets its own.

    Which topics fill frames, at which rate, and in which order joints are listed depends on what
    happened to be recorded. In a recording of steps it does not.

    Args:
        source: The first recording.
        changes: What was asked for.
    """
    with open_recording(source, distro=changes.distro) as recording:
        if not recording.timed:
            return None
        mapping = plan_import(recording, changed_map(recording, None, changes)).mapping
        features = {name: _by_name(recording, one) for name, one in mapping.features.items()}
    return replace(mapping, features=features)


def fitted_map(recording: Recording, shared: ImportMap | None) -> ImportMap | None:
    """Return the mapping of several recordings for one of them, which may tell its task otherwise."""
    if shared is None:
        return None
    return replace(shared, task=TaskRule(shared.task.text, task_stream(recording)))


def _by_name(recording: Recording, one: FeatureMap) -> FeatureMap:
    """Return a feature whose joints are found by their names."""
    stream = recording.streams[one.streams[0]]
    is_joints = stream.source_type.endswith("JointState") and len(one.streams) == 1
    if not is_joints or stream.names is None or one.elements is not None:
        return one
    return replace(one, elements=stream.names)
