"""What describes the new dataset, once its data and video files are made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.clips import check_clips
from roboreel.edit.layout import is_per_episode
from roboreel.edit.rows import RowsResult
from roboreel.edit.statistics import camera_statistics, stores_total, total_statistics
from roboreel.files import copy_file
from roboreel.format.edited_episodes import EditedEpisodes, Origin, write_edited_episodes
from roboreel.format.edited_info import edited_info
from roboreel.format.episode_table import episode_list
from roboreel.format.json_files import write_json
from roboreel.format.paths import INFO_PATH, STATS_PATH, SUBTASKS_PATH, tasks_path
from roboreel.format.splits import moved_splits
from roboreel.format.statistics import edited_stats, stored_stats
from roboreel.format.tables import rows_within_files
from roboreel.format.tables_v3 import write_texts
from roboreel.parquet.ragged import TextLists
from roboreel.schema import ClipTable, EpisodeTable, Manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from roboreel.edit.context import EditContext
    from roboreel.edit.encoding import ClipPlace
    from roboreel.edit.layout import FileTarget
    from roboreel.stats import FeatureStats

    Stage = Callable[[str], Path]


@dataclass(slots=True)
class Made:
    """What was learnt while the files were written."""

    rows: RowsResult = field(default_factory=RowsResult)
    """What the rows of all data files say, added in the order of the layout."""
    places: dict[str, dict[int, ClipPlace]] = field(default_factory=dict)
    """By camera and new episode, where its images are in their file."""
    files: dict[str, Path] = field(default_factory=dict)
    """Where the files were written for now, by their paths in the new dataset."""
    looks: dict[int, dict[str, FeatureStats]] = field(default_factory=dict)
    """By new episode, statistics of its cameras, if they were missing."""

    def add_clips(self, target: FileTarget, places: Mapping[int, ClipPlace]) -> None:
        """Take note of where the episodes of a video file are."""
        self.places.setdefault(str(target.camera), {}).update(places)


def finish_dataset(context: EditContext, made: Made, stage: Stage) -> Manifest:
    """Write what describes the data and video files of the new dataset, once they are there.

    Raises:
        EditError: A row would show another image than before, or none.
    """
    manifest = _describe(context, made)
    check_clips(context, manifest, made.places, lambda target: made.files[target.file])
    _write_metadata(context, manifest, made, stage)
    return manifest


def _describe(context: EditContext, made: Made) -> Manifest:
    """Return all that the new dataset's metadata says."""
    layout, first = context.layout, context.sources[0].manifest
    data, clips = layout.kinds[None], {}
    for camera in layout.cameras:
        times = np.array([made.places[camera][n][:2] for n in range(len(layout.length))]).reshape(
            -1, 2
        )
        if is_per_episode(layout.kinds[camera].files):
            times = np.stack([np.zeros(len(layout.length)), layout.length / layout.fps], axis=1)
        clips[camera] = ClipTable(layout.kinds[camera].file, times[:, 0], times[:, 1])
    tasks = TextLists.from_lists(list(_task_lists(context, made)))
    episodes = EpisodeTable(
        number=np.arange(len(layout.length), dtype=np.int64),
        start=layout.start,
        length=layout.length,
        data_file=data.file,
        data_row=rows_within_files(data.file, layout.start, layout.length),
        clips=clips,
        task_bounds=tasks.bounds,
        task_codes=tasks.codes,
        task_texts=tasks.texts,
    )
    return replace(
        first,
        version=layout.version,
        fps=layout.fps,
        features=context.features,
        tasks=context.tasks.tasks,
        subtasks=context.subtasks.tasks,
        episodes=episodes,
        data_files=data.files,
        video_files={camera: layout.kinds[camera].files for camera in layout.cameras},
        problems=(),
    )


def _task_lists(context: EditContext, made: Made) -> Iterator[list[str]]:
    """Yield the tasks of each new episode: as listed, or as its rows say if it is a part."""
    seen = made.rows.tasks
    for number, piece in enumerate(context.recipe.pieces):
        listed = context.source(piece).manifest.episodes.tasks_of(piece.episode)
        told = [piece.new_task(text) for text in listed] or [
            t for t in [piece.task] if t is not None
        ]
        if number in seen:
            texts = [context.tasks.tasks.get(one) for one in seen[number]]
            told = [text for text in texts if text is not None] or told
        yield list(dict.fromkeys(told))


def _write_metadata(context: EditContext, manifest: Manifest, made: Made, stage: Stage) -> None:
    first = context.sources[0]
    _write_tasks(context, manifest, stage)
    _write_subtasks(context, manifest, stage)
    names = context.recipe.names[0]
    cameras = cache(partial(camera_statistics, context, made.looks))
    if stores_total(context):
        new = total_statistics(context, made.rows, cameras)
        old = stored_stats(first.root)
        stats = edited_stats(old, names, new, version=manifest.version, features=manifest.features)
        if stats != old or not context.in_place:
            write_json(stage(STATS_PATH), stats, sync=False)
    own = made.rows.stats
    origins = [
        Origin(
            piece.source,
            context.old_number(number),
            dict(piece.columns),
            {**own.get(number, {}), **made.looks.get(number, {})},
        )
        for number, piece in enumerate(context.recipe.pieces)
    ]
    manifests = [source.manifest for source in context.sources]
    edited = EditedEpisodes(
        manifest, manifests, origins, context.recipe.names, cameras, in_place=context.in_place
    )
    write_edited_episodes(edited, stage)
    write_json(stage(INFO_PATH), _info(context, manifest, origins), sync=False)


def _write_subtasks(context: EditContext, manifest: Manifest, stage: Stage) -> None:
    """Write the table of subtasks. That of a single source is copied, even if the version has none."""
    old = context.sources[0].root / SUBTASKS_PATH
    if context.in_place:
        return
    if len(context.sources) == 1 and old.exists():
        copy_file(old, stage(SUBTASKS_PATH))
    elif manifest.subtasks and manifest.version.startswith("v3"):
        write_texts(stage(SUBTASKS_PATH), manifest.subtasks, "subtask")


def _write_tasks(context: EditContext, manifest: Manifest, stage: Stage) -> None:
    """Write the table of tasks. One that stays as it is keeps columns that are unknown to us."""
    first, place = context.sources[0].manifest, tasks_path(manifest.version)
    old = first.root / place
    if dict(manifest.tasks) == dict(first.tasks) and (context.in_place or old.exists()):
        if not context.in_place:
            copy_file(old, stage(place))
        return
    episode_list(manifest).write_tasks(stage(place), manifest.tasks)


def _info(context: EditContext, manifest: Manifest, origins: list[Origin]) -> dict[str, Any]:
    raw, first = context.sources[0].info, context.sources[0].manifest
    # Several sources may contradict each other: all of their episodes are one split.
    splits = moved_splits(
        raw if len(context.sources) == 1 else {},
        [origin.number for origin in origins],
        len(first.episodes),
    )
    coded = {*context.recipe.codings, *context.recipe.padded}
    return edited_info(raw, manifest, context.recipe.names[0], coded=coded, splits=splits)
