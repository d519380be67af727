"""Plots as inline SVG; colours come from the page's style sheet."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.report.distribution import Distribution

_MOST_BARS = 20


def histogram(
    counts: NDArray[np.int64],
    edges: tuple[float, float],
    *,
    width: int = 640,
    height: int = 120,
    unit: str = "",
) -> str:
    """Return a histogram of counts over a range; each bar shows its numbers as a tooltip."""
    highest = max(int(counts.max(initial=0)), 1)
    step = width / max(len(counts), 1)
    bounds = np.linspace(*edges, len(counts) + 1).tolist()
    bars = []
    for place, count in enumerate(counts.tolist()):
        tall = height * count / highest
        tip = f"{show(bounds[place])} to {show(bounds[place + 1])}{unit}: {count:,}"
        bars.append(
            f'<rect class="bar" x="{place * step + 0.5:.2f}" y="{height - tall:.2f}" '
            f'width="{max(step - 1, 0.5):.2f}" height="{tall:.2f}" rx="1">'
            f"<title>{escape(tip)}</title></rect>"
        )
    base = f'<line class="axis" x1="0" x2="{width}" y1="{height}" y2="{height}"/>'
    return _svg(width, height + 1, "".join(bars) + base, "histogram")


def range_bar(shown: Distribution, whole: tuple[float, float], *, width: int = 220) -> str:
    """Return one element's range, on a scale shared by all elements of a feature."""
    low, high = whole
    scale = width / (high - low) if high > low else 0.0

    def at(value: float) -> float:
        # Clipped, so that an outlier does not squeeze everything else.
        return min(max((value - low) * scale, 0), width) if scale else width / 2

    tip = f"{show(shown.minimum)} to {show(shown.maximum)}, median {show(shown.median)}"
    inside = (
        f'<line class="whisker" x1="{at(shown.minimum):.2f}" x2="{at(shown.maximum):.2f}" '
        f'y1="9" y2="9"/>'
        f'<rect class="box" x="{at(shown.low):.2f}" y="4" '
        f'width="{max(at(shown.high) - at(shown.low), 1.5):.2f}" height="10" rx="2"/>'
        f'<line class="median" x1="{at(shown.median):.2f}" x2="{at(shown.median):.2f}" '
        f'y1="2" y2="16"/><title>{escape(tip)}</title>'
    )
    return _svg(width, 18, inside, "range")


def bar_list(counts: Mapping[str, int], unit: str) -> str:
    """Return a labelled bar for each count; long lists are truncated."""
    highest = max(counts.values(), default=1) or 1
    lines = [
        f'<li><span class="label">{escape(text) or "&nbsp;"}</span>'
        f'<span class="track"><span class="fill" style="width:{100 * count / highest:.1f}%"></span>'
        f'</span><span class="count">{count:,} {unit if count != 1 else unit.rstrip("s")}</span></li>'
        for text, count in list(counts.items())[:_MOST_BARS]
    ]
    more = len(counts) - _MOST_BARS
    rest = f'<p class="note">and {more:,} more</p>' if more > 0 else ""
    return f'<ul class="bars">{"".join(lines)}</ul>{rest}'


def show(value: float) -> str:
    """Return a number in four digits.

    Examples:
        >>> show(0.123456), show(1234567.0), show(3.0)
        ('0.1235', '1.235e+06', '3')
    """
    return f"{value:.4g}"


def _svg(width: int, height: int, inside: str, kind: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'preserveAspectRatio="none" role="img">{inside}</svg>'
    )
