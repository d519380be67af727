"""roboreel export: episodes as Rerun recordings."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from roboreel.cli.console import errors, output, progress_bar
from roboreel.cli.episodes import select_episodes
from roboreel.dataset import open_dataset

__all__ = ["export", "write_recordings"]

# Nothing is read twice: what is held beyond this only makes memory grow.
_MEMORY = "64MB"


def export(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    out: Path = typer.Option(..., help="Folder for the recordings."),
    episodes: str | None = typer.Option(None, help="Which, such as 0,4,7-9; all if not given."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Write again what is there."),
) -> None:
    """Write one Rerun recording per episode and one layout for all; images stay as they are.

    Recordings that are there already are left alone, so that an interrupted export goes on.
    """
    written = write_recordings(path, episodes, out, overwrite=overwrite)
    output.print(
        f"{len(written)} recordings in {escape(str(out))}. Look at them: "
        f"rerun {escape(str(out))}/*.rrd {escape(str(out))}/*.rbl",
        soft_wrap=True,
        highlight=False,
    )


def write_recordings(
    path: Path, episodes: str | None, out: Path, *, overwrite: bool = False
) -> list[Path]:
    """Write the recordings of some episodes, with a bar; return where they are."""
    from roboreel.rerun import export_episodes  # Needs the extra; other commands do not.

    chosen = select_episodes(open_dataset(path, memory=_MEMORY), episodes)
    with progress_bar() as progress:
        bar = progress.add_task("Episodes", total=len(chosen.episodes))
        return export_episodes(
            chosen,
            out,
            overwrite=overwrite,
            on_episode=lambda done: progress.update(bar, completed=done),
            on_problem=lambda text: errors.print(f"[yellow]Problem:[/] {escape(text)}"),
        )
