"""roboreel mirror: what is kept of remote datasets, and how much room it takes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from roboreel.cli.arguments import (
    DatasetArgument,
    DryRunOption,
    EpisodesOption,
    JsonOption,
    KeepBytesOption,
    parse_size_option,
    select_episodes,
)
from roboreel.cli.commands import group_of
from roboreel.cli.console import (
    ProgressReport,
    literal,
    output,
    print_json,
    print_line,
    print_problem,
    text_table,
)
from roboreel.dataset import open_dataset

mirror = group_of("mirror")

HomeOption = Annotated[Path | None, typer.Option("--home", help="The folder of mirrors.")]


def prefetch(
    path: DatasetArgument,
    episodes: EpisodesOption = None,
    features: Annotated[
        list[str] | None,
        typer.Option("--feature", help="A feature to fetch; repeatable. Default: all."),
    ] = None,
    home: HomeOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            parser=parse_size_option,
            metavar="SIZE",
            help="The most that all mirrors may take, such as 50GB.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch a remote dataset into its mirror."""
    dataset = select_episodes(open_dataset(path, mirror=home, mirror_limit=limit), episodes)
    if not dataset.is_remote:
        if as_json:
            print_json({"url": None, "fetched_bytes": 0})
        else:
            print_line("The dataset is on this machine: there is nothing to fetch.")
        return
    with ProgressReport() as progress:
        dataset.prefetch(
            features or None, on_rows=lambda done, total: progress.show("Frames", done, total)
        )
    fetched = dataset.fetched
    assert fetched is not None
    if as_json:
        print_json({"url": dataset.url, **asdict(fetched)})
    else:
        print_line(f"{fetched}, in {dataset.path}")


@mirror.command("list")
def list_(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the mirrors, the last used first."""
    # Imported here: whoever reads local datasets needs none of it.
    from roboreel.mirror.listing import list_mirrors

    entries = list_mirrors(home)
    if as_json:
        print_json([{**asdict(entry), "path": str(entry.path)} for entry in entries])
        return
    table = text_table("dataset", "files", "MB", "MB here", "folder")
    for entry in entries:
        table.add_row(
            literal(entry.url),
            f"{entry.num_files:,}",
            f"{entry.dataset_bytes / 1e6:,.1f}",
            f"{entry.held_bytes / 1e6:,.1f}",
            literal(entry.path.name),
        )
    output.print(table)


@mirror.command()
def prune(
    keep_bytes: KeepBytesOption,
    home: HomeOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Remove the mirrors used longest ago until the rest fits."""
    from roboreel.mirror.listing import prune_mirrors

    pruned = prune_mirrors(keep_bytes, home, dry_run=dry_run)
    done = "Would remove" if dry_run else "Removed"
    for entry in pruned.removed:
        print_line(f"{done} {entry.held_bytes / 1e6:,.1f} MB of {entry.url}")
    for entry in pruned.refused:
        print_problem(f"Not removed, since a process has it open: {entry.url}")
    print_line(f"{pruned.kept_bytes / 1e6:,.1f} MB kept.")
    if pruned.refused:
        raise typer.Exit(1)
