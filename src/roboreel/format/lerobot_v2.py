"""LeRobot v2.0 and v2.1: episodes and tasks in JSON lines, one episode to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import CorruptFileError, MissingFileError
from roboreel.format.consistency import compare_metadata, repeated_number
from roboreel.format.counters import EPISODE_NUMBER, TASK_NUMBER
from roboreel.format.json_files import whole
from roboreel.format.tables import arrange_episodes, sorted_once
from roboreel.format.templates import file_set, template_fields
from roboreel.parquet.jsonl import read_line_columns, read_lines
from roboreel.schema import ClipTable, Manifest

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.findings import Finding
    from roboreel.format.info import Info


def read_manifest(root: Path, info: Info) -> Manifest:
    """Return what the metadata of a v2.0 or v2.1 dataset says; statistics are not read."""
    lines = root / "meta" / "episodes.jsonl"
    columns, texts = read_line_columns(
        lines, integers=(EPISODE_NUMBER, "length"), text_lists=("tasks",)
    )
    first, problems = sorted_once(columns[EPISODE_NUMBER], "meta/episodes.jsonl")
    number, length = columns[EPISODE_NUMBER][first], columns["length"][first]
    chunk = number // info.chunks_size
    fields = {"episode_chunk": chunk, "episode_index": number}
    if "chunk_index" in template_fields(info.data_path) | template_fields(info.video_path or ""):
        # Some writers say so, as v3.0 does, and mean the same.
        fields["chunk_index"] = chunk
    file = np.arange(len(number), dtype=np.int64)
    clips = ClipTable(file=file, start_s=np.zeros(len(number)), stop_s=length / info.fps)
    cameras = [name for name, feature in info.features.items() if feature.is_video]
    episodes = arrange_episodes(
        number=number,
        length=length,
        place=number,
        data_file=file,
        clips=dict.fromkeys(cameras, clips),
        tasks=texts["tasks"].take(first),
        path=lines,
    )
    tasks, task_problems = _read_tasks(root / "meta" / "tasks.jsonl")
    return Manifest(
        root=root,
        version=info.version_name,
        fps=info.fps,
        features=info.features,
        tasks=tasks,
        episodes=episodes,
        data_files=file_set(info.data_path, fields, info_path=info.path),
        video_files={
            camera: file_set(
                info.video_template(camera), fields, {"video_key": camera}, info_path=info.path
            )
            for camera in cameras
        },
        robot_type=info.robot_type,
        splits=info.splits,
        extra=info.extra,
        files_per_chunk=info.chunks_size,
        problems=(
            *info.problems,
            *problems,
            *compare_metadata(root, info, episodes, tasks),
            *task_problems,
        ),
    )


def _read_tasks(path: Path) -> tuple[dict[int, str], tuple[Finding, ...]]:
    tasks: dict[int, str] = {}
    numbers: list[int] = []
    try:
        for line, task in read_lines(path):
            number = whole(task.get(TASK_NUMBER))
            if number is None or "task" not in task:
                raise CorruptFileError(
                    f"Line {line} needs {TASK_NUMBER!r} and 'task', and has "
                    f"{', '.join(task) or 'nothing'}: {str(path)!r}."
                )
            tasks[number] = str(task["task"])
            numbers.append(number)
    except MissingFileError:
        return {}, ()
    if len(tasks) == len(numbers):
        return tasks, ()
    says = "The last text of a number counts"
    return tasks, (repeated_number(numbers, "task", "meta/tasks.jsonl", says),)
