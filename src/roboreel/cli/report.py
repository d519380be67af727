"""roboreel report: a page about a dataset."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from roboreel.cli.console import errors, output
from roboreel.cli.episodes import select_episodes
from roboreel.dataset import open_dataset
from roboreel.report import write_report

__all__ = ["report"]


def report(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    out: Path = typer.Option(Path("report.html"), help="Where to write the page."),
    episodes: str | None = typer.Option(None, help="Which, such as 0,4,7-9; all if not given."),
) -> None:
    """Write a page that shows what is in a dataset, and what looks wrong; it needs no network."""
    with errors.status("Reading"):
        written = write_report(select_episodes(open_dataset(path), episodes), out)
    output.print(f"Wrote {escape(str(written))}", soft_wrap=True, highlight=False)
