"""roboreel sample: a dataset worth looking at, from nothing."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from roboreel.cli.console import output, progress_bar
from roboreel.demo_arm import Sample, make_sample

__all__ = ["sample"]


def sample(
    path: Path = typer.Argument(..., help="A folder that does not exist yet."),
    episodes: int = typer.Option(20, min=0, help="How many episodes."),
    frames: int = typer.Option(100, min=2, help="Frames of an average episode."),
    cameras: int = typer.Option(2, min=0, help="How many cameras."),
    size: str = typer.Option("240x320", help="Height and width of the images."),
    store: str = typer.Option("video", help="Images as 'video' or as 'image', in Parquet."),
    codec: str = typer.Option("av1", help="'av1' or 'h264' (or 'hevc')."),
    version: str = typer.Option("3.0", help="LeRobot's layout: '3.0', '2.1' or '2.0'."),
    fps: int = typer.Option(30, min=1, help="Frames per second."),
    seed: int = typer.Option(0, min=0, help="Same seed, same dataset."),
) -> None:
    """Make a dataset of a simulated arm that reaches for targets."""
    match = re.fullmatch(r"(\d+)x(\d+)", size)
    if match is None:
        raise typer.BadParameter(f"{size!r} is not a size: write 240x320.", param_hint="--size")
    try:
        wanted = Sample(
            episodes=episodes,
            frames=frames,
            cameras=cameras,
            size=(int(match[1]), int(match[2])),
            store=store,  # type: ignore[arg-type]  # checked by Sample
            codec=codec,  # type: ignore[arg-type]  # checked by Sample
            version=version,  # type: ignore[arg-type]  # checked by Sample
            fps=fps,
            seed=seed,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with progress_bar() as progress:
        bar = progress.add_task("Episodes", total=episodes)
        made = make_sample(path, wanted, on_episode=lambda n: progress.update(bar, completed=n))
    output.print(f"Made {made}. Look inside: roboreel info {made}", soft_wrap=True)
