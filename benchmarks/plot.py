"""Draw a result: one panel for each quantity, bars on a logarithmic scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.results import OURS, Column, Row, groups, number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["write_plot"]

_OUR_COLOUR = "#d1495b"
_PEER_COLOURS = ("#30638e", "#7b9fbf", "#3c7a5e", "#8fb8a0", "#8d6a9f", "#c9b27c", "#777777")
_BAR_INCHES = 0.26


def write_plot(title: str, rows: Sequence[Row], plots: Sequence[Column], path: Path) -> None:
    """Write a picture with one panel for each column."""
    import matplotlib as mpl

    mpl.use("Agg")  # no display is needed, or opened
    from matplotlib import pyplot as plt

    lines = len(rows) + len(groups(rows))
    size = (5.2 * len(plots) + 2.0, max(2.2, _BAR_INCHES * lines + 1.2))
    figure, panels = plt.subplots(1, len(plots), figsize=size, sharey=True, squeeze=False)
    for panel, column in zip(panels[0], plots, strict=True):
        _draw(panel, rows, column)
    panels[0][0].invert_yaxis()  # once: the panels share it
    handles, labels = panels[0][0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    figure.legend(
        unique.values(), unique.keys(), loc="lower left", ncols=len(unique), frameon=False
    )
    figure.tight_layout(rect=(0, 0.35 / size[1], 1, 1))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw(panel: Any, rows: Sequence[Row], column: Column) -> None:  # noqa: ANN401  matplotlib is untyped
    colours = _colours(rows)
    values = [value for row in rows if (value := column.value(row))]
    least = min(values, default=1.0) / 3
    position, ticks = 0.0, {}
    for (scenario, step), group in groups(rows).items():
        ticks[f"{scenario}\n{step}"] = position + (len(group) - 1) / 2
        for row in group:
            value = column.value(row)
            colour = colours[row.contender]
            panel.barh(position, (value or least) - least, 0.85, least, color=colour)
            panel.barh(position, 0, color=colour, label=row.contender)
            label = f" {number(value)}"
            panel.text(value or least, position, label, va="center", fontsize=8)
            position += 1
        position += 0.8
    panel.set_xscale("log")
    panel.set_xlim(least, max(values, default=1.0) * 6)
    panel.set_yticks(list(ticks.values()), list(ticks), fontsize=8)
    panel.set_title(column.title, loc="left", fontsize=10)
    panel.grid(axis="x", color="#dddddd")
    panel.set_axisbelow(True)
    panel.spines[["top", "right", "left"]].set_visible(False)


def _colours(rows: Sequence[Row]) -> dict[str, str]:
    peers = list(dict.fromkeys(row.contender for row in rows if row.contender != OURS))
    wheel = {peer: _PEER_COLOURS[i % len(_PEER_COLOURS)] for i, peer in enumerate(peers)}
    return {OURS: _OUR_COLOUR, **wheel}
