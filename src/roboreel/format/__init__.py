"""How a dataset lies on disk ⇄ Manifest: one module per version to read, one to write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roboreel.errors import DatasetError
from roboreel.format import lerobot_v2, lerobot_v3
from roboreel.format.consistency import find_absent_cameras
from roboreel.format.episode_table import episode_list
from roboreel.format.info import read_info, write_info
from roboreel.format.json_files import write_json
from roboreel.format.manifest_state import ManifestFiles
from roboreel.format.paths import STATS_PATH, SUBTASKS_PATH, info_path, tasks_path
from roboreel.format.stats_json import dataset_stats_to_json
from roboreel.format.tables_v3 import episode_files, write_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats

__all__ = ["read_manifest", "write_manifest"]

WRITTEN_VERSIONS = ("v2.0", "v2.1", "v3.0")
_TRIES = 20
"""How often a dataset is read again because it changed meanwhile; then it is taken as it is."""


def read_manifest(root: Path, *, unfinished: bool = False) -> Manifest:
    """Return all that is known of a dataset without opening its data.

    Args:
        root: The dataset's folder.
        unfinished: Whether to read it between the steps of a change too, when its metadata may be
            neither the old nor the new.

    Raises:
        NotADatasetError: There is no dataset at this path.
        UnsupportedVersionError: Its version is not supported.
        MetadataError: A metadata file cannot be understood.
        CorruptFileError: A metadata file is damaged.
        UnsafePathError: A path template leads out of the dataset's folder.
        UnfinishedChangeError: A change was decided and not finished.
    """
    files = ManifestFiles(root)
    for left in reversed(range(_TRIES)):
        if not unfinished:
            files.settle()
        state, before = files.state(), _state(root)
        try:
            manifest = _read(root)
        except (DatasetError, OSError):
            # A writer may have moved a file away that had just been listed.
            if not left or (files.state(), _state(root)) == (state, before):
                raise
        else:
            if not left or (files.state(), _state(root)) == (state, before):
                return replace(manifest, state=state)
    raise AssertionError


def _read(root: Path) -> Manifest:
    info = read_info(root)
    read = lerobot_v3.read_manifest if info.version[0] == 3 else lerobot_v2.read_manifest
    manifest = read(root, info)
    return replace(manifest, problems=(*manifest.problems, *find_absent_cameras(manifest)))


def _state(root: Path) -> tuple[object, ...]:
    """Return what changes whenever a writer saves an episode or joins files."""
    try:
        info = info_path(root).stat()
        tables = episode_files(root)
    except OSError:
        return ()
    return (info.st_ino, info.st_mtime_ns, info.st_size, *tables)


def write_manifest(
    manifest: Manifest,
    *,
    stats: Mapping[str, FeatureStats] | None = None,
    episode_stats: Sequence[Mapping[str, FeatureStats]] = (),
) -> None:
    """Write all metadata of a dataset in its version; ``info.json``, which makes it one, comes last.

    Args:
        manifest: The dataset; its root is where the files go.
        stats: Statistics of the whole dataset, by feature.
        episode_stats: Statistics of each episode, in the order of the table.
    """
    root, version = manifest.root, manifest.version
    if version not in WRITTEN_VERSIONS:
        raise ValueError(f"{WRITTEN_VERSIONS} are written: the manifest is of {version}.")
    listed = episode_list(manifest)
    listed.write_tasks(root / tasks_path(version), manifest.tasks, sync=True)
    if manifest.subtasks and version == "v3.0":
        write_texts(root / SUBTASKS_PATH, manifest.subtasks, "subtask", sync=True)
    listed.write(lambda file: root / file, [{}] * len(manifest.episodes), episode_stats, sync=True)
    # Of the statistics, v2.1 stores those of the episodes alone, v2.0 those of the dataset.
    if version == "v2.0" or (version == "v3.0" and stats is not None):
        write_json(root / STATS_PATH, dataset_stats_to_json(stats or {}, version))
    write_info(info_path(root), manifest)
