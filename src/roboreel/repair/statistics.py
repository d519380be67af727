"""Repairs of stored statistics: computed again from the values, with true quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.opened import Opened
from roboreel.errors import DatasetError
from roboreel.format.episode_edits import edit_episode_stats
from roboreel.format.episode_stats_reader import EpisodeStatsReader
from roboreel.format.paths import EPISODE_STATS_PATH, STATS_PATH
from roboreel.format.stats_edits import edit_stats, stores_whole_stats
from roboreel.repair.changes import written
from roboreel.stats import Accumulator, ImageAccumulator

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from roboreel.findings import Finding
    from roboreel.repair.draft import Draft
    from roboreel.schema import Feature
    from roboreel.stats import FeatureStats

    AnyAccumulator = Accumulator | ImageAccumulator

__all__ = ["cure_statistics", "write_statistics"]

_CODES = ("RR501", "RR502", "RR503", "RR504", "RR505", "RR506")
_FILES = (STATS_PATH, EPISODE_STATS_PATH)
_IMAGES_AT_ONCE = 16


def cure_statistics(draft: Draft, *, deep: bool) -> None:
    """Compute the statistics that are wrong or missing.

    Args:
        draft: The repair. What it changes in the data counts as changed.
        deep: Whether images may be decoded, for the statistics of cameras.
    """
    found = [*draft.asked(*_CODES), *(one for one in draft.asked("RR111") if one.file in _FILES)]
    work = {one: _features(draft, one, deep=deep) for one in found}
    names = sorted({name for some in work.values() for name in some})
    if not names:
        return
    computed = _Computed(draft, _episodes(draft, found), names)
    lost: set[str] = set()
    for name in names:
        try:
            computed.add(name)
        except (DatasetError, OSError):  # noqa: PERF203  # a finding of its own
            lost.add(name)
    if stores_whole_stats(draft.manifest):
        draft.stats |= computed.of_all
    draft.episode_stats |= {n: stats for n, stats in computed.of_episodes.items() if stats}
    draft.cure([one for one, some in work.items() if some and not lost & set(some)])


def write_statistics(draft: Draft) -> None:
    """Write the statistics that are not part of the episode table."""
    codes = draft.codes(*_CODES, "RR111")
    edit = edit_stats(draft.manifest, draft.stats) if draft.stats else None
    if edit is not None:
        draft.changes.append(written(edit, codes))
    if draft.manifest.version == "v2.1" and draft.episode_stats:
        edit = edit_episode_stats(draft.manifest, draft.episode_stats)
        if edit is not None:
            draft.changes.append(written(edit, codes))


def _features(draft: Draft, found: Finding, *, deep: bool) -> list[str]:
    """Return the features whose statistics answer a finding; none if images would be needed."""
    features = draft.manifest.features
    named = list(features) if found.feature is None else [found.feature]
    return [
        name for name in named if name in features and _can_be_counted(features[name], deep=deep)
    ]


def _can_be_counted(feature: Feature, *, deep: bool) -> bool:
    if feature.is_camera:
        return deep and feature.depth is None and feature.shape[2] == 3
    return feature.kind == "number"


def _episodes(draft: Draft, found: Sequence[Finding]) -> set[int]:
    """Return the positions of the episodes whose own statistics change."""
    if draft.manifest.version == "v2.0":
        return set()
    if any(one.file == EPISODE_STATS_PATH and one.episode is None for one in found):
        return set(range(len(draft.manifest.episodes)))
    numbers = {one.episode for one in found if one.code == "RR506"}
    return {draft.position(number) for number in numbers} - {-1}


class _Computed:
    """Statistics of all rows and of single episodes, feature by feature."""

    def __init__(self, draft: Draft, episodes: Collection[int], names: Sequence[str]) -> None:
        self.of_all: dict[str, FeatureStats] = {}
        self.of_episodes: dict[int, dict[str, FeatureStats]] = {}
        self._draft = draft
        self._episodes = episodes
        self._dataset = Dataset(Opened(draft.manifest, None, None))
        self._total = len(names) * len(draft.manifest.episodes)
        self._done = 0

    def add(self, name: str) -> None:
        """Compute the statistics of a feature, in one pass over its values."""
        draft, table = self._draft, self._draft.manifest.episodes
        whole = stores_whole_stats(draft.manifest)
        stored = draft.context.stats.get(name)
        own = EpisodeStatsReader(draft.context.manifest)
        total = self._accumulator(name, stored)
        for position in table.row_order.tolist():
            draft.context.report_progress("Statistics", self._done, self._total)
            self._done += 1
            if not whole and position not in self._episodes:
                continue
            number = int(table.number[position])
            if position in self._episodes:
                before = _stored(own, number).get(name)
                part = self._accumulator(name, before)
                self._count(name, position, part)
                self.of_episodes.setdefault(number, {})[name] = self._finished(name, part)
            if whole:
                self._count(name, position, total)
        if whole:
            self.of_all[name] = self._finished(name, total)

    def _accumulator(self, name: str, stored: FeatureStats | None) -> AnyAccumulator:
        feature = self._draft.manifest.features[name]
        if feature.is_camera:
            return ImageAccumulator(feature.shape[2])
        return Accumulator(_shape(feature, stored))

    def _finished(self, name: str, part: AnyAccumulator) -> FeatureStats:
        feature = self._draft.manifest.features[name]
        return part.finish() if feature.is_camera else part.finish().per_frame(feature.shape)

    def _count(self, name: str, position: int, into: AnyAccumulator) -> None:
        table = self._draft.manifest.episodes
        start, length = int(table.start[position]), int(table.length[position])
        changed = self._draft.columns.get((position, name))
        if isinstance(into, Accumulator):
            rows = np.arange(start, start + length)
            values: Any = self._dataset.read(rows, [name])[name] if changed is None else changed
            into.update(np.asarray(values).reshape(-1, *into.shape))
            return
        for first in range(start, start + length, _IMAGES_AT_ONCE):
            rows = np.arange(first, min(first + _IMAGES_AT_ONCE, start + length))
            into.update(self._dataset.read(rows, [name])[name])


def _shape(feature: Feature, stored: FeatureStats | None) -> tuple[int, ...]:
    """Return the shape of a feature's statistics: LeRobot's, over the last axis, if it has that."""
    last = feature.shape[-1:]
    if stored is not None and len(feature.shape) > 1 and stored.shape == last:
        return last
    return feature.shape


def _stored(reader: EpisodeStatsReader, number: int) -> dict[str, FeatureStats]:
    try:
        return reader.read(number)
    except (DatasetError, OSError, ValueError):
        return {}  # written anew
