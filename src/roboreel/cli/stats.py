"""roboreel stats: how the values of a dataset are distributed, and whether its metadata is right."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from roboreel.check import check_dataset
from roboreel.cli.arguments import DatasetArgument, JsonOption
from roboreel.cli.console import (
    literal,
    output,
    print_json,
    print_line,
    print_problem,
    progress_bar,
)
from roboreel.dataset import open_dataset
from roboreel.dataset.statistics import compute_stats
from roboreel.format.statistics import stats_to_json
from roboreel.stats import QUANTILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.dataset import Dataset
    from roboreel.stats import FeatureStats

__all__ = ["stats"]

_SUMMARY = ("min", "max", "mean", "std")
_MOST_ELEMENTS = 6
_NUMBER_WIDTH = 11
# Left out where the terminal is too narrow for all.
_LESS_USEFUL = ("q10", "q90")


def stats(
    path: DatasetArgument,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compute them from the values; exit with 1 if they are wrong or missing.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the stored statistics, or check them against the values.

    `roboreel check --only RR5` says the same of them, with codes and places.
    """
    dataset = open_dataset(path)
    if not check:
        found = dataset.stats
        if as_json:
            print_json({name: stats_to_json(one) for name, one in found.items()})
        else:
            _print_stats(found)
        return
    computed = _compute(dataset)
    findings = check_dataset(dataset.path, tier="numbers", only=["RR5", "RR111"])
    problems = [str(found) for found in findings.at_least("warning")]
    if as_json:
        raw = {name: stats_to_json(one) for name, one in computed.items()}
        print_json({"problems": problems, "computed": raw})
    else:
        _print_stats(computed)
        for problem in problems:
            print_problem(problem)
        if not problems:
            print_line("The metadata agrees with the values.")
    if problems:
        raise typer.Exit(1)


def _compute(dataset: Dataset) -> Mapping[str, FeatureStats]:
    with progress_bar() as progress:
        bar = progress.add_task("Frames", total=len(dataset))
        return compute_stats(dataset, on_samples=lambda n: progress.update(bar, completed=n))


def _print_stats(found: Mapping[str, FeatureStats]) -> None:
    """Print a line of numbers per element, under the name of its feature."""
    keys = [*_SUMMARY, *QUANTILES]
    if output.width < _NUMBER_WIDTH * len(keys):
        keys = [key for key in keys if key not in _LESS_USEFUL]
    print_line("".join(f"{key:>{_NUMBER_WIDTH}}" for key in keys))
    for name, one in found.items():
        count = int(one.count.max(initial=0))
        output.print(f"[bold]{literal(name)}[/] ({count:,} values)", soft_wrap=True)
        columns = [_column(one, key) for key in keys]
        for cells in islice(zip(*columns, strict=True), _MOST_ELEMENTS):
            print_line("".join(f"{cell:>{_NUMBER_WIDTH}}" for cell in cells))
        if one.mean.size > _MOST_ELEMENTS:
            print_line(f"{'…':>{_NUMBER_WIDTH}} {one.mean.size - _MOST_ELEMENTS} more")


def _column(one: FeatureStats, key: str) -> list[str]:
    values = one.quantiles.get(key) if key in QUANTILES else getattr(one, key)
    if values is None:
        return ["-"] * one.mean.size
    return [f"{value:.4g}" for value in values.reshape(-1)]
