"""Checks of the stored statistics against the values."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.checks import NotChecked, Scan
from roboreel.check.statistics import (
    flat_camera,
    has_whole_statistics,
    missing_statistics,
    statistics_file,
)
from roboreel.errors import DatasetError
from roboreel.findings import finding
from roboreel.format.counters import INDICES
from roboreel.format.paths import EPISODE_STATS_PATH, STATS_PATH
from roboreel.format.statistics import read_episode_stat_columns
from roboreel.io.lfs import is_lfs_pointer
from roboreel.stats.compare import compare_stats, differences, over_rows
from roboreel.stats.moments import Moments
from roboreel.words import enumerated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context
    from roboreel.check.data_file import Block
    from roboreel.findings import Finding, Severity
    from roboreel.format.statistics import EpisodeStatColumns
    from roboreel.parquet.scan import ScannedColumn


_MOST_GATHERED = 4096


class Statistics(Scan):
    """Whether the stored statistics, of all rows and of each episode, are those of the values."""

    codes = ("RR501", "RR503", "RR504", "RR506")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._totals: dict[str, Moments] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        # Gathered and then compared together: a call for each of many small files takes longer.
        self._gathered: dict[str, list[tuple[NDArray[np.int64], Moments]]] = {}
        self._num_gathered = 0
        self._lost: set[str] = set()
        self._lost_files = False
        self._of_episodes: dict[str, EpisodeStatColumns] = {}
        self._unreadable: DatasetError | None = None
        self._is_whole = has_whole_statistics(context)
        numbers = [
            name
            for name, feature in context.manifest.features.items()
            if feature.kind == "number" and not (self._is_whole and name in INDICES)
        ]
        cameras = [] if self._is_whole else context.manifest.cameras
        try:
            self._of_episodes = read_episode_stat_columns(context.manifest, [*numbers, *cameras])
        except DatasetError as error:
            self._unreadable = error

    def lose(self, feature: str | None) -> None:
        """Take note that the statistics of all rows cannot be computed."""
        if feature is None:
            self._lost_files = True
        else:
            self._lost.add(feature)

    def block(self, block: Block) -> Iterator[Finding]:
        """Add up the values, and compare those of each episode."""
        starts, positions = _segments(block)
        for name, column in block.columns.items():
            if column.values is None or not column.num_rows:
                continue
            shape = column.values.shape[1:]
            if self._shapes.setdefault(name, shape) == shape:
                part = (positions, _moments(column, starts))
                self._gathered.setdefault(name, []).append(part)
            else:
                self._lost.add(name)
        self._lost.update(self.context.manifest.features.keys() - block.columns.keys())
        self._num_gathered += len(positions)
        if self._num_gathered > _MOST_GATHERED:
            yield from self._compare_gathered()

    def pause(self) -> Iterator[Outcome]:
        """Compare the episodes that were gathered."""
        yield from self._compare_gathered()

    def state(self) -> dict[str, Any]:
        """Return the statistics of all rows so far."""
        shared = {"totals": self._totals, "shapes": self._shapes}
        return {**shared, "lost": self._lost, "lost_files": self._lost_files}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the statistics of more rows."""
        self._lost |= state["lost"]
        self._lost_files |= state["lost_files"]
        for name, total in state["totals"].items():
            shape = state["shapes"][name]
            if self._shapes.setdefault(name, shape) == shape:
                self._add(name, total)
            else:
                self._lost.add(name)

    def finish(self) -> Iterator[Outcome]:
        """Compare the statistics of all rows."""
        yield from self._compare_gathered()
        file = statistics_file(self.context)
        if file is None or is_lfs_pointer(self.context.root / file):
            for code in ("RR501", "RR506"):
                yield NotChecked(code, "There are no statistics.")
            return
        if self._unreadable is not None:
            yield finding("RR111", str(self._unreadable), file=EPISODE_STATS_PATH, fixable=True)
            yield NotChecked("RR506", str(self._unreadable))
        if self._is_whole:
            yield from self._compare_whole()
        else:
            yield from self._judge_episodes()

    def _compare_whole(self) -> Iterator[Outcome]:
        if not self.context.is_whole:
            yield NotChecked("RR501", "Only some episodes were read.")
            return
        if self._lost_files:
            yield NotChecked("RR501", "Some data files cannot be read.")
            return
        for name, total in self._totals.items():
            stored = self.context.stats.get(name)
            if stored is None:
                continue
            if name in self._lost:
                yield NotChecked("RR501", f"Some rows of {name!r} cannot be read.")
                continue
            shape = self._shapes[name] or (1,)
            size = math.prod(shape)
            computed = total.as_stats(shape, quantiles={}, nan_count=np.zeros(size, np.int64))
            for problem in compare_stats(name, stored, computed):
                severity: Severity = "note" if name in INDICES else "error"
                yield finding("RR501", problem, severity=severity, file=STATS_PATH, feature=name)

    def _judge_episodes(self) -> Iterator[Outcome]:
        """Judge what v2.1 has in place of statistics of the whole dataset."""
        if not self._of_episodes:
            return
        features = self.context.manifest.features
        yield from missing_statistics(dict(features), self._of_episodes, EPISODE_STATS_PATH)
        for name, columns in self._of_episodes.items():
            stored = columns.std[~np.isnan(columns.mean).all(axis=1)]
            if features[name].is_camera and not (np.isfinite(stored) & (stored > 0)).all():
                yield flat_camera(name, EPISODE_STATS_PATH)

    def _compare_gathered(self) -> Iterator[Finding]:
        """Add what was gathered to the totals, and yield the episodes that differ."""
        wrong: dict[int, list[tuple[str, str]]] = {}
        for name, parts in self._gathered.items():
            moments = join_moments([part for _, part in parts])
            positions = np.concatenate([numbers for numbers, _ in parts])
            self._add(name, total_moments(moments))
            if name in self._of_episodes:
                stored = self._of_episodes[name]
                for position, says in _differences(moments, positions, stored, self._shapes[name]):
                    wrong.setdefault(position, []).append((name, says))
        self._gathered, self._num_gathered = {}, 0
        for position, problems in sorted(wrong.items()):
            yield self._wrong_episode(position, problems)

    def _add(self, name: str, total: Moments) -> None:
        self._totals[name] = self._totals[name].plus(total) if name in self._totals else total

    def _wrong_episode(self, position: int, problems: list[tuple[str, str]]) -> Finding:
        number = self.context.number(position)
        names = list(dict.fromkeys(name for name, _ in problems))
        # Where there are no others, these are what training normalizes by.
        severity: Severity = "warning" if self._is_whole else "error"
        if set(names) <= set(INDICES):
            severity = "note"
        more = f"; also {enumerated(map(repr, names[1:]))}" if len(names) > 1 else ""
        return finding(
            "RR506",
            f"Episode {number}, {names[0]!r}: {problems[0][1]}{more}.",
            severity=severity,
            file=None if self._is_whole else EPISODE_STATS_PATH,
            episode=number,
            feature=names[0] if len(names) == 1 else None,
        )


def _segments(block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the episodes of a block and the rows between them start, and which they are."""
    num_rows = max((column.num_rows for column in block.columns.values()), default=0)
    spans = block.spans
    starts = np.unique(np.concatenate([[0], spans.start, spans.stop]))
    starts = starts[starts < num_rows].astype(np.int64)
    episodes = np.full(len(starts), -1, np.int64)
    episodes[np.searchsorted(starts, spans.start)] = spans.position
    return starts, episodes


def _moments(column: ScannedColumn, starts: NDArray[np.int64]) -> Moments:
    values: NDArray[Any] = np.asarray(column.values).reshape(column.num_rows, -1)
    values = values.astype(np.float64)
    finite: NDArray[np.bool_] = np.isfinite(values)
    if column.nulls is not None:
        finite[column.nulls] = False
    return segment_moments(values, starts, finite)


def _differences(
    moments: Moments,
    positions: NDArray[np.int64],
    stored: EpisodeStatColumns,
    shape: tuple[int, ...],
) -> Iterator[tuple[int, str]]:
    """Yield the episodes whose stored statistics differ, each with what differs first."""
    inside = (positions >= 0) & np.all(moments.count > 0, axis=1)
    positions = positions[inside]
    computed = {key: getattr(moments, key)[inside] for key in ("min", "max", "mean", "std")}
    size = stored.mean.shape[1]
    if computed["mean"].shape[1] != size:
        if len(shape) < 2 or shape[-1] != size:
            return
        rows = {key: values.reshape(len(values), -1, size) for key, values in computed.items()}
        computed = over_rows(rows)
    absent = np.isnan(stored.mean[positions]).all(axis=1, keepdims=True)
    known: dict[str, NDArray[np.float64]] = {}
    for key, right in computed.items():
        found = getattr(stored, key)[positions]
        # What overflowed, or is not stored of an episode at all, is not compared.
        known[key] = np.where(np.isnan(right) | (np.isnan(found) & absent), right, found)
    said: set[int] = set()
    for row, says, _ in differences(known, computed):
        if row not in said:
            said.add(row)
            yield int(positions[row]), says


# Counts, extremes, mean and spread of many episodes at once.


def total_moments(segments: Moments) -> Moments:
    """Return the moments of all segments together."""
    count = segments.count.sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (segments.mean * segments.count).sum(axis=0) / np.maximum(count, 1)
        between = (segments.count * (segments.mean - mean) ** 2).sum(axis=0)
        spread = segments.spread.sum(axis=0) + between
    return Moments(count, segments.min.min(axis=0), segments.max.max(axis=0), mean, spread)


def join_moments(parts: Sequence[Moments]) -> Moments:
    """Return the segments of several parts, one after the other."""
    columns = (
        np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Moments)
    )
    return Moments(*columns)


def segment_moments(
    values: NDArray[np.float64], starts: NDArray[np.int64], finite: NDArray[np.bool_]
) -> Moments:
    """Return the moments of segments of rows.

    Args:
        values: ``(N, D)``, at least one row.
        starts: First row of each segment, ascending from 0; a segment ends where the next starts.
        finite: Which values count, ``(N, D)``.
    """
    lengths = np.diff(starts, append=len(values))
    count = np.add.reduceat(finite, starts, axis=0, dtype=np.int64)
    low = high = known = values
    is_whole = finite.all()
    if not is_whole:
        known = np.where(finite, values, 0.0)
        low, high = np.where(finite, values, np.inf), np.where(finite, values, -np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.add.reduceat(known, starts, axis=0) / np.maximum(count, 1)
        distance = known - np.repeat(mean, lengths, axis=0)
        if not is_whole:
            distance[~finite] = 0.0
        distance *= distance
        spread = np.add.reduceat(distance, starts, axis=0)
    return Moments(
        count,
        np.minimum.reduceat(low, starts, axis=0),
        np.maximum.reduceat(high, starts, axis=0),
        mean,
        spread,
    )


SCANS: tuple[type[Scan], ...] = (Statistics,)
