"""roboreel export: episodes as Rerun recordings."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import typer
from rich.markup import escape

from roboreel.cli.console import errors, output, progress_bar
from roboreel.cli.episodes import select_episodes
from roboreel.dataset import Dataset, open_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["export", "send_recordings", "write_recordings"]

# Nothing is read twice: what is held beyond this only makes memory grow.
_MEMORY = "64MB"


class _Hooks(TypedDict):
    """What an export calls on its way."""

    on_episode: Callable[[int], object]
    on_problem: Callable[[str], object]


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
    with _showing(chosen) as hooks:
        return export_episodes(chosen, out, overwrite=overwrite, **hooks)


def send_recordings(path: Path, episodes: str | None, address: str) -> None:
    """Send the recordings of some episodes to a viewer, with a bar."""
    from roboreel.rerun.export import send_episodes

    chosen = select_episodes(open_dataset(path, memory=_MEMORY), episodes)
    with _showing(chosen) as hooks:
        send_episodes(chosen, address, **hooks)


@contextmanager
def _showing(chosen: Dataset) -> Iterator[_Hooks]:
    """Show how far it is, and what could not be shown."""
    with progress_bar() as progress:
        bar = progress.add_task("Episodes", total=len(chosen.episodes))
        yield {
            "on_episode": lambda done: progress.update(bar, completed=done),
            "on_problem": lambda text: errors.print(f"[yellow]Problem:[/] {escape(text)}"),
        }
