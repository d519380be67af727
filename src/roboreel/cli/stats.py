"""roboreel stats: how the values of a dataset are distributed, and whether its metadata is right."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from roboreel.check import check_dataset
from roboreel.cli.arguments import DatasetArgument, JsonOption
from roboreel.cli.carrying_out import Where
from roboreel.cli.console import (
    literal,
    output,
    print_json,
    print_line,
    print_problem,
)
from roboreel.cli.groups import grouped
from roboreel.dataset import open_dataset
from roboreel.dataset.statistics_job import plan_statistics, stats_of
from roboreel.format.statistics import read_stats
from roboreel.format.stats_json import stats_to_json
from roboreel.stats import QUANTILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.dataset import Dataset
    from roboreel.stats import FeatureStats

_SUMMARY = ("min", "max", "mean", "std")
_MOST_ELEMENTS = 6
_NUMBER_WIDTH = 11
# Left out where the terminal is too narrow for all.
_LESS_USEFUL = ("q10", "q90")


@grouped
def stats(
    path: DatasetArgument,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compute them from the values; exit with 1 if they are wrong or missing.",
        ),
    ] = False,
    images: Annotated[
        bool,
        typer.Option("--images", help="Compute those of cameras too: every image is decoded."),
    ] = False,
    computed: Annotated[
        bool | None,
        typer.Option(
            "--computed/--stored",
            help="Those of the values, which are read, or those in the metadata. Default: stored, if there are any.",
            show_default=False,
        ),
    ] = None,
    where: Where = Where(),
    as_json: JsonOption = False,
) -> None:
    """Show the statistics that are stored, or those of the values.

    --check compares the two.
    --check, --images, --workers, --on and --job imply --computed.
    `roboreel check --only RR5` compares them too, with codes and places.
    """
    dataset = open_dataset(path)
    computes = check or images or where.is_chosen
    if computes and computed is False:
        raise typer.BadParameter(
            "--stored reads the metadata only. Leave out --check, --images, --workers, --on and "
            "--job, or say --computed."
        )
    stored = {} if computed or computes else read_stats(dataset.manifest)
    if stored or computed is False:
        if as_json:
            print_json({name: stats_to_json(one) for name, one in stored.items()})
            return
        print_stats(stored)
        print_line("These are stored in the metadata." if stored else "The metadata stores none.")
        print_line("Use --computed for those of the values, --check to compare.")
        return
    plan = plan_statistics(dataset, images=images)
    result = where.carry_out(plan, f"stats-{dataset.path.name}")
    problems = _problems(dataset) if check else None
    if as_json:
        print_json(result if problems is None else {"problems": problems, "computed": result})
    else:
        print_stats(stats_of(result))
        print_line("These are computed from the values.")
        for problem in problems or ():
            print_problem(problem)
        if problems == []:
            print_line("The stored statistics agree with the values. Quantiles are not compared.")
    if problems:
        raise typer.Exit(1)


def _problems(dataset: Dataset) -> list[str]:
    """Return what is wrong with the stored statistics, as sentences."""
    findings = check_dataset(dataset.path, tier="numbers", only=["RR5", "RR111"])
    # Other notes are habits of LeRobot. These are differences, if of numbers that nobody uses.
    differ = ("RR501", "RR506")
    return [str(one) for one in findings if one.severity != "note" or one.code in differ]


def print_stats(found: Mapping[str, FeatureStats]) -> None:
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
