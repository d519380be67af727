"""Writing a LeRobot v3.0 dataset that grows by one episode or several at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.errors import UnsupportedVersionError
from roboreel.format.episode_metadata import column_types
from roboreel.format.info import write_info
from roboreel.format.json_files import write_json
from roboreel.format.ledger import RECORDED_VERSION
from roboreel.format.paths import INFO_PATH, STATS_PATH, TASKS_PATH
from roboreel.format.places import NOWHERE, episodes_path, following
from roboreel.format.stats_json import dataset_stats_to_json
from roboreel.format.tables_v3 import metadata_columns, stage_columns, write_episodes, write_texts
from roboreel.format.templates import template_fields
from roboreel.format.write_data import write_data_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from roboreel.format.episode_metadata import Value
    from roboreel.format.ledger import Ledger
    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

    Stage = Callable[[str], Path]
    """Takes a path below the dataset's folder, and returns where to write that file for now."""


def check_appendable(manifest: Manifest) -> None:
    """Raise if a dataset is of a version that does not grow, or has no names for new files.

    Raises:
        UnsupportedVersionError: It is.
    """
    if manifest.version != RECORDED_VERSION:
        raise UnsupportedVersionError(
            f"Only {RECORDED_VERSION} is recorded, recovered and compacted: this dataset is {manifest.version}, "
            f"{str(manifest.root)!r}."
        )
    for files in (manifest.data_files, *manifest.video_files.values()):
        if not {"chunk_index", "file_index"} <= template_fields(files.template):
            raise UnsupportedVersionError(
                f"The path template {files.template!r} has no place for new files: to be recorded, "
                "recovered or compacted, a dataset needs {chunk_index} and {file_index} in its "
                f"templates, {str(manifest.root)!r}."
            )


def start_dataset(manifest: Manifest, stage: Stage) -> None:
    """Write the metadata of a dataset without episodes; nothing is synced.

    Args:
        manifest: The dataset.
        stage: Where to write each file; called in the order in which they are to appear.
    """
    write_texts(stage(TASKS_PATH), {}, "task")
    write_info(stage(INFO_PATH), manifest, sync=False)


def append_episodes(
    ledger: Ledger,
    new: Manifest,
    columns: Iterable[Mapping[str, Any]],
    *,
    stats: Mapping[str, FeatureStats],
    episode_stats: Sequence[Mapping[str, FeatureStats]],
    metadata: Sequence[Mapping[str, Value]],
    stage: Stage,
) -> Ledger:
    """Write the data and metadata of the next episodes; nothing is synced.

    Every file is new, except three small ones that are replaced, and the files of the episode table
    when it gets another column. If they appear in the order in which they are staged, whoever opens
    the dataset in between finds it whole, with the episodes or without:

    1. The videos, which the caller has staged before: only the episode table leads to them.
    2. The data file: LeRobot reads all data files there are, and looks at the first
       ``total_frames`` rows; these come after.
    3. Tasks and statistics: one more task, and statistics that are ahead by these episodes.
    4. A file of the episode table: readers that count its rows now see the episodes, all of them.
    5. ``info.json``: readers that count by it see the episodes too.

    Args:
        ledger: What the dataset holds so far.
        new: What `describe_new` says of them.
        columns: Their columns, as `frame_table` takes them, in parts that follow each other.
        stats: Statistics of the whole dataset, these episodes among it.
        episode_stats: Statistics of each episode.
        metadata: What `check_metadata` returned for each.
        stage: Where to write each file; called in the order in which they are to appear.

    Returns:
        What the dataset holds then.
    """
    write_data_file(stage(new.data_files[0]), columns, new.features, sync=False)
    if new.tasks != ledger.about.tasks:
        write_texts(stage(TASKS_PATH), new.tasks, "task")
    write_json(stage(STATS_PATH), dataset_stats_to_json(stats, new.version), sync=False)
    place = following(ledger.last_episodes, ledger.about.files_per_chunk)
    like = None
    if ledger.last_episodes != NOWHERE:
        like = stage_columns(ledger.about.root, metadata, column_types(ledger), stage)
    write_episodes(
        stage(episodes_path(place)),
        new,
        place=place,
        stats=episode_stats,
        metadata=metadata_columns(metadata),
        like=like,
    )
    saved = ledger.after(new)
    counts = (saved.num_episodes, saved.num_rows)
    write_info(stage(INFO_PATH), new, counts=counts, sync=False)
    return saved
