"""The counts in docs/reliability.md: kept in a JSON file beside it, summed over runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from roboreel.files import write_atomically
from tests import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

DOCS = PROJECT / "docs"
COUNTS = DOCS / "reliability.json"
PAGE = DOCS / "reliability.md"
START, STOP = "<!-- counts: written by tests/measured.py -->", "<!-- end of counts -->"

Counts = dict[str, dict[str, dict[str, int]]]


def add_counts(
    section: str, name: str, numbers: dict[str, int], path: Path = COUNTS, **facts: int
) -> None:
    """Add numbers to those of earlier runs; facts take the place of what they were."""
    with FileLock(f"{path}.lock"):
        counts = read_counts(path)
        row = counts.setdefault(section, {}).setdefault(name, {})
        for key, number in numbers.items():
            row[key] = row.get(key, 0) + number
        row.update(facts)
        write_atomically(path, json.dumps(counts, indent=1, sort_keys=True) + "\n")


def read_counts(path: Path = COUNTS) -> Counts:
    """Return all counts by section and row."""
    counts: Counts = json.loads(path.read_text()) if path.exists() else {}
    return counts


def write_page(page: Path = PAGE, counts: Path = COUNTS) -> None:
    """Put the counts into the page, between its two marks."""
    text = page.read_text()
    before, rest = text.split(START)
    after = rest.split(STOP)[1]
    tables = "\n".join(_table(name, rows) for name, rows in read_counts(counts).items())
    write_atomically(page, f"{before}{START}\n\n{tables}\n{STOP}{after}")


def _table(title: str, rows: dict[str, dict[str, int]]) -> str:
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    total = {key: sum(row.get(key, 0) for row in rows.values()) for key in keys}
    lines = [f"| {title} | {' | '.join(keys)} |", f"|---|{'---:|' * len(keys)}"]
    for name, row in [*sorted(rows.items()), ("**all**", total)]:
        lines.append(f"| {name} | {' | '.join(_spelled(row.get(key, 0)) for key in keys)} |")
    return "\n".join(lines) + "\n"


def _spelled(number: Any) -> str:
    return f"{number:,}"


if __name__ == "__main__":
    write_page()
