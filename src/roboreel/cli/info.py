"""roboreel info: what is in a dataset, at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from roboreel.check import check_dataset
from roboreel.check.text import message_of, unchecked
from roboreel.cli.arguments import DatasetArgument, JsonOption
from roboreel.cli.console import literal, output, print_json, print_line, print_problem, text_table
from roboreel.dataset import open_dataset

if TYPE_CHECKING:
    from rich.table import Table

    from roboreel.dataset import Dataset

_MOST_NAMES = 8


def info(
    path: DatasetArgument,
    as_json: JsonOption = False,
    episodes: Annotated[bool, typer.Option("--episodes", help="List every episode.")] = False,
) -> None:
    """Show what is in a dataset, and what is wrong at first sight.

    First sight: the metadata, and the names and sizes of files. `roboreel check` looks further.
    """
    dataset = open_dataset(path)
    findings = check_dataset(dataset.path, tier="metadata")
    problems = [message_of(found) for found in findings.at_least("warning")]
    if as_json:
        print_json({**_as_json(dataset, episodes=episodes), "problems": problems})
        return
    _print_summary(dataset)
    tables = [_feature_table(dataset), _task_table(dataset)]
    if episodes:
        tables.append(_episode_table(dataset))
    for table in tables:
        output.print()
        output.print(table)
    for problem in problems:
        print_problem(problem)
    for sentence in unchecked(findings, command="roboreel check "):
        print_line(sentence)


def _as_json(dataset: Dataset, *, episodes: bool) -> dict[str, Any]:
    manifest = dataset.manifest
    summary: dict[str, Any] = {
        "path": str(dataset.path),
        "url": dataset.url,
        "version": manifest.version,
        "robot_type": manifest.robot_type,
        "fps": dataset.fps,
        "episodes": len(dataset.episodes),
        "frames": len(dataset),
        "duration_s": len(dataset) / dataset.fps,
        "features": {
            name: {
                "dtype": feature.dtype,
                "shape": list(feature.shape),
                "names": None if feature.names is None else list(feature.names),
                "depth": feature.depth is not None,
            }
            for name, feature in dataset.features.items()
        },
        "tasks": {str(number): text for number, text in dataset.tasks.items()},
    }
    if episodes:
        summary["episode_list"] = [
            {
                "number": episode.number,
                "start": episode.start,
                "stop": episode.stop,
                "tasks": list(episode.tasks),
            }
            for episode in dataset.episodes
        ]
    return summary


def _print_summary(dataset: Dataset) -> None:
    manifest = dataset.manifest
    lengths = dataset.episodes.lengths
    minutes, seconds = divmod(len(dataset) / dataset.fps, 60)
    output.print(f"[bold]{literal(dataset.url or str(dataset.path))}[/]", soft_wrap=True)
    robot = manifest.robot_type or "not named"
    print_line(f"LeRobot {manifest.version}, robot {robot}, {dataset.fps:g} fps")
    span = f", {lengths.min()} to {lengths.max()} frames each" if len(lengths) else ""
    print_line(
        f"{len(dataset.episodes):,} episodes, {len(dataset):,} frames, "
        f"{int(minutes)}:{seconds:04.1f} min{span}"
    )


def _feature_table(dataset: Dataset) -> Table:
    table = text_table("feature", "dtype", "shape", "names", title="Features")
    # The names of elements wrap first, so that those of features stay in one piece if they can.
    longest = max(map(len, dataset.features), default=0)
    table.columns[3].max_width = max(20, output.width - longest - 32)
    for name, feature in dataset.features.items():
        names = () if feature.is_camera else (feature.names or ())
        more = f", … {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        table.add_row(
            literal(name),
            feature.dtype + (" (depth)" if feature.depth else ""),
            " x ".join(str(size) for size in feature.shape),
            literal(", ".join(names[:_MOST_NAMES]) + more),
        )
    return table


def _task_table(dataset: Dataset) -> Table:
    episodes = dataset.manifest.episodes
    table = text_table("task", "text", "episodes", title="Tasks")
    table.columns[2].justify = "right"
    per_code = np.bincount(episodes.task_codes, minlength=len(episodes.task_texts))
    counts = dict(zip(episodes.task_texts, per_code.tolist(), strict=True))
    for number, text in dataset.tasks.items():
        table.add_row(str(number), literal(text), f"{counts.get(text, 0):,}")
    return table


def _episode_table(dataset: Dataset) -> Table:
    table = text_table("episode", "rows", "frames", "tasks", title="Episodes")
    for episode in dataset.episodes:
        table.add_row(
            str(episode.number),
            literal(f"[{episode.start}, {episode.stop})"),
            str(episode.length),
            literal("; ".join(episode.tasks)),
        )
    return table
