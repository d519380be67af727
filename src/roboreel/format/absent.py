"""Cameras that are declared, and of which there is no file at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.findings import finding
from roboreel.format.paths import INFO_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roboreel.findings import Finding
    from roboreel.schema import Manifest


def find_absent_cameras(manifest: Manifest) -> Iterator[Finding]:
    """Yield the cameras none of whose video files exists, if there is anything else.

    A folder that holds the metadata alone has no data file either, and says nothing of cameras.
    For a dataset as it should be, this asks for one file of each camera.
    """
    root = manifest.root
    if not (root / manifest.data_files.template.split("/", 1)[0]).exists():
        return
    absent = [
        (camera, len(files))
        for camera, files in manifest.video_files.items()
        if len(files) and not _is_there(root, files[0]) and not _any_there(root, files.paths())
    ]
    if absent and _any_there(root, manifest.data_files.paths()):
        yield from (_absent(camera, count) for camera, count in absent)


def _is_there(root: Path, path: str) -> bool:
    return (root / path).exists()


def _any_there(root: Path, paths: list[str]) -> bool:
    """Return whether one of many files exists, asking each folder once."""
    folders: dict[str, set[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, set()).add(name)
    for folder, names in folders.items():
        try:
            if not names.isdisjoint(path.name for path in (root / folder).iterdir()):
                return True
        except OSError:  # noqa: PERF203  # one folder for a thousand files
            continue
    return False


def _absent(camera: str, count: int) -> Finding:
    return finding(
        "RR109",
        f"The camera {camera!r} is declared in info.json, but none of its video files exists: "
        f"{count} {'is' if count == 1 else 'are'} named.",
        severity="error",
        file=INFO_PATH,
        feature=camera,
    )
