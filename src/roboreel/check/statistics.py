"""Checks of the stored statistics that need no values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.check.checks import Check
from roboreel.errors import DatasetError
from roboreel.findings import finding
from roboreel.format.counters import COUNTERS
from roboreel.format.paths import EPISODE_STATS_PATH, STATS_PATH
from roboreel.format.statistics import read_stats
from roboreel.io.lfs import is_lfs_pointer
from roboreel.stats.compare import quantile_problems

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from roboreel.check.context import Context
    from roboreel.findings import Finding, Severity
    from roboreel.schema import Feature
    from roboreel.stats import FeatureStats


def statistics_file(context: Context) -> str | None:
    """Return the file that the dataset's statistics come from; None if there is none."""
    there = [path for path in (STATS_PATH, EPISODE_STATS_PATH) if path in context.listing]
    return there[0] if there else None


def has_whole_statistics(context: Context) -> bool:
    """Return whether the dataset stores statistics of all episodes together."""
    return statistics_file(context) == STATS_PATH


def readable_statistics(context: Context) -> Iterator[Finding]:
    """Yield why statistics cannot be read: the file is empty or damaged."""
    file = statistics_file(context)
    if file is None or is_lfs_pointer(context.root / file):
        return  # RR503, RR107
    if context.listing.size_bytes(file) == 0:
        yield finding("RR111", "The file of statistics is empty.", file=file, fixable=True)
    elif file == STATS_PATH:
        try:
            read_stats(context.manifest)
        except DatasetError as error:
            yield finding("RR111", str(error), file=file, fixable=True)


def stored_statistics(context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the statistics of the whole dataset, judged by themselves."""
    stats, features = context.stats, context.manifest.features
    if statistics_file(context) is None:
        version, count = context.manifest.version, len(context.manifest.episodes)
        wanted = EPISODE_STATS_PATH if version == "v2.1" else STATS_PATH
        yield from missing_statistics(features if count else {}, (), wanted)
        return
    if not stats:
        return
    yield from missing_statistics(features, stats, STATS_PATH)
    for name, stored in stats.items():
        for problem in quantile_problems(name, stored):
            yield finding("RR502", problem, file=STATS_PATH, feature=name)
        if name in features and features[name].is_camera:
            if not (np.isfinite(stored.std) & (stored.std > 0)).all():
                yield flat_camera(name, STATS_PATH)
            elif is_overflown(stored):
                yield finding(
                    "RR505",
                    f"The stored std of {name!r}, {float(stored.std.min()):.4g}, is too small for "
                    "the stored quantiles: LeRobot 0.4.0 to 0.5.1 squared pixels in 8 bits.",
                    file=STATS_PATH,
                    feature=name,
                )
    if "index" in stats and _is_averaged(stats["index"]):
        yield finding(
            "RR505",
            "The stored quantiles are averages over the episodes, as LeRobot computes them since "
            "0.4.0: q01 and q99 are closer together than those of the values.",
            file=STATS_PATH,
        )


def missing_statistics(
    features: Mapping[str, Feature], there: Collection[str], file: str
) -> Iterator[Finding]:
    """Yield the features that have no statistics. Counters need none."""
    for name, feature in features.items():
        if name in there or name in COUNTERS or feature.is_text:
            continue
        # Policies normalize states and actions; images are often left as they are.
        severity: Severity = "warning" if feature.kind == "number" else "note"
        yield finding(
            "RR503", f"{name!r} has no statistics.", severity=severity, file=file, feature=name
        )


def flat_camera(name: str, file: str) -> Finding:
    """Return the finding that the deviation of a camera cannot be right."""
    return finding(
        "RR504",
        f"The stored std of the camera {name!r} is 0 or not a number: normalized images would be "
        "infinite.",
        file=file,
        feature=name,
    )


def _has_no_others(context: Context) -> bool:
    """Return whether no file of statistics by episode stands in for one of the whole dataset."""
    return statistics_file(context) != EPISODE_STATS_PATH


def is_overflown(stored: FeatureStats) -> bool:
    """Return whether a deviation is less than half of what the quantiles prove it to be."""
    if not {"q10", "q90"} <= stored.quantiles.keys():
        return False
    low, high = stored.quantiles["q10"], stored.quantiles["q90"]
    if not low.shape == high.shape == stored.std.shape == stored.mean.shape:
        return False
    # A tenth of the values lies beyond each of the two.
    variance = 0.1 * (stored.mean - low).clip(0) ** 2 + 0.1 * (high - stored.mean).clip(0) ** 2
    return bool((stored.std < 0.5 * np.sqrt(variance)).any())


def _is_averaged(index: FeatureStats) -> bool:
    """Return whether quantiles are averages: the rows are counted evenly, so theirs are known."""
    low = index.quantiles.get("q01")
    if low is None or low.size != 1 or index.min.size != 1 or index.max.size != 1:
        return False
    span = float(index.max.item() - index.min.item())
    return span > 0 and float(low.item() - index.min.item()) > 0.05 * span


CHECKS = (
    Check(("RR111",), readable_statistics),
    Check(("RR502", "RR503", "RR504", "RR505"), stored_statistics, applies=_has_no_others),
)
