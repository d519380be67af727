"""What info.json, stats.json and other files of meta/ say of a dataset that is made from others."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from roboreel.format.features import feature_to_json
from roboreel.format.info_edits import with_version
from roboreel.format.limits import FILE_SIZES_MB
from roboreel.format.paths import (
    EPISODE_LINES_PATH,
    EPISODE_STATS_PATH,
    EPISODES_FOLDER,
    INFO_PATH,
    STATS_PATH,
    SUBTASKS_PATH,
    TASKS_PATH,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from roboreel.schema import Manifest

    Raw = dict[str, Any]
    Names = Mapping[str, str | None]

KNOWN_METADATA = (
    INFO_PATH,
    STATS_PATH,
    TASKS_PATH,
    SUBTASKS_PATH,
    EPISODE_LINES_PATH,
    EPISODE_STATS_PATH,
    "meta/tasks.jsonl",
    EPISODES_FOLDER,
)
"""Files and folders of meta/ that we write; others are kept."""

_SPLIT = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*")
_OF_V2 = ("total_videos", "total_chunks")


def edited_info(
    raw: Raw, manifest: Manifest, names: Names, *, coded: Collection[str], splits: Mapping[str, Any]
) -> Raw:
    """Return what info.json says of a new dataset; keys that are unknown to us stay.

    Args:
        raw: What that of the first source says.
        manifest: The new dataset.
        names: New names of the source's features.
        coded: Features that are described anew, by their new names.
        splits: The new splits.
    """
    version = manifest.version
    was_v3 = str(raw.get("codebase_version", version)).lstrip("v").startswith("3")
    info = {key: value for key, value in raw.items() if key not in _OF_V2 or not _is_v3(version)}
    if _is_v3(version) and not was_v3:
        info = {**FILE_SIZES_MB, **info}
    if was_v3 and not _is_v3(version):
        info = {key: value for key, value in info.items() if key not in FILE_SIZES_MB}
    if info.get("codebase_version") != version:
        info = with_version(info, version)
    videos = next((files.template for files in manifest.video_files.values()), None)
    info |= {
        "total_episodes": len(manifest.episodes),
        "total_frames": manifest.episodes.num_rows,
        "total_tasks": len(manifest.tasks),
        "fps": manifest.fps if manifest.fps != info.get("fps") else info["fps"],
        "splits": dict(splits),
        "data_path": manifest.data_files.template,
        "video_path": videos or (raw.get("video_path") if _has_videos(manifest) else None),
        "features": _features(raw.get("features") or {}, manifest, names, coded),
    }
    if not _is_v3(version):
        info["total_videos"] = len(manifest.episodes) * len(manifest.video_files)
        info["total_chunks"] = -(-len(manifest.episodes) // manifest.files_per_chunk)
    return info


def moved_splits(raw: Raw, origins: Sequence[int], old_count: int) -> dict[str, Any]:
    """Return the splits of info.json after episodes came, went or were cut.

    Args:
        raw: What info.json says; its splits are spans of episode numbers, such as ``"0:40"``.
        origins: The old number of each new episode, ascending.
        old_count: How many episodes there were.

    Examples:
        >>> moved_splits({"splits": {"train": "0:3", "val": "3:5"}}, [0, 2, 3, 4, 4], 5)
        {'train': '0:2', 'val': '2:5'}
    """
    splits = raw.get("splits")
    if not isinstance(splits, dict) or not splits:
        return {"train": f"0:{len(origins)}"}
    if list(splits.values()) == [f"0:{old_count}"]:  # all, even if their numbers have gaps
        return dict.fromkeys(splits, f"0:{len(origins)}")
    return {name: _moved(spelled, origins) for name, spelled in splits.items()}


def renamed_keys(content: bytes, names: Names) -> bytes | None:
    """Return a JSON file of meta/ in which ``original_key`` names features; None if it stays.

    GR00T's ``modality.json`` says by these which features belong together.
    """
    try:
        said = json.loads(content)
    except ValueError:
        return None
    changed = _renamed(said, {old: new for old, new in names.items() if new is not None})
    return None if changed == said else json.dumps(changed, indent=4).encode()


def _is_v3(version: str) -> bool:
    return version.startswith("v3")


def _has_videos(manifest: Manifest) -> bool:
    """Whether cameras are declared as video, also those that have no files."""
    return any(feature.is_video for feature in manifest.features.values())


def _features(raw: Raw, manifest: Manifest, names: Names, coded: Collection[str]) -> Raw:
    named = {names.get(name, name): entry for name, entry in raw.items()}
    kept = {name: entry for name, entry in named.items() if name is not None}
    new = {n: feature_to_json(f) for n, f in manifest.features.items() if n in coded}
    added = {n: feature_to_json(f) for n, f in manifest.features.items() if n not in kept}
    # Counters that older writers did not list are not listed now.
    return {**kept, **(added if _is_v3(manifest.version) else {}), **new}


def _moved(spelled: object, origins: Sequence[int]) -> object:
    match = _SPLIT.fullmatch(str(spelled))
    if match is None:
        return spelled
    start, stop = (sum(number < int(end) for number in origins) for end in match.groups())
    return f"{start}:{stop}"


def _renamed(said: object, names: Mapping[str, str]) -> object:
    if isinstance(said, list):
        return [_renamed(one, names) for one in said]
    if not isinstance(said, dict):
        return said
    return {
        key: names.get(value, value)
        if key == "original_key" and isinstance(value, str)
        else _renamed(value, names)
        for key, value in said.items()
    }
