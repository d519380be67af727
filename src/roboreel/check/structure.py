"""Checks of the metadata, and of which files there are. No data file is opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roboreel.check.checks import Check, NotChecked
from roboreel.check.listing import Listing, top_folders
from roboreel.findings import finding
from roboreel.format.paths import METADATA_FOLDER
from roboreel.io.lfs import is_lfs_pointer
from roboreel.words import name_episodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context
    from roboreel.findings import Finding
    from roboreel.schema import FileSet


_SUFFIXES = (".parquet", ".mp4")


def metadata_problems(context: Context) -> Iterator[Finding]:
    """Yield what was found when the metadata was read; `Dataset.problems` shows the same."""
    # Cameras without files may turn out to be misplaced: see `listed_and_stored_files`.
    yield from (found for found in context.manifest.problems if found.code != "RR109")


def listed_and_stored_files(context: Context) -> Iterator[Finding]:
    """Yield files that the metadata names and that are not there, and files that it does not name."""
    manifest = context.manifest
    absent_cameras = {found.feature: found for found in manifest.problems if found.code == "RR109"}
    sets: dict[str | None, FileSet] = {None: manifest.data_files}
    sets.update(manifest.video_files)
    paths = {camera: files.paths() for camera, files in sets.items()}
    known = set().union(*paths.values())
    gone = known - context.listing.paths
    missing = {camera: _missing(context, camera, paths[camera], gone) for camera in sets}
    absent = [paths[camera][file] for camera, files in missing.items() for file in files]
    moved = find_misplaced(context, absent) if absent else {}
    yield from _misplaced(moved)
    for camera, files in missing.items():
        left = [file for file in files if paths[camera][file] not in moved] if moved else files
        if camera in absent_cameras and len(left) == len(sets[camera]):
            yield absent_cameras[camera]
        else:
            yield from missing_files(context, camera, left, paths[camera])
    tops = {files.template.split("/", 1)[0] for files in sets.values()}
    yield from _orphans(context, known | set(moved.values()), tops)


def links_out(context: Context) -> Iterator[Finding]:
    """Yield links that lead out of the folder; those of the Hub's cache do, and may."""
    root = context.root.resolve()
    blobs = root.parent.parent / "blobs"
    for path in context.listing.links:
        target = Path(os.path.realpath(root / path))  # resolve() raises for a link to itself
        if not (target.is_relative_to(root) or target.is_relative_to(blobs)):
            yield finding(
                "RR108",
                f"This is a link to {str(target)!r}: a copy of the folder would lack what is there.",
                severity="note",
                file=path,
            )


def _missing(
    context: Context, camera: str | None, paths: Sequence[str], gone: Collection[str]
) -> list[int]:
    """Return which data files, or files of a camera, of wanted episodes do not exist."""
    if not gone:
        return []
    used = file_of_episode(context, camera)
    wanted = np.zeros(len(paths), bool)
    wanted[used[context.wanted & (used >= 0)]] = True
    return [file for file in np.flatnonzero(wanted).tolist() if paths[file] in gone]


def _misplaced(moved: dict[str, str]) -> Iterator[Finding]:
    """Yield one finding for each folder in which files lie that belong to another one."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for named, there in moved.items():
        pairs.setdefault((named.split("/")[0], there.split("/")[0]), []).append(named)
    for (named_top, there_top), names in pairs.items():
        first = names[0]
        where = (
            f"in {there_top}/, but the path template says {named_top}/"
            if named_top != there_top
            else "in other folders than the path template says"
        )
        yield finding(
            "RR110",
            f"{len(names)} {'file lies' if len(names) == 1 else 'files lie'} {where}: "
            f"{moved[first]!r} in place of {first!r}.",
            file=first,
        )


def _orphans(context: Context, known: set[str], tops: Collection[str]) -> Iterator[Finding]:
    """Yield the data and video files in some folders that are not known."""
    is_v3 = context.manifest.version.startswith("v3")
    for path in sorted(context.listing.paths - known):
        if path.split("/", 1)[0] not in tops or not path.endswith(_SUFFIXES):
            continue
        # LeRobot reads every table below data/ in v3.0, listed or not.
        is_read = is_v3 and _is_table_of_lerobot(path)
        yield finding(
            "RR105",
            f"No episode uses this file of {context.listing.size_bytes(path):,} bytes"
            + (", but LeRobot reads its rows as part of the dataset." if is_read else "."),
            severity="error" if is_read else "warning",
            file=path,
        )


def _is_table_of_lerobot(path: str) -> bool:
    return path.startswith("data/") and path.count("/") == 2 and path.endswith(".parquet")


# Findings about files that are missing: one for each, or one for a folder that has none of them.

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


# Files that lie elsewhere than the path template says.


def find_misplaced(context: Context, missing: Sequence[str]) -> dict[str, str]:
    """Return where missing files lie, as far as they are found: named path to real path.

    A file is found in another folder directly below the dataset (``video/`` for ``videos/``), or
    in the same one with its folders in another order (camera before or after chunk).
    """
    known = {path.split("/", 1)[0] for path in missing} | {METADATA_FOLDER}
    others = Listing(context.root, set(top_folders(context.root)) - known)
    elsewhere = {path.split("/", 1)[-1]: path for path in others.paths}
    named = set(missing)
    shuffled = {
        _parts(path): path
        for path in context.listing.paths | others.paths
        if path not in named and not path.startswith(f"{METADATA_FOLDER}/")
    }
    found: dict[str, str] = {}
    if not (elsewhere or shuffled):
        return found
    for path in missing:
        there = elsewhere.get(path.split("/", 1)[-1]) or shuffled.get(_parts(path))
        if there is not None:
            found[path] = there
    return found


def _parts(path: str) -> tuple[str, ...]:
    """Return what a path is made of but its first folder, in an order of their own."""
    return tuple(sorted(path.split("/")[1:]))


# Git LFS pointers in place of files.

# More take seconds, and whoever opens the files finds out too.
_MOST_FILES = 50_000


def pointers(context: Context) -> Iterator[Outcome]:
    """Yield the files that are Git LFS pointers."""
    paths = context.listing.paths
    if len(paths) > _MOST_FILES:
        yield NotChecked("RR107", f"More than {_MOST_FILES:,} files: only those that are opened.")
        return
    for path in sorted(paths):
        if is_lfs_pointer(context.root / path):
            yield pointer_finding(path)


def pointer_finding(path: str) -> Finding:
    """Return the finding that a file is a Git LFS pointer."""
    return finding(
        "RR107",
        "This is a Git LFS pointer, not the file itself. Run `git lfs pull` in the dataset.",
        file=path,
    )


CHECKS = (
    Check(
        (
            *("RR101", "RR102", "RR103", "RR106", "RR111", "RR112", "RR113", "RR114"),
            *("RR115", "RR116", "RR203"),
        ),
        metadata_problems,
        also=("RR404",),
    ),
    Check(("RR104", "RR105", "RR109", "RR110"), listed_and_stored_files),
    Check(("RR108",), links_out),
    Check(("RR107",), pointers),
)
