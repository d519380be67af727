"""Carrying out a plan: episode by episode through a recorder, resuming where it stopped."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.commit import Workshop, finish_commit, has_commit, locked
from roboreel.errors import DatasetError, FolderTakenError, RecordingError, SourceError
from roboreel.importing.frames import read_frames
from roboreel.importing.provenance import (
    describe_source,
    import_key,
    read_provenance,
    write_provenance,
)
from roboreel.record.opening import create_dataset, resume_dataset
from roboreel.record.options import RecordingOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from roboreel.importing.plan import ImportPlan, PlannedEpisode
    from roboreel.importing.recording import Recording
    from roboreel.record.recorder import Recorder

    OnProgress = Callable[[int, int], object]
    """Called with the frames that are done, and with all of them."""

_MAX_WAIT_S = 3600.0
_QUEUE_BYTES = 64 * 1024**2
_MOST_HELD = 256
_MOST_HELD_S = 5.0
"""Episodes that one commit saves, and their work: what is done again after a kill."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import has made."""

    path: Path
    episodes: int
    frames: int
    resumed_at: int = 0
    """How many episodes were there already, of an import that was interrupted."""


def write_dataset(
    recording: Recording,
    plan: ImportPlan,
    out: Path,
    *,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Imported:
    """Import a recording as a new dataset, or go on with an import that was interrupted.

    Args:
        recording: The recording, open.
        plan: What to make of it.
        out: A new folder, or one in which the same import was begun.
        on_progress: Called for each episode and now and then.

    Raises:
        FolderTakenError: The folder holds something else.
        SourceError: A value does not fit what was planned.
    """
    begun = read_provenance(out)
    keys = [source.get("key") for source in begun["sources"]] if begun else []
    if begun is not None and keys != [import_key(plan)]:
        raise FolderTakenError(
            f"{str(out)!r} holds the import of another recording, or with another mapping: choose a "
            "new folder."
        )
    if begun is not None and begun["complete"]:
        return Imported(out, len(plan.episodes), plan.num_frames, len(plan.episodes))
    if begun is None:
        _finish_interrupted(out)
    recorder = new_recorder(plan, out) if begun is None else _resumed(plan, out)
    with recorder:
        if begun is None:
            write_provenance(out, [describe_source(plan, complete=False)], complete=False)
        start = recorder.num_episodes
        add_episodes(recorder, recording, plan, start=start, on_progress=on_progress)
    write_provenance(out, [describe_source(plan, complete=True)], complete=True)
    return Imported(out, len(plan.episodes), plan.num_frames, start)


def new_recorder(plan: ImportPlan, out: Path) -> Recorder:
    """Make the dataset of a plan, without an episode yet."""
    features = {name: one.feature for name, one in plan.features.items()}
    return create_dataset(out, fps=plan.fps, features=features, options=_options(plan))


def add_episodes(
    recorder: Recorder,
    recording: Recording,
    plan: ImportPlan,
    *,
    start: int = 0,
    on_progress: OnProgress = lambda _done, _total: None,
) -> None:
    """Record the episodes of a plan, from a number on.

    Raises:
        SourceError: A value does not fit what was planned; episodes before it are saved.
    """
    done = sum(episode.length for episode in plan.episodes[:start])
    cost_s = 0.0
    kinds = _metadata_kinds(plan)
    for episode in plan.episodes[start:]:
        on_progress(done, plan.num_frames)
        try:
            for frame, task in read_frames(recording, plan, episode):
                recorder.add_frame(frame, task=task)
                done += 1
                if done % 256 == 0:
                    on_progress(done, plan.num_frames)
            recorder.hold_episode(metadata=_metadata(plan, episode, kinds))
            cost_s += _cost_s(plan, episode.length)
            # As many as are saved: after a kill, less than half is done again.
            most = min(_MOST_HELD, recorder.num_episodes)
            if recorder.held_episodes >= most or cost_s >= _MOST_HELD_S:
                recorder.save_held()
            cost_s = cost_s if recorder.held_episodes else 0.0
        except BaseException as error:
            recorder.discard_episode()
            if isinstance(error, DatasetError) and not isinstance(error, SourceError):
                raise SourceError(
                    f"Episode {episode.name!r} cannot be imported: {error} The "
                    f"{recorder.num_episodes + recorder.held_episodes} before it are saved: "
                    f"{str(plan.path)!r}."
                ) from error
            raise
    on_progress(done, plan.num_frames)


def _finish_interrupted(out: Path) -> None:
    """Finish making an empty dataset, which an import may have been killed at."""
    workshop = Workshop(out)
    if has_commit(workshop):
        with locked(workshop):
            finish_commit(workshop)


def _resumed(plan: ImportPlan, out: Path) -> Recorder:
    with warnings.catch_warnings():
        # The episode that was open is read again from the recording.
        warnings.simplefilter("ignore")
        recorder = resume_dataset(out, open_episode="discard", options=_options(plan))
    if recorder.num_episodes > len(plan.episodes):
        recorder.close()
        raise RecordingError(
            f"{str(out)!r} has {recorder.num_episodes} episodes, and the recording only "
            f"{len(plan.episodes)}: choose a new folder."
        )
    return recorder


def _options(plan: ImportPlan) -> RecordingOptions:
    sizes = [
        math.prod(one.feature.shape) for one in plan.features.values() if one.feature.is_camera
    ]
    waiting = _QUEUE_BYTES / (max(sizes, default=1) * plan.fps)
    return RecordingOptions(
        encoding={n: one.encoding for n, one in plan.features.items() if one.encoding is not None},
        nan_allowed=[
            name
            for name, one in plan.features.items()
            if one.feature.kind == "number" and one.feature.numpy_dtype.kind == "f"
        ],
        queue_s=min(1.0, waiting),
        max_wait_s=_MAX_WAIT_S,
    )


def _metadata_kinds(plan: ImportPlan) -> dict[str, type]:
    """Return one type for each key of the episodes' metadata: text where they differ."""
    kinds: dict[str, type] = {}
    for episode in plan.episodes:
        for key, value in episode.metadata.items():
            if kinds.setdefault(key, type(value)) is not type(value):
                kinds[key] = str
    return kinds


def _metadata(
    plan: ImportPlan, episode: PlannedEpisode, kinds: Mapping[str, type]
) -> dict[str, Any]:
    """Return the columns of the episode table that say where an episode comes from."""
    metadata = {f"source.{key}": kinds[key](value) for key, value in episode.metadata.items()}
    return {**metadata, "source.file": plan.path.name, "source.episode": episode.name}


def _cost_s(plan: ImportPlan, frames: int) -> float:
    """Return about how many seconds of one core an episode takes."""
    videos = [one.feature for one in plan.features.values() if one.feature.is_video]
    return frames * (2e-4 + sum(math.prod(video.shape) for video in videos) * 5e-9)
