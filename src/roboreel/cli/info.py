"""roboreel info: what is in a dataset, at a glance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from roboreel.cli.console import output
from roboreel.dataset import open_dataset

if TYPE_CHECKING:
    from roboreel.dataset import Dataset

__all__ = ["info"]

_MOST_NAMES = 8


def info(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    episodes: bool = typer.Option(False, "--episodes", help="List every episode."),
) -> None:
    """Show what is in a dataset: only its metadata is read."""
    dataset = open_dataset(path)
    if as_json:
        print(json.dumps(_as_json(dataset, episodes=episodes), indent=2, ensure_ascii=False))
        return
    _print_summary(dataset)
    output.print(_feature_table(dataset))
    output.print(_task_table(dataset))
    if episodes:
        output.print(_episode_table(dataset))
    for problem in dataset.problems:
        output.print(f"[yellow]Problem:[/] {escape(str(problem))}", soft_wrap=True)


def _as_json(dataset: Dataset, *, episodes: bool) -> dict[str, Any]:
    manifest = dataset.manifest
    summary: dict[str, Any] = {
        "path": str(dataset.path),
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
        "problems": [str(problem) for problem in dataset.problems],
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
    output.print(f"[bold]{escape(str(dataset.path))}[/]", soft_wrap=True)
    output.print(
        f"LeRobot {manifest.version}, robot {escape(manifest.robot_type or 'not named')}, "
        f"{dataset.fps:g} fps"
    )
    span = f", {lengths.min()} to {lengths.max()} frames each" if len(lengths) else ""
    output.print(
        f"{len(dataset.episodes):,} episodes, {len(dataset):,} frames, "
        f"{int(minutes)}:{seconds:04.1f} min{span}"
    )


def _feature_table(dataset: Dataset) -> Table:
    table = Table("feature", "dtype", "shape", "names", title="Features", title_justify="left")
    for name, feature in dataset.features.items():
        names = () if feature.is_camera else (feature.names or ())
        more = f", … {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        table.add_row(
            escape(name),
            feature.dtype + (" (depth)" if feature.depth else ""),
            " x ".join(str(size) for size in feature.shape),
            escape(", ".join(names[:_MOST_NAMES]) + more),
        )
    return table


def _task_table(dataset: Dataset) -> Table:
    episodes = dataset.manifest.episodes
    table = Table("task", "text", "episodes", title="Tasks", title_justify="left")
    table.columns[2].justify = "right"
    per_code = np.bincount(episodes.task_codes, minlength=len(episodes.task_texts))
    counts = dict(zip(episodes.task_texts, per_code.tolist(), strict=True))
    for number, text in dataset.tasks.items():
        table.add_row(str(number), escape(text), f"{counts.get(text, 0):,}")
    return table


def _episode_table(dataset: Dataset) -> Table:
    table = Table("episode", "rows", "frames", "tasks", title="Episodes", title_justify="left")
    for episode in dataset.episodes:
        table.add_row(
            str(episode.number),
            f"[{episode.start}, {episode.stop})".replace("[", r"\["),
            str(episode.length),
            escape("; ".join(episode.tasks)),
        )
    return table
