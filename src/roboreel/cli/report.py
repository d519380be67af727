"""roboreel report: a page about a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roboreel.cli.arguments import DatasetArgument, EpisodesOption, select_episodes
from roboreel.cli.console import errors, print_line
from roboreel.dataset import open_dataset
from roboreel.report import write_report


def report(
    path: DatasetArgument,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    episodes: EpisodesOption = None,
) -> None:
    """Write a page about a dataset and what looks wrong in it."""
    with errors.status("Reading"):
        written = write_report(select_episodes(open_dataset(path), episodes), out)
    print_line(f"Wrote {written}")
