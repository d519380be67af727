"""The rows of a result, and the columns in which they are shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "CPU_MS",
    "DEFAULT_COLUMNS",
    "DEFAULT_PLOTS",
    "DISK_MB",
    "HELD_MB",
    "OURS",
    "PEAK_MB",
    "PER_CPU_SECOND",
    "PER_SECOND",
    "WALL_MS",
    "Column",
    "Row",
    "groups",
    "note",
    "number",
    "ratio",
]

OURS = "roboreel"
"""The contender that all others are compared with."""

MEGABYTE = 1e6


@dataclass(frozen=True)
class Row:
    """What one step of one case cost, the median over the rounds."""

    scenario: str
    step: str
    contender: str
    count: int
    """How many things the step did; times in the columns are for one of them."""
    cpu_s: float
    wall_s: float
    held_bytes: float | None
    """Anonymous memory after the step, above what was held before it."""
    peak_bytes: float | None
    """The most during the step, above what was held before it."""
    disk_bytes: int
    """Growth of the watched folders: the worst round, not the median."""
    notes: Mapping[str, float] = field(default_factory=dict)
    cpu_rounds_s: tuple[float, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """One number of a row, with its unit in the title."""

    title: str
    value: Callable[[Row], float | None]


def note(name: str, title: str) -> Column:
    """Return the column of a number that cases report with ``meter.note``."""
    return Column(title, lambda row: row.notes.get(name))


def _megabytes(size: float | None) -> float | None:
    return None if size is None else size / MEGABYTE


CPU_MS = Column("CPU ms", lambda row: row.cpu_s / row.count * 1e3)
WALL_MS = Column("wall ms", lambda row: row.wall_s / row.count * 1e3)
PER_SECOND = Column("per second", lambda row: row.count / row.wall_s)
PER_CPU_SECOND = Column("per CPU second", lambda row: row.count / row.cpu_s if row.cpu_s else None)
HELD_MB = Column("held MB", lambda row: _megabytes(row.held_bytes))
PEAK_MB = Column("peak MB", lambda row: _megabytes(row.peak_bytes))
DISK_MB = Column("disk MB", lambda row: row.disk_bytes / MEGABYTE)

DEFAULT_COLUMNS = (CPU_MS, WALL_MS, PEAK_MB, HELD_MB, DISK_MB)
DEFAULT_PLOTS = (CPU_MS, PEAK_MB)


def groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows that are to be compared, by scenario and step, in the order they came."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.scenario, row.step), []).append(row)
    return grouped


def ratio(row: Row, group: Sequence[Row]) -> float | None:
    """Return how many times our CPU time a row took for each thing done; None without ours."""
    ours = next((other for other in group if other.contender == OURS), None)
    if ours is None or ours.cpu_s == 0:
        return None
    return (row.cpu_s / row.count) / (ours.cpu_s / ours.count)


def number(value: float | None) -> str:
    """Return a number with three significant digits, or a dash for none.

    Examples:
        >>> [number(value) for value in (None, 0, 0.01234, 12.34, 12345.6)]
        ['-', '0', '0.0123', '12.3', '12,346']
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == 0 or abs(value) >= 100 else f"{value:.3g}"
