"""info.json ⇄ Info."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roboreel.errors import MetadataError, NotADatasetError, UnsupportedVersionError
from roboreel.findings import finding
from roboreel.format.counters import COUNTERS
from roboreel.format.features import feature_from_json, feature_to_json
from roboreel.format.json_files import read_object, whole, write_json
from roboreel.format.limits import FILE_SIZES_MB, FILES_PER_CHUNK
from roboreel.format.paths import (
    EPISODE_LINES_PATH,
    EPISODE_STATS_PATH,
    EPISODES_FOLDER,
    TASKS_PATH,
    info_path,
)
from roboreel.numbers import is_rate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.findings import Finding
    from roboreel.schema import Feature, Manifest

_FILE = "meta/info.json"
_KNOWN = {
    "codebase_version",
    "robot_type",
    "total_episodes",
    "total_frames",
    "total_tasks",
    "chunks_size",
    "fps",
    "splits",
    "data_path",
    "video_path",
    "features",
}


@dataclass(frozen=True, slots=True)
class Info:
    """What info.json says, in terms that all versions share."""

    path: Path
    version: tuple[int, int]
    fps: float
    features: Mapping[str, Feature]
    data_path: str
    video_path: str | None
    robot_type: str | None = None
    chunks_size: int = FILES_PER_CHUNK
    totals: Mapping[str, int] = field(default_factory=dict)
    """What ``total_episodes``, ``total_frames`` and ``total_tasks`` claim, if present."""
    splits: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Finding, ...] = ()

    @property
    def version_name(self) -> str:
        """The version as LeRobot spells it."""
        return f"v{self.version[0]}.{self.version[1]}"

    def video_template(self, camera: str) -> str:
        """Return the path template of a camera's videos.

        Raises:
            MetadataError: There is none.
        """
        if self.video_path is None:
            raise MetadataError(
                f"Camera {camera!r} is stored as video, but video_path is null in "
                f"{str(self.path)!r}."
            )
        return self.video_path

    def to_json(self) -> dict[str, Any]:
        """Return the object to write, its keys in LeRobot's order."""
        return {
            "codebase_version": self.version_name,
            "robot_type": self.robot_type,
            **self.totals,
            "chunks_size": self.chunks_size,
            **self.extra,
            "fps": self.fps,
            "splits": dict(self.splits),
            "data_path": self.data_path,
            "video_path": self.video_path,
            "features": {name: feature_to_json(f) for name, f in self.features.items()},
        }


def read_info(root: Path) -> Info:
    """Read info.json.

    Raises:
        NotADatasetError: There is none.
        UnsupportedVersionError: Its version is not supported.
        MetadataError: It cannot be understood.
    """
    path = info_path(root)
    if not path.is_file():
        _refuse_v1(root)
        raise NotADatasetError(what_is_there(root))
    raw = read_object(path)
    _check_storage(raw.get("storage_format"), path)
    features, problems = _features(raw.get("features"), path)
    version, doubts = _recognise_version(raw.get("codebase_version"), root, path)
    problems += doubts
    return Info(
        path=path,
        version=version,
        fps=_fps(raw.get("fps"), path),
        features=features,
        data_path=_text(raw, "data_path", path),
        video_path=_text(raw, "video_path", path) if raw.get("video_path") is not None else None,
        robot_type=None if raw.get("robot_type") is None else str(raw["robot_type"]),
        chunks_size=_positive(raw.get("chunks_size", FILES_PER_CHUNK), "chunks_size", path),
        totals=_totals(raw),
        splits=_splits(raw.get("splits")),
        extra={key: value for key, value in raw.items() if key not in _KNOWN},
        problems=problems,
    )


def write_info(
    path: Path, manifest: Manifest, *, counts: tuple[int, int] | None = None, sync: bool = True
) -> None:
    """Write info.json, by which a folder is the dataset that a manifest describes.

    Args:
        path: Where to write.
        manifest: The dataset.
        counts: How many episodes and frames there are, if the manifest does not list them all.
        sync: Whether the file must be on the disk when this returns.
    """
    count, num_rows = counts or (len(manifest.episodes), manifest.episodes.num_rows)
    version = _version(manifest.version, path)
    info = Info(
        path=path,
        version=version,
        fps=manifest.fps,
        features=manifest.features,
        data_path=manifest.data_files.template,
        video_path=next((files.template for files in manifest.video_files.values()), None),
        robot_type=manifest.robot_type,
        chunks_size=manifest.files_per_chunk,
        totals={
            "total_episodes": count,
            "total_frames": num_rows,
            "total_tasks": len(manifest.tasks),
        },
        splits=manifest.splits or {"train": f"0:{count}"},
        extra={**_own_extra(version, count, manifest), **manifest.extra},
    )
    write_json(path, info.to_json(), sync=sync)


def _own_extra(version: tuple[int, int], num_episodes: int, manifest: Manifest) -> dict[str, float]:
    if version[0] == 3:
        return FILE_SIZES_MB
    return {
        "total_videos": num_episodes * len(manifest.video_files),
        "total_chunks": -(-num_episodes // manifest.files_per_chunk),
    }


def _refuse_v1(root: Path) -> None:
    old = root / "meta_data" / "info.json"
    if old.is_file():
        raise UnsupportedVersionError(
            "The dataset has version v1, with meta_data/info.json: v2.0, v2.1 and v3.0 are "
            f"supported. Convert it with LeRobot 0.3.3 first: {str(old)!r}."
        )


def what_is_there(root: Path) -> str:
    """Return a sentence that says why there is no dataset at a path."""
    asked = f"No LeRobot dataset at {str(root)!r}: "
    if not root.exists():
        return asked + "there is no such folder."
    if not root.is_dir():
        return asked + "it is a file. Pass the folder that holds meta/info.json."
    inside = sorted(path.parent.parent for path in root.glob("*/meta/info.json"))
    inside += sorted(path.parent.parent for path in root.glob("*/*/meta/info.json"))
    if inside:
        names = ", ".join(str(path.relative_to(root)) for path in inside[:5])
        return asked + f"it has no meta/info.json, but these folders inside it do: {names}."
    return asked + "it has no meta/info.json."


def _check_storage(storage: object, path: Path) -> None:
    if storage is not None and str(storage).lower() != "parquet":
        raise UnsupportedVersionError(
            f"The frames are stored as {str(storage)!r}: only Parquet can be read. Convert the "
            f"dataset with the tool that wrote it: {str(path)!r}."
        )


def _recognise_version(
    spelled: object, root: Path, path: Path
) -> tuple[tuple[int, int], tuple[Finding, ...]]:
    """Return the version, by the layout of the folder if info.json does not say, and any doubt."""
    if spelled is not None:
        version = _version(spelled, path)
        newer = f"The version {spelled} is newer than v3.0, and is read as v3.0."
        return version, (finding("RR102", newer, file=_FILE),) if version > (3, 0) else ()
    if (root / EPISODES_FOLDER).is_dir() or (root / TASKS_PATH).exists():
        version = (3, 0)
    elif (root / EPISODE_STATS_PATH).exists():
        version = (2, 1)
    elif (root / EPISODE_LINES_PATH).exists():
        version = (2, 0)
    else:
        raise UnsupportedVersionError(
            "codebase_version is missing, and the folder has neither meta/episodes/ nor "
            f"meta/episodes.jsonl to tell it by: {str(path)!r}."
        )
    name = f"v{version[0]}.{version[1]}"
    unsaid = f"codebase_version is missing. By its files the dataset is read as {name}."
    return version, (finding("RR102", unsaid, file=_FILE, fixable=True),)


def _version(spelled: object, path: Path) -> tuple[int, int]:
    match = re.fullmatch(r"v?(\d+)(?:\.(\d+))?(?:\.\d+)?", str(spelled))
    if match is None:
        raise UnsupportedVersionError(
            f"codebase_version is {spelled!r}: v2.0, v2.1 and v3.0 are supported, in {str(path)!r}."
        )
    version = int(match[1]), int(match[2] or 0)
    if version[0] == 3 or version in ((2, 0), (2, 1)):
        return version
    advice = (
        "Convert it with LeRobot 0.3.3 first"
        if version < (2, 0)
        else "A newer roboreel may read it"
    )
    raise UnsupportedVersionError(
        f"The dataset has version {spelled}: v2.0, v2.1 and v3.0 are supported. {advice}: "
        f"{str(path)!r}."
    )


def _features(raw: object, path: Path) -> tuple[dict[str, Feature], tuple[Finding, ...]]:
    if not isinstance(raw, dict):
        raise MetadataError(f"'features' is missing, or not an object, in {str(path)!r}.")
    features, problems = {}, []
    for name, entry in raw.items():
        try:
            features[name] = feature_from_json(name, entry)
        except MetadataError as error:  # noqa: PERF203  # a handful of features
            # One bad entry must not make the others unreadable.
            left_out = f"{error}; it is left out."
            problems.append(finding("RR103", left_out, file=_FILE, feature=str(name)))
    # Older writers do not list the counters, and every dataset has them.
    return {**features, **{n: f for n, f in COUNTERS.items() if n not in features}}, tuple(problems)


def _fps(fps: object, path: Path) -> float:
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not is_rate(fps):
        raise MetadataError(
            f"fps is {fps!r}: a number from 1e-6 to 1e6 was expected in {str(path)!r}."
        )
    return fps


def _text(raw: Mapping[str, Any], key: str, path: Path) -> str:
    value = raw.get(key)
    if not isinstance(value, str):
        raise MetadataError(f"{key} is {value!r}: a path template was expected in {str(path)!r}.")
    return value


def _positive(value: object, key: str, path: Path) -> int:
    number = whole(value)
    if number is None or not 1 <= number < 2**31:
        raise MetadataError(f"{key} is {value!r}: a positive number was expected in {str(path)!r}.")
    return number


def _splits(raw: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in raw.items()} if isinstance(raw, dict) else {}


def _totals(raw: Mapping[str, Any]) -> dict[str, int]:
    names = ("total_episodes", "total_frames", "total_tasks")
    counts = {name: whole(raw.get(name)) for name in names}
    return {name: count for name, count in counts.items() if count is not None}
