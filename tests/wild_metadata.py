"""Wild datasets whose metadata is unlike LeRobot's, stale or incomplete."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.clean import CAMERAS, LENGTHS, clean_dataset
from tests.surgery import LFS_POINTER, Folder, Row
from tests.wild_fixture import V2, V3, Truth, unopened, wild

if TYPE_CHECKING:
    from pathlib import Path


@wild("A3", versions=V3)
def stale_backup_table(root: Path, version: str) -> Truth:
    """``meta/episodes/chunk-000/backup.parquet`` has other clips. It does not count."""
    return _stale_table(root, version, "meta/episodes/chunk-000/backup.parquet")


@wild("A3", versions=V3)
def stale_table_in_a_subfolder(root: Path, version: str) -> Truth:
    """``meta/episodes/backup/chunk-000/file-000.parquet`` has other clips. It does not count."""
    return _stale_table(root, version, "meta/episodes/backup/chunk-000/file-000.parquet")


@wild("A3", versions=V2)
def episode_line_twice(root: Path, version: str) -> Truth:
    """An older line of episode 2 has another length and task. The last line counts."""
    folder = Folder(clean_dataset(root, version))

    def twice(rows: list[Row]) -> list[Row]:
        older = {**rows[2], "length": rows[2]["length"] - 3, "tasks": ["something else"]}
        return [*rows[:2], older, *rows[2:]]

    folder.edit_table(folder.episode_table, twice)
    return Truth()


@wild("A6", versions=V3)
def chunk_index_null(root: Path, version: str) -> Truth:
    """No episode says in which chunk its videos are; there is one.

    All values are as in the clean one.
    """
    folder = Folder(clean_dataset(root, version))
    nulls = {f"videos/{camera}/chunk_index": None for camera in CAMERAS}
    folder.edit_table(folder.episode_table, lambda rows: [{**row, **nulls} for row in rows])
    return Truth()


@wild("A8")
def lfs_pointer_info(root: Path, version: str) -> Truth:
    """info.json is a Git LFS pointer."""
    (clean_dataset(root, version) / "meta/info.json").write_text(LFS_POINTER)
    return unopened("git lfs pull", "info.json")


@wild("A8")
def lfs_pointer_episodes(root: Path, version: str) -> Truth:
    """The table of episodes is a Git LFS pointer."""
    folder = Folder(clean_dataset(root, version))
    file = folder.episode_table
    (root / file).write_text(LFS_POINTER)
    return unopened("git lfs pull", file)


@wild("A8")
def lfs_pointer_tasks(root: Path, version: str) -> Truth:
    """The table of tasks is a Git LFS pointer."""
    folder = Folder(clean_dataset(root, version))
    file = folder.task_table
    (root / file).write_text(LFS_POINTER)
    return unopened("git lfs pull", file)


@wild("A8")
def lfs_pointer_statistics(root: Path, version: str) -> Truth:
    """The statistics are a Git LFS pointer. All values are as in the clean one."""
    folder = Folder(clean_dataset(root, version))
    (root / folder.stats_file).write_text(LFS_POINTER)
    return Truth()


@wild("A8", versions=("v1.6",))
def v1_layout(root: Path, version: str) -> Truth:
    """A dataset of LeRobot before v2.0, which has ``meta_data/info.json`` and no ``meta``."""
    (root / "meta_data").mkdir(parents=True)
    (root / "train").mkdir()
    info = {"codebase_version": version, "fps": 30, "video": True}
    (root / "meta_data/info.json").write_text(json.dumps(info))
    (root / "train/state.json").write_text("{}")
    return unopened("v1", "meta_data/info.json")


@wild("A8")
def no_episode_table(root: Path, version: str) -> Truth:
    """The table of episodes is missing."""
    folder = Folder(clean_dataset(root, version))
    if folder.is_v3:
        shutil.rmtree(root / "meta/episodes")
        return unopened("meta/episodes")
    (root / folder.episode_table).unlink()
    return unopened("episodes.jsonl")


@wild("A8")
def empty_info(root: Path, version: str) -> Truth:
    """info.json has no bytes, as after a crash or on a full disk."""
    (clean_dataset(root, version) / "meta/info.json").write_bytes(b"")
    return unopened("empty", "info.json")


@wild("A8")
def empty_object_in_info(root: Path, version: str) -> Truth:
    """info.json is ``{}``."""
    (clean_dataset(root, version) / "meta/info.json").write_text("{}")
    return unopened("info.json")


@wild("A8")
def empty_statistics(root: Path, version: str) -> Truth:
    """The file of statistics has no bytes. All values are as in the clean one."""
    folder = Folder(clean_dataset(root, version))
    (root / folder.stats_file).write_bytes(b"")
    return Truth()


@wild("A8", versions=V3)
def lance_storage(root: Path, version: str) -> Truth:
    """info.json says that the frames are stored in Lance."""
    folder = Folder(clean_dataset(root, version))
    folder.edit_info(storage_format="lance")
    shutil.rmtree(root / "data")
    (root / "data.lance").mkdir()
    return unopened("lance")


@wild("A9")
def episode_columns(root: Path, version: str) -> Truth:
    """The table of episodes has further columns, all values are as in the clean one.

    Episode ``e`` has ``success = e % 2 == 0``, ``operator = "station-<e>"``, ``scene = None`` where
    ``e`` is odd and ``{"lights": e}`` otherwise, and ``score = e / 2``.
    """
    folder = Folder(clean_dataset(root, version))
    if not folder.is_v3:
        folder.edit_table(
            folder.episode_table,
            lambda rows: [{**row, **_columns(e)} for e, row in enumerate(rows)],
        )
        return Truth()
    table = pq.read_table(root / folder.episode_table)
    added = [_columns(episode) for episode in range(len(LENGTHS))]
    for name in added[0]:
        table = table.append_column(name, pa.array([columns[name] for columns in added]))
    pq.write_table(table, root / folder.episode_table)
    return Truth()


@wild("A10")
def version_missing(root: Path, version: str) -> Truth:
    """info.json has no ``codebase_version``. All values are as in the clean one."""
    folder = Folder(clean_dataset(root, version))
    info = {key: value for key, value in folder.info.items() if key != "codebase_version"}
    (root / "meta/info.json").write_text(json.dumps(info))
    return Truth()


@wild("A10")
def version_null(root: Path, version: str) -> Truth:
    """``codebase_version`` is null. All values are as in the clean one."""
    Folder(clean_dataset(root, version)).edit_info(codebase_version=None)
    return Truth()


@wild("A10", versions=V3)
def data_file_not_listed(root: Path, version: str) -> Truth:
    """No episode says in which data file it is; there is one.

    All values are as in the clean one.
    """
    root = clean_dataset(root, version, episodes_per_file=len(LENGTHS))
    return _without_data_files(root)


@wild("A10", versions=V3)
def data_files_not_listed(root: Path, version: str) -> Truth:
    """No episode says in which of three data files it is, but each has the rows of two episodes.

    Taken in order, lengths and rows have one answer: all values are as in the clean one.
    """
    return _without_data_files(clean_dataset(root, version))


def _stale_table(root: Path, version: str, file: str) -> Truth:
    folder = Folder(clean_dataset(root, version))
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / folder.episode_table, root / file)
    starts = {f"videos/{camera}/from_timestamp": 0.2 for camera in CAMERAS}
    folder.edit_table(file, lambda rows: [{**row, **starts} for row in rows])
    return Truth()


def _without_data_files(root: Path) -> Truth:
    path = root / Folder(root).episode_table
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["data/chunk_index", "data/file_index"]), path)
    return Truth()


def _columns(episode: int) -> dict[str, Any]:
    even = episode % 2 == 0
    return {
        "success": even,
        "operator": f"station-{episode}",
        "scene": {"lights": episode} if even else None,
        "score": episode / 2,
    }
