"""Corruptions of files and metadata."""

from __future__ import annotations

import json
import shutil

from tests.clean import CAMERAS, FRONT, LENGTHS, WRIST
from tests.corruption import Place, corruption
from tests.surgery import LFS_POINTER, Folder, Row

V2 = ("v2.0", "v2.1")
V3 = ("v3.0",)
INFO = Place(("meta/info.json",))


@corruption("RR101", restores="bytes")
def counts_differ(folder: Folder) -> Place:
    folder.edit_info(total_episodes=7, total_frames=120, total_tasks=9)
    return INFO


@corruption("RR102", restores="values")
def version_missing(folder: Folder) -> Place:
    info = {key: value for key, value in folder.info.items() if key != "codebase_version"}
    (folder.root / "meta/info.json").write_text(json.dumps(info, indent=4))
    return INFO


@corruption("RR103")
def unusable_feature(folder: Folder) -> Place:
    force = {"dtype": "float33", "shape": [3], "names": None}
    folder.edit_info(features={**folder.info["features"], "observation.force": force})
    return Place(INFO.files, feature="observation.force")


@corruption("RR104")
def video_missing(folder: Folder) -> Place:
    file = folder.video(WRIST, 3)
    (folder.root / file).unlink()
    return Place((file,), (3,), WRIST)


@corruption("RR104")
def data_file_missing(folder: Folder) -> Place:
    file = folder.data(3)
    (folder.root / file).unlink()
    return Place((file,), (3,))


@corruption("RR105", restores="bytes")
def orphan_data_file(folder: Folder) -> Place:
    return _copy_aside(folder, folder.data(0))


@corruption("RR105", restores="bytes")
def orphan_video(folder: Folder) -> Place:
    return _copy_aside(folder, folder.video(FRONT, 0))


@corruption("RR106", versions=V3, restores="bytes")
def stray_backup(folder: Folder) -> Place:
    """A table of an earlier state, by which every clip would start at another image."""
    return _stray_table(folder, "meta/episodes/chunk-000/backup.parquet")


@corruption("RR106", versions=V3, restores="bytes")
def stray_copy_in_a_subfolder(folder: Folder) -> Place:
    return _stray_table(folder, "meta/episodes/old/chunk-000/file-000.parquet")


@corruption("RR107")
def lfs_pointer_data(folder: Folder) -> Place:
    return _pointer(folder, folder.data(3), 3)


@corruption("RR107")
def lfs_pointer_video(folder: Folder) -> Place:
    return _pointer(folder, folder.video(WRIST, 3), 3)


@corruption("RR107")
def lfs_pointer_json(folder: Folder) -> Place:
    return _pointer(folder, folder.stats_file)


@corruption("RR107")
def lfs_pointer_tasks(folder: Folder) -> Place:
    return _pointer(folder, folder.task_table)


@corruption("RR108")
def template_leaves_the_folder(folder: Folder) -> Place:
    folder.edit_info(video_path=f"../{folder.info['video_path']}")
    return INFO


@corruption("RR108")
def symlink_leaves_the_folder(folder: Folder) -> Place:
    file = folder.data(3)
    outside = folder.root.parent / f"{folder.root.name}-elsewhere.parquet"
    shutil.move(folder.root / file, outside)
    (folder.root / file).symlink_to(outside)
    return Place((file,), (3,))


@corruption("RR109", also=("RR104",))
def camera_without_files(folder: Folder) -> Place:
    files = {folder.video(WRIST, episode) for episode in range(len(LENGTHS))}
    for file in files:
        (folder.root / file).unlink()
    return Place(("meta/info.json", *sorted(files)), feature=WRIST)


@corruption("RR110", restores="bytes")
def folder_differs_from_template(folder: Folder) -> Place:
    file = folder.video(FRONT, 0)
    (folder.root / "videos").rename(folder.root / "video")
    return Place(("meta/info.json", "video", "videos", file))


@corruption("RR111", restores="values", also=("RR207",))
def tasks_missing(folder: Folder) -> Place:
    """Every task is still spelled in the table of episodes, some in episodes of their own."""
    file = folder.task_table
    (folder.root / file).unlink()
    return Place((file,))


@corruption("RR111", restores="values", also=("RR503",))
def zero_byte_statistics(folder: Folder) -> Place:
    file = folder.stats_file
    (folder.root / file).write_bytes(b"")
    return Place((file,))


@corruption("RR112", restores="values")
def episode_listed_twice(folder: Folder) -> Place:
    """The older line has another length; the last one is right, as LeRobot reads it."""

    def twice(rows: list[Row]) -> list[Row]:
        older = {**rows[2], "length": rows[2]["length"] - 3}
        return [*rows[:2], older, *rows[2:]]

    folder.edit_table(folder.episode_table, twice)
    return Place((folder.episode_table,), (2,))


@corruption("RR113", restores="bytes")
def splits_beyond_the_end(folder: Folder) -> Place:
    folder.edit_info(splits={"train": f"0:{len(LENGTHS) + 3}"})
    return INFO


@corruption("RR114", versions=V3, restores="values")
def spans_not_listed(folder: Folder) -> Place:
    _drop_columns(folder, "dataset_from_index", "dataset_to_index")
    return Place((folder.episode_table,))


@corruption("RR114", versions=V3, restores="values")
def data_files_not_listed(folder: Folder) -> Place:
    """Which file holds an episode is known from the rows of each file and the lengths."""
    _drop_columns(folder, "data/chunk_index", "data/file_index")
    return Place((folder.episode_table,))


@corruption("RR115", also=("RR116", "RR207", "RR208"))
def task_number_twice(folder: Folder) -> Place:
    folder.edit_table(folder.task_table, lambda rows: [{**row, "task_index": 0} for row in rows])
    folder.edit_info(total_tasks=3 if folder.is_v3 else 1)
    return Place((folder.task_table,))


@corruption("RR115", versions=V3)
def tasks_out_of_order(folder: Folder) -> Place:
    folder.edit_table(folder.task_table, lambda rows: rows[::-1])
    return Place((folder.task_table,))


@corruption("RR116")
def task_is_not_listed(folder: Folder) -> Place:
    folder.edit_episode(2, tasks=["fold the towel"])
    return Place((folder.task_table,), (2,))


def _copy_aside(folder: Folder, file: str) -> Place:
    """Copy a file to the name of one that nothing lists."""
    copy = file.replace("000000", "000009").replace("file-000", "file-009")
    shutil.copy(folder.root / file, folder.root / copy)
    return Place((copy,))


def _stray_table(folder: Folder, file: str) -> Place:
    path = folder.root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder.root / folder.episode_table, path)
    starts = [f"videos/{camera}/from_timestamp" for camera in CAMERAS]
    folder.edit_table(file, lambda rows: [{**row, **dict.fromkeys(starts, 0.2)} for row in rows])
    return Place((file,))


def _pointer(folder: Folder, file: str, *episodes: int) -> Place:
    (folder.root / file).write_text(LFS_POINTER)
    return Place((file,), episodes)


def _drop_columns(folder: Folder, *names: str) -> None:
    import pyarrow.parquet as pq

    path = folder.root / folder.episode_table
    pq.write_table(pq.read_table(path).drop_columns(list(names)), path)
