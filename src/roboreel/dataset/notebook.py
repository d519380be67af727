"""A dataset as a table, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Feature

__all__ = ["to_html"]

_MOST_NAMES = 8


def to_html(path: str, summary: str, features: Mapping[str, Feature]) -> str:
    """Return a dataset as HTML: a line about it, and a table of its features."""
    heads = "".join(f"<th>{head}</th>" for head in ("feature", "dtype", "shape", "names"))
    rows = "".join(_row(name, feature) for name, feature in features.items())
    return (
        f"<p><b>Dataset</b> {escape(path)}<br>{escape(summary)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(name: str, feature: Feature) -> str:
    names = feature.names or ()
    listed = ", ".join(names[:_MOST_NAMES])
    more = f", … {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    cells = (name, feature.dtype, " x ".join(map(str, feature.shape)), listed + more)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
