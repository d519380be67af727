"""roboreel export: episodes as Rerun recordings."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roboreel.cli.arguments import DatasetArgument, EpisodesOption, expanded, select_episodes
from roboreel.cli.console import ProgressReport, errors, print_line, print_problem
from roboreel.dataset import Dataset, open_dataset
from roboreel.io.budget import process_budget

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nothing is read twice, so a larger budget would only hold more.
_MEMORY_BYTES = 64_000_000


def export(
    path: DatasetArgument,
    out: Annotated[
        Path, typer.Option(help="The folder to write to.", show_default=False, callback=expanded)
    ],
    episodes: EpisodesOption = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace recordings that exist.")
    ] = False,
) -> None:
    """Write one Rerun recording per episode. Images are copied, not encoded again.

    Recordings that exist are kept, so that an interrupted export can be continued.
    """
    chosen = select_episodes(open_for_export(path), episodes)
    written = write_recordings(chosen, out, overwrite=overwrite)
    print_line(f"{len(written)} recordings in {out}")
    print_line(f"Open them with: rerun {out}/*.rrd {out}/*.rbl")


def open_for_export(path: str) -> Dataset:
    """Return a dataset with the memory that an export needs."""
    process_budget().limit_bytes = _MEMORY_BYTES  # The command has the process for itself.
    return open_dataset(path)


def write_recordings(chosen: Dataset, out: Path, *, overwrite: bool = False) -> list[Path]:
    """Write the recordings of a view behind a progress bar, and return their paths."""
    from roboreel.rerun import export_episodes  # Needs the extra; other commands do not.

    with _showing(chosen) as hooks:
        return export_episodes(chosen, out, overwrite=overwrite, **hooks)


def send_recordings(chosen: Dataset, address: str) -> None:
    """Send the recordings of a view to a viewer, behind a progress bar."""
    from roboreel.rerun.export import send_episodes

    with _showing(chosen) as hooks:
        send_episodes(chosen, address, **hooks)


@contextmanager
def _showing(chosen: Dataset) -> Iterator[dict[str, Any]]:
    """Show progress, and what could not be exported."""
    with ProgressReport() as progress:
        yield {
            "on_episode": lambda done: progress.show("Episodes", done, len(chosen.episodes)),
            "on_problem": lambda text: print_problem(text, console=errors),
        }
