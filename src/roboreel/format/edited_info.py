"""What info.json and other files of meta/ say of a dataset that is made from others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from roboreel.format.features import feature_to_json
from roboreel.format.info_edits import with_version
from roboreel.format.limits import FILE_SIZES_MB

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from roboreel.schema import Manifest

    Raw = dict[str, Any]
    Names = Mapping[str, str | None]

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


def renamed_keys(content: bytes, names: Names) -> bytes | None:
    """Return a JSON file of meta/ in which ``original_key`` names features; None if it stays.

    GR00T's ``modality.json`` says by these which features belong together.
    """
    try:
        said = json.loads(content)
        changed = _renamed(said, {old: new for old, new in names.items() if new is not None})
        return None if changed == said else json.dumps(changed, indent=4).encode()
    except (ValueError, RecursionError):  # It is no JSON, or no file of GR00T is nested so deep.
        return None


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
