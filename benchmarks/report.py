"""Show a result: a table for the terminal, JSON for programs, a plot for the README."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.plot import write_plot
from benchmarks.results import OURS, Column, Row, groups, number, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.console import Console

    from benchmarks.origin import Origin

__all__ = ["print_table", "write"]


def print_table(
    title: str, rows: Sequence[Row], columns: Sequence[Column], console: Console
) -> None:
    """Print one line for each step and contender, those to be compared below each other."""
    headings = [*(column.title for column in columns), f"CPU / {OURS}"]
    width = max(len(row.contender) for row in rows) + 2
    console.print(f"\n[bold]{title}[/]\n")
    console.print(_line("", headings, width), style="dim")
    for (scenario, step), group in groups(rows).items():
        console.print(f"[bold]{scenario} · {step}[/]")
        for row in group:
            values = [*(column.value(row) for column in columns), ratio(row, group)]
            style = "green" if row.contender == OURS else None
            console.print(_line(row.contender, map(number, values), width), style=style)


def _line(first: str, values: Iterable[str], width: int) -> Table:
    """Return one line as a grid: headings of groups may then be longer than a column."""
    grid = Table.grid(padding=(0, 0, 0, 1))
    grid.add_column(width=width)
    cells = list(values)
    for _ in cells:
        grid.add_column(width=9, justify="right")
    grid.add_row(f"  {first}", *cells)
    return grid


def write(
    name: str,
    title: str,
    rows: Sequence[Row],
    plots: Sequence[Column],
    folder: Path,
    origin: Origin,
) -> None:
    """Write ``<name>.json`` and ``<name>.png`` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        "name": name,
        "title": title,
        **origin.facts(),
        "rows": [
            {**asdict(row), "cpu_ratio": ratio(row, group)}
            for group in groups(rows).values()
            for row in group
        ],
    }
    text = json.dumps(result, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    write_plot(title, rows, plots, folder / f"{name}.png")
