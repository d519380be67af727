"""roboreel demo: a dataset of a simulated arm, made from nothing."""

from __future__ import annotations

from pathlib import Path

import typer

from roboreel.cli.arguments import parse_picture_size
from roboreel.cli.console import ProgressReport, print_line
from roboreel.demo_arm import DemoSpec, make_demo_dataset


def demo(
    path: Path = typer.Argument(
        ..., metavar="FOLDER", help="A folder that does not exist yet, or is empty."
    ),
    episodes: int = typer.Option(20, min=0, help="How many episodes."),
    frames: int = typer.Option(100, min=2, help="Frames of an average episode."),
    cameras: int = typer.Option(2, min=0, help="How many cameras."),
    size: str = typer.Option("240x320", help="Height and width of the images."),
    stored: list[str] = typer.Option(
        ["av1"],
        "--codec",
        "--store",
        help="'av1', 'h264' or 'hevc' for video, 'image' for PNG in Parquet.",
    ),
    version: str = typer.Option("3.0", help="LeRobot's version: '3.0', '2.1' or '2.0'."),
    fps: int = typer.Option(30, min=1, help="Frames per second."),
    seed: int = typer.Option(0, min=0, help="The same seed gives the same dataset."),
) -> None:
    """Make a dataset of a simulated arm that reaches for targets."""
    # `--store video --codec h264` says the same as `--codec h264`.
    codecs = [word for word in stored if word not in ("video", "image")]
    try:
        spec = DemoSpec(
            episodes=episodes,
            frames=frames,
            cameras=cameras,
            size=parse_picture_size(size),
            store="image" if "image" in stored else "video",
            codec=codecs[-1] if codecs else "av1",  # type: ignore[arg-type]  # checked by DemoSpec
            version=version,  # type: ignore[arg-type]  # checked by DemoSpec
            fps=fps,
            seed=seed,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with ProgressReport() as progress:
        made = make_demo_dataset(
            path, spec, on_episode=lambda done: progress.show("Episodes", done, episodes)
        )
    print_line(f"Made {made}. Look inside: roboreel info {made}")
