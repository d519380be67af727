"""What info.json says, by key as in LeRobot 0.4 and by attribute as in 0.6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.format.json_files import read_json
from roboreel.format.paths import info_path

if TYPE_CHECKING:
    from pathlib import Path

_OPTIONAL = ("robot_type", "video_path", "tools", "data_files_size_in_mb", "video_files_size_in_mb")
"""Keys that a file may lack; the attribute is then None."""


class Info(dict[str, Any]):
    """The keys of info.json, which are attributes too: ``info["fps"]`` is ``info.fps``."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # what the file holds
        if name in self:
            return self[name]
        if name in _OPTIONAL:
            return None
        raise AttributeError(f"info.json has no {name!r}: it has {', '.join(self)}.")

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """Return a copy that JSON can hold."""
        features = {
            name: {**entry, "shape": list(entry["shape"])}
            for name, entry in self["features"].items()
        }
        return {**self, "features": features}


def load_info(root: Path) -> Info:
    """Return the info.json of a dataset, with shapes as tuples."""
    info = Info(read_json(info_path(root)))
    for feature in info["features"].values():
        feature["shape"] = tuple(feature["shape"])
    return info
