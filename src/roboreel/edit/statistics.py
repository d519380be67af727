"""Statistics of the new dataset: numbers from their values, images from those of the episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.opened import Opened
from roboreel.edit.rows import StatsWanted
from roboreel.errors import DatasetError
from roboreel.format.counters import TASK_NUMBER
from roboreel.format.paths import STATS_PATH
from roboreel.format.statistics import read_episode_stats, read_stats, stored_stats
from roboreel.stats import ImageSampler, merge_stats, sample_stride, shape_of_stats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from roboreel.edit.context import EditContext
    from roboreel.edit.rows import RowsResult
    from roboreel.stats import FeatureStats

    CameraStats = Callable[[], Sequence[Mapping[int, Mapping[str, FeatureStats]]]]


def wanted_statistics(context: EditContext) -> StatsWanted:
    """Return which statistics must be computed from the rows."""
    numbers = {name: f for name, f in context.features.items() if f.kind == "number"}
    known = _known(context)
    shapes = {
        name: shape_of_stats(feature.shape, known.get(name)) for name, feature in numbers.items()
    }
    if context.changes_rows:
        total = shapes if stores_total(context) else {}
    else:
        renumbered = {TASK_NUMBER: shapes[TASK_NUMBER]} if TASK_NUMBER in shapes else {}
        total = renumbered if context.changes_tasks and stores_total(context) else {}
    own = shapes if stores_own(context) else {}
    # Before v3.0 there were no quantiles, and v2.0 has nothing of single episodes.
    is_new = context.layout.version.startswith("v3") or context.lacks_own
    return StatsWanted(total, own, every=context.recounts and is_new)


def stores_total(context: EditContext) -> bool:
    """Whether the new dataset has statistics of all rows together."""
    version = context.layout.version
    made = context.recounts or len(context.sources) > 1
    there = (context.sources[0].root / STATS_PATH).exists()
    return there or (made and version != "v2.1")


def stores_own(context: EditContext) -> bool:
    """Whether the new dataset has statistics of each episode."""
    if context.layout.version == "v2.0":
        return False
    return context.recounts or not context.lacks_own


def total_statistics(
    context: EditContext, rows: RowsResult, cameras: CameraStats
) -> dict[str, FeatureStats]:
    """Return the statistics of all rows that were computed.

    Args:
        context: The edit.
        rows: What the rows of the new data files say.
        cameras: Returns what `camera_statistics` does.
    """
    stats = {
        name: total.finish().per_frame(context.features[name].shape)
        for name, total in rows.totals.items()
        if name not in rows.lost
    }
    return stats | (
        _merged_images(context, cameras) if context.changes_rows and rows.totals else {}
    )


def looks_at_images(context: EditContext) -> bool:
    """Whether images are decoded for statistics of episodes.

    Only where the old dataset has none of single episodes, as v2.0 never has, and the new one must.
    """
    return context.recounts and context.lacks_own and (context.recipe.anew or stores_own(context))


def image_statistics(context: EditContext, number: int) -> dict[str, FeatureStats]:
    """Return the statistics of an episode's cameras, from some of its images."""
    piece = context.recipe.pieces[number]
    source = context.source(piece)
    dataset = Dataset(Opened(source.manifest, None, None))
    stride = 1 if context.recipe.anew else sample_stride(source.manifest.fps)
    rows = int(source.manifest.episodes.start[piece.episode]) + context.frames(number)[::stride]
    found = {}
    for name, feature in context.features.items():
        if not feature.is_camera or feature.depth is not None:
            continue
        sampler = ImageSampler(feature, 1)
        old = context.old_name(piece, name)
        for row in rows.tolist():
            sampler.take(dataset.read([row], [old], layout="hwc")[old][0])
        found[name] = sampler.gathered.finish()
    return found


def _merged_images(context: EditContext, read: CameraStats) -> dict[str, FeatureStats]:
    """Return the statistics of cameras: those of the episodes that stay, merged by count."""
    cameras = [name for name, feature in context.features.items() if feature.is_camera]
    if not cameras:
        return {}
    own = read()
    found: dict[str, list[FeatureStats]] = {}
    for number, piece in enumerate(context.recipe.pieces):
        stats = own[piece.source].get(context.old_number(number), {})
        for name in cameras:
            old = context.old_name(piece, name)
            if old in stats:
                found.setdefault(name, []).append(stats[old])
    merged = {}
    for name, parts in found.items():
        if len(parts) == len(context.recipe.pieces):
            try:
                merged[name] = merge_stats(parts)
            except ValueError:  # of different shapes: what is stored stays
                continue
    return merged


def camera_statistics(
    context: EditContext, looks: Mapping[int, Mapping[str, FeatureStats]]
) -> Sequence[Mapping[int, Mapping[str, FeatureStats]]]:
    """Return the statistics of cameras by number of the episode, for each source.

    Args:
        context: The edit.
        looks: What images say that were looked at, by new episode.
    """
    if context.recipe.anew:
        return [{context.old_number(number): own for number, own in looks.items()}]
    found = []
    for source in context.sources:
        features = source.manifest.features.items()
        cameras = [name for name, feature in features if feature.is_camera]
        found.append(dict(read_episode_stats(source.manifest, cameras)))
    return found


def _known(context: EditContext) -> dict[str | None, FeatureStats]:
    """Return some statistics of the first source that show which shape they have, by new name."""
    source, names = context.sources[0], context.recipe.names[0]
    try:
        stats = read_stats(source.manifest) if stored_stats(source.root) else context.first_stats
    except DatasetError:
        return {}
    return {names.get(name, name): one for name, one in stats.items()}
