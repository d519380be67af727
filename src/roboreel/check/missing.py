"""Findings about files that are missing: one for each, or one for a folder that has none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.findings import finding
from roboreel.words import name_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.check.context import Context
    from roboreel.findings import Finding

__all__ = ["file_of_episode", "missing_files"]

# From here on, files of a folder that has none of them are told together. A dataset of 100,000
# episodes whose videos were not downloaded would otherwise have 200,000 findings.
_MANY = 20


def file_of_episode(context: Context, camera: str | None) -> NDArray[np.int64]:
    """Return which data file, or file of a camera, each episode lies in; -1 if in none."""
    episodes = context.manifest.episodes
    return episodes.data_file if camera is None else episodes.clips[camera].file


def missing_files(
    context: Context, camera: str | None, missing: Sequence[int], paths: Sequence[str]
) -> Iterator[Finding]:
    """Yield data files, or files of a camera, that are missing, with their episodes.

    Args:
        context: The dataset under check.
        camera: The camera; None for data files.
        missing: Which of its files are missing.
        paths: The paths of all its files.
    """
    groups = _by_folder(context, missing, paths)
    if not groups:
        return
    group_of_file = np.full(len(paths), -1)
    for number, files in enumerate(groups):
        group_of_file[files] = number
    used = file_of_episode(context, camera)
    group = np.where(used >= 0, group_of_file[used], -1)
    # Sorted once: all files of 100,000 episodes may be missing.
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(groups) + 1)).tolist()
    for files, start, stop in zip(groups, bounds[:-1], bounds[1:], strict=True):
        numbers = context.manifest.episodes.number[order[start:stop]].tolist()
        yield finding(
            "RR104",
            _message("data" if camera is None else "video", len(files), numbers),
            file=paths[files[0]],
            episode=numbers[0] if len(numbers) == 1 else None,
            feature=camera,
        )


def _by_folder(
    context: Context, missing: Sequence[int], paths: Sequence[str]
) -> list[Sequence[int]]:
    """Return the files that a finding is about, for each finding."""
    if len(missing) < _MANY:
        return [[file] for file in missing]
    folders: dict[str, list[int]] = {}
    for file in missing:
        folders.setdefault(paths[file].rpartition("/")[0], []).append(file)
    groups: list[Sequence[int]] = []
    for folder, files in folders.items():
        is_empty = len(files) >= _MANY and folder not in context.listing.folders
        groups += [files] if is_empty else [[file] for file in files]
    return groups


def _message(kind: str, count: int, numbers: Sequence[int]) -> str:
    if count == 1:
        return f"The {kind} file of {name_episodes(numbers)} is missing."
    return f"All {count:,} {kind} files of this folder are missing, of {name_episodes(numbers)}."
