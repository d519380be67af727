"""Repairs of stored statistics: computed again from the values, with true quantiles."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.opened import Opened
from roboreel.errors import DatasetError
from roboreel.format.counters import INDICES
from roboreel.format.episode_table import episode_list
from roboreel.format.json_files import read_json
from roboreel.format.paths import EPISODE_STATS_PATH, STATS_PATH
from roboreel.format.statistics import edit_stats, stores_whole_stats
from roboreel.format.stats_json import by_feature, legible_stats
from roboreel.stats import gather, new_accumulator
from roboreel.stats.compare import compare_stats

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.findings import Finding
    from roboreel.format.episode_list import EpisodeList
    from roboreel.repair.draft import Draft
    from roboreel.schema import Feature
    from roboreel.stats import FeatureStats
    from roboreel.stats.gather import Gathered

    _Place = tuple[int | None, str]
    """Number of an episode, or None for all rows together; and the feature."""

_CODES = ("RR501", "RR502", "RR503", "RR504", "RR505", "RR506")
_CONTRADICTIONS = ("RR501", "RR506")
_FILES = (STATS_PATH, EPISODE_STATS_PATH)


def cure_statistics(draft: Draft, *, deep: bool, trust_values: bool) -> None:
    """Compute the statistics that are wrong or missing.

    Args:
        draft: The repair. What it changes in the data counts as changed.
        deep: Whether images may be decoded, for the statistics of cameras.
        trust_values: Whether statistics are computed again that are sound but for this: they
            contradict the values.
    """
    found = [*draft.asked(*_CODES), *(one for one in draft.asked("RR111") if one.file in _FILES)]
    work = {one: places for one in found if (places := _places(draft, one, deep=deep))}
    places = {place for some in work.values() for place in some}
    contradicted = {place for one in work if one.code in _CONTRADICTIONS for place in work[one]}
    computed = _Computed(draft, places)
    lost: set[_Place] = set()
    for name in sorted({name for _, name in places}):
        try:
            computed.add(name)
        except (DatasetError, OSError):  # noqa: PERF203  # a finding of its own
            lost |= {place for place in places if place[1] == name}
    doubted = set()
    for place, (stored, stats) in computed.found.items():
        number, name = place
        is_camera = draft.manifest.features[name].is_camera
        if (place in contradicted or not is_camera) and _contradicts(name, stored, stats):
            doubted.add(place)
            if not trust_values:
                continue
        if number is None:
            draft.stats[name] = stats
        else:
            draft.episode_stats.setdefault(number, {})[name] = stats
    draft.contradictions = [one for one, some in work.items() if doubted & some]
    left = lost if trust_values else lost | doubted
    draft.cure([one for one, some in work.items() if not left & some])


def write_statistics(draft: Draft) -> None:
    """Write the statistics that are not part of the episode table."""
    codes = draft.codes(*_CODES, "RR111")
    if draft.stats:
        draft.write(edit_stats(draft.manifest, draft.stats), codes)
    if draft.manifest.version == "v2.1" and draft.episode_stats:
        for edit in episode_list(draft.manifest).corrections((), draft.episode_stats):
            draft.write(edit, codes)


def _places(draft: Draft, found: Finding, *, deep: bool) -> set[_Place]:
    """Return the statistics that answer a finding; none if images would be needed."""
    manifest = draft.manifest
    features = manifest.features
    named = features.keys() if found.feature is None else {found.feature} & features.keys()
    # What the check of numbers says of several features, it says of numbers.
    deep = deep and (found.code != "RR506" or found.feature is not None)
    names = [name for name in named if _can_be_counted(features[name], deep=deep)]
    numbers: list[int | None] = []
    if found.code == "RR506":
        numbers = [] if draft.position(found.episode) < 0 else [found.episode]
    elif found.file == EPISODE_STATS_PATH:
        numbers = manifest.episodes.number.tolist()
    if found.code != "RR506" and stores_whole_stats(manifest):
        numbers = [*numbers, None]
    return {(number, name) for number in numbers for name in names}


def _can_be_counted(feature: Feature, *, deep: bool) -> bool:
    if feature.is_camera:
        return deep and feature.depth is None and feature.shape[2] == 3
    return feature.kind == "number"


def _contradicts(name: str, stored: FeatureStats | None, computed: FeatureStats) -> bool:
    """Whether statistics could be those of other values: what is finite of them is not of these."""
    # Edits leave those of indices behind, and nobody normalizes by them.
    if stored is None or name in INDICES or stored.mean.size != computed.mean.size:
        return False
    finite = {}
    for key in ("min", "max", "mean", "std"):
        found, right = getattr(stored, key), getattr(computed, key).reshape(stored.shape)
        finite[key] = np.where(np.isfinite(found), found, right)
    return bool(compare_stats(name, replace(stored, **finite), computed))


class _Computed:
    """Statistics of all rows and of single episodes, feature by feature."""

    def __init__(self, draft: Draft, places: Collection[_Place]) -> None:
        self.found: dict[_Place, tuple[FeatureStats | None, FeatureStats]] = {}
        """What is stored, and what the values are."""
        self._draft = draft
        self._places = places
        self._stored = _stored(lambda: read_json(draft.manifest.root / STATS_PATH))
        self._dataset = Dataset(Opened(draft.manifest, None, None))
        self._total = len({name for _, name in places}) * len(draft.manifest.episodes)
        self._done = 0

    def add(self, name: str) -> None:
        """Compute the statistics of a feature, in one pass over its values."""
        draft, table = self._draft, self._draft.manifest.episodes
        feature = draft.manifest.features[name]
        whole = (None, name) in self._places
        stored = self._stored.get(name)
        own = episode_list(draft.context.manifest)
        total = new_accumulator(feature, stored)
        found: dict[_Place, tuple[FeatureStats | None, FeatureStats]] = {}
        for position in table.row_order.tolist():
            draft.context.report_progress("Statistics", self._done, self._total)
            self._done += 1
            number = int(table.number[position])
            parts = [total] if whole else []
            is_wanted = (number, name) in self._places
            before = _stored(partial(_entries, own, number)).get(name) if is_wanted else None
            part = new_accumulator(feature, before)
            self._count(name, position, [*parts, part] if is_wanted else parts)
            if is_wanted:
                found[number, name] = before, _finished(feature, part)
        if whole:
            found[None, name] = stored, _finished(feature, total)
        self.found |= found

    def _count(self, name: str, position: int, parts: Sequence[Gathered]) -> None:
        """Add the values of an episode, as they are after the repair."""
        manifest = self._draft.manifest
        start = int(manifest.episodes.start[position])
        stop = start + int(manifest.episodes.length[position])
        changed = self._draft.columns.get((position, name))

        def read(rows: NDArray[np.int64], names: list[str]) -> Mapping[str, NDArray[Any]]:
            if changed is None:
                return self._dataset.read(rows, names)
            return {name: np.asarray(changed)[rows - start]}

        named = [(name, part) for part in parts]
        gather(named, manifest.features, (start, stop), read)


def _finished(feature: Feature, part: Gathered) -> FeatureStats:
    return part.finish() if feature.is_camera else part.finish().per_frame(feature.shape)


def _entries(listed: EpisodeList, number: int) -> dict[str, Any]:
    return by_feature(listed.statistics_of(number)[1])


def _stored(read: Callable[[], Any]) -> dict[str, FeatureStats]:
    """Return the statistics in a file: of one that is damaged, the rest may still be a witness."""
    try:
        return legible_stats(read())
    except (DatasetError, OSError, AttributeError):
        return {}  # written anew
