"""roboreel stats: how the values of a dataset are distributed, and whether its metadata is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from roboreel.cli.console import output, progress_bar
from roboreel.dataset import open_dataset
from roboreel.dataset.statistics import compute_stats
from roboreel.format.statistics import read_stats, stats_to_json
from roboreel.stats import QUANTILES
from roboreel.stats.compare import compare_stats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.stats import FeatureStats

__all__ = ["stats"]

_MOST_ELEMENTS = 6


def stats(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    check: bool = typer.Option(
        False, "--check", help="Compute them from the values, and compare; exit with 1 if wrong."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show the statistics that the metadata holds, or check them against the values."""
    dataset = open_dataset(path)
    if not check:
        _show(dataset.stats, as_json)
        return
    computed = _compute(dataset)
    stored = read_stats(dataset.manifest)
    problems = [
        problem
        for name, true in computed.items()
        for problem in compare_stats(name, stored.get(name), true)
    ]
    if as_json:
        raw = {name: stats_to_json(one) for name, one in computed.items()}
        print(json.dumps({"problems": problems, "computed": raw}, indent=2))
    else:
        _show(computed, as_json=False)
        for problem in problems:
            output.print(f"[yellow]Problem:[/] {escape(problem)}", soft_wrap=True)
        if not problems:
            output.print("The metadata agrees with the values.")
    if problems:
        raise typer.Exit(1)


def _compute(dataset: Dataset) -> Mapping[str, FeatureStats]:
    with progress_bar() as progress:
        bar = progress.add_task("Frames", total=len(dataset))
        return compute_stats(dataset, on_samples=lambda n: progress.update(bar, completed=n))


def _show(found: Mapping[str, FeatureStats], as_json: bool) -> None:
    if as_json:
        raw = {name: stats_to_json(one) for name, one in found.items()}
        print(json.dumps(raw, indent=2))
        return
    table = Table("feature", "min", "max", "mean", "std", *QUANTILES, "count")
    table.columns[0].no_wrap = True
    for name, one in found.items():
        columns = [one.min, one.max, one.mean, one.std]
        columns += [one.quantiles[key] for key in QUANTILES if key in one.quantiles]
        cells = [_cell(values) for values in columns]
        cells += [""] * (4 + len(QUANTILES) - len(cells))
        table.add_row(escape(name), *cells, f"{int(one.count.max(initial=0)):,}")
    output.print(table)


def _cell(values: NDArray[Any]) -> str:
    flat = values.reshape(-1)
    more = f"\n… {len(flat) - _MOST_ELEMENTS} more" if len(flat) > _MOST_ELEMENTS else ""
    return "\n".join(f"{value:.4g}" for value in flat[:_MOST_ELEMENTS]) + more
