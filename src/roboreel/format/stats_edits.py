"""Corrections of stored statistics, feature by feature; all others stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.errors import MetadataError
from roboreel.format.edits import edit_json
from roboreel.format.json_files import read_json
from roboreel.format.paths import STATS_PATH
from roboreel.format.statistics import dataset_stats_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.format.edits import FileEdit
    from roboreel.schema import Manifest
    from roboreel.stats import FeatureStats


def stores_whole_stats(manifest: Manifest) -> bool:
    """Return whether a dataset should have statistics of all rows together; v2.1 need not."""
    return manifest.version != "v2.1" or (manifest.root / STATS_PATH).exists()


def edit_stats(manifest: Manifest, stats: Mapping[str, FeatureStats]) -> FileEdit | None:
    """Return how stats.json must change; None if not at all. An unreadable file is written anew."""
    try:
        path = manifest.root / STATS_PATH
        raw = read_json(path) if path.exists() else {}
    except MetadataError:
        raw = {}
    old: dict[str, Any] = raw if isinstance(raw, dict) else {}
    new = dataset_stats_to_json(stats, manifest.version)
    known = {name: new[name] for name in manifest.features if name in new}
    return edit_json(STATS_PATH, old, {**old, **known})
