"""roboreel stats: how the values of a dataset are distributed, and whether its metadata is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from roboreel.cli.console import output, progress_bar
from roboreel.dataset import open_dataset
from roboreel.dataset.statistics import compute_stats
from roboreel.format.statistics import read_stats, stats_to_json
from roboreel.stats import QUANTILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.dataset import Dataset
    from roboreel.stats import FeatureStats

__all__ = ["compare_stats", "stats"]

_EXACT = ("min", "max", "mean", "std")
# Statistics are stored as float32 by some, and added up in another order by all.
_TOLERANCE = 1e-3
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


def compare_stats(name: str, stored: FeatureStats | None, true: FeatureStats) -> list[str]:
    """Return what is wrong with the stored statistics of a feature, one sentence each.

    What LeRobot is known to write otherwise is not wrong: statistics of a feature with several
    axes over the last one alone, and quantiles that are averages of those of the episodes. The
    first are compared with values put together likewise; of the second only the order is checked.
    """
    if stored is None:
        return [f"{name!r} has no statistics."]
    shown = {key: getattr(true, key) for key in _EXACT}
    if stored.shape != true.shape and stored.mean.size != true.mean.size:
        if true.mean.ndim < 2 or stored.mean.size != true.shape[-1]:
            return [f"{name!r} has statistics of shape {stored.shape}; its values: {true.shape}."]
        shown = _over_last_axis(true)
    problems = []
    for key, expected in shown.items():
        found = getattr(stored, key).reshape(-1)
        wrong = _differing(found, expected.reshape(-1), true)
        if len(wrong):
            first = int(wrong[0])
            problems.append(
                f"{name!r}: {key} is {found[first]:.6g} in the metadata and "
                f"{expected.reshape(-1)[first]:.6g} in the values, at element {first} "
                f"({len(wrong)} of {len(found)} differ)."
            )
    return problems + _misplaced_quantiles(name, stored)


def _over_last_axis(true: FeatureStats) -> dict[str, NDArray[np.float64]]:
    axes = tuple(range(true.mean.ndim - 1))
    mean = true.mean.mean(axis=axes)
    variance = (true.std**2 + (true.mean - mean) ** 2).mean(axis=axes)
    return {
        "min": true.min.min(axis=axes),
        "max": true.max.max(axis=axes),
        "mean": mean,
        "std": np.sqrt(variance),
    }


def _differing(
    found: NDArray[np.float64], expected: NDArray[np.float64], true: FeatureStats
) -> NDArray[np.int64]:
    """Return the elements that differ by more than rounding does, measured by the values' spread."""
    scale = np.nanmax(np.abs([true.min, true.max]), initial=0.0) + 1e-6
    close = np.isclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True)
    return np.flatnonzero(~close)


def _misplaced_quantiles(name: str, stored: FeatureStats) -> list[str]:
    slack = _TOLERANCE * (np.abs(stored.max - stored.min) + 1e-6)
    for key, values in stored.quantiles.items():
        if ((values < stored.min - slack) | (values > stored.max + slack)).any():
            return [f"{name!r}: {key} lies outside of its minimum and maximum."]
    return []


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
