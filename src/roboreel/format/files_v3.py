"""Which files the episodes of a v3.0 dataset lie in: as its table says, or derived where it does not."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

import numpy as np

from roboreel.distinct import distinct, numbered
from roboreel.errors import MetadataError
from roboreel.findings import finding
from roboreel.format.paths import EPISODES_FOLDER
from roboreel.format.templates import check_template, file_set, numbers_in, template_fields
from roboreel.parquet.parquet_table import open_parquet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.findings import Finding
    from roboreel.format.info import Info
    from roboreel.schema import FileSet

_MOST_FILES = 2**30
_OF_TABLE = ("chunk_index", "file_index")
_OF_EPISODE = ("episode_chunk", "episode_index")


@dataclass(frozen=True, slots=True)
class FilesOfEpisodes:
    """The files of a kind, and which of them each episode is in."""

    files: FileSet
    file: NDArray[np.int64]
    """A position in ``files`` for each episode, ``(E,)``; -1 where it is not known."""
    problems: tuple[Finding, ...] = ()


def data_files_of(
    root: Path, info: Info, columns: Mapping[str, NDArray[np.int64]], table: str
) -> FilesOfEpisodes:
    """Return the data files.

    Args:
        root: The dataset's folder.
        info: Its info.json.
        columns: The columns of the episode table, in the order of the episodes' numbers.
        table: What holds them, below the dataset's folder, for findings.

    Raises:
        MetadataError: The table does not say where an episode lies, and the files do not tell.
    """
    if _is_per_episode(info.data_path):
        return _one_per_episode(info, info.data_path, columns, "data", {})
    listed = _listed(root, info.data_path, columns, "data", {})
    if listed is not None and (listed[0] >= 0).all() and (listed[1] >= 0).all():
        return FilesOfEpisodes(*_grouped(info, info.data_path, *listed, "data", {}))
    chunk, number = _by_rows(root, info, columns)
    unsaid = "The episode table does not say which data file each episode is in: it was derived."
    files, file = _grouped(info, info.data_path, chunk, number, "data", {})
    problems = (finding("RR114", unsaid, file=table),) if len(file) else ()
    return FilesOfEpisodes(files, file, problems)


def video_files_of(
    root: Path, info: Info, columns: Mapping[str, NDArray[np.int64]], camera: str
) -> FilesOfEpisodes:
    """Return the video files of a camera, which the table may not list for every episode."""
    template, constants = info.video_template(camera), {"video_key": camera}
    prefix = f"videos/{camera}"
    if _is_per_episode(template):
        return _one_per_episode(info, template, columns, prefix, constants)
    check_template(template, _OF_TABLE, constants, info_path=info.path)
    listed = _listed(root, template, columns, prefix, constants)
    if listed is None:
        nowhere = np.full(len(columns["episode_index"]), -1, dtype=np.int64)
        files, _ = _grouped(info, template, nowhere[:0], nowhere[:0], prefix, constants)
        unsaid = f"The episode table does not say where the images of {camera!r} lie."
        problem = finding("RR109", unsaid, file=EPISODES_FOLDER, feature=camera)
        # As long as nothing has been recorded there is no table, and no problem.
        return FilesOfEpisodes(files, nowhere, (problem,) if len(nowhere) else ())
    files, file = _grouped(info, template, *listed, prefix, constants)
    unknown = (listed[0] < 0) | (listed[1] < 0)
    return FilesOfEpisodes(files, np.where(unknown, -1, file))


def _is_per_episode(template: str) -> bool:
    return any(name in template_fields(template) for name in _OF_EPISODE)


def _one_per_episode(
    info: Info,
    template: str,
    columns: Mapping[str, NDArray[np.int64]],
    prefix: str,
    constants: Mapping[str, str],
) -> FilesOfEpisodes:
    """Return the files that a template of v2.x names, one to an episode."""
    number = columns["episode_index"]
    chunk = number // info.chunks_size
    fields = {"episode_chunk": chunk, "episode_index": number}
    used = template_fields(template)
    for name in _OF_TABLE:
        if name in used:
            fields[name] = columns.get(f"{prefix}/{name}", chunk)
    files = file_set(template, fields, constants, info_path=info.path)
    return FilesOfEpisodes(files, np.arange(len(number), dtype=np.int64))


def _listed(
    root: Path,
    template: str,
    columns: Mapping[str, NDArray[np.int64]],
    prefix: str,
    constants: Mapping[str, str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return chunk and file of each episode, -1 where unknown; None if the table has neither."""
    number = columns.get(f"{prefix}/file_index")
    if number is None:
        return None
    chunk = columns.get(f"{prefix}/chunk_index", np.full_like(number, -1))
    lacking = distinct(number[(chunk < 0) & (number >= 0)])
    if not len(lacking):
        return chunk, number
    chunk = chunk.copy()
    there = _on_disk(root, template, constants)
    for file in lacking.tolist():
        chunks = {found for found, its_file in there if its_file == file}
        if len(chunks) == 1:
            chunk[(chunk < 0) & (number == file)] = chunks.pop()
    return chunk, number


def _grouped(
    info: Info,
    template: str,
    chunk: NDArray[np.int64],
    number: NDArray[np.int64],
    prefix: str,
    constants: Mapping[str, str],
) -> tuple[FileSet, NDArray[np.int64]]:
    """Return the distinct files, and which of them each episode is in."""
    if max(chunk.max(initial=0), number.max(initial=0)) > _MOST_FILES:
        raise MetadataError(
            f"The episode table counts more than {_MOST_FILES:,} files or chunks of "
            f"{prefix!r}, in {str(info.path.parent / 'episodes')!r}."
        )
    # One number per file sorts ten times faster than a pair.
    step = int(number.max(initial=0)) + 2
    unique, file = numbered((chunk + 1) * step + (number + 1))
    fields = {"chunk_index": unique // step - 1, "file_index": unique % step - 1}
    files = file_set(template, fields, constants, info_path=info.path)
    return files, file


def _by_rows(
    root: Path, info: Info, columns: Mapping[str, NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the data file of each episode: files in order hold the rows in order, or one holds all."""
    check_template(info.data_path, _OF_TABLE, {}, info_path=info.path)
    number, length = columns["episode_index"], columns["length"]
    there = _on_disk(root, info.data_path, {})
    if not there and len(number):
        raise MetadataError(
            "The episode table has no 'data/chunk_index' and 'data/file_index', and there is no "
            f"data file, in {str(root)!r}."
        )
    place = np.zeros(len(number), dtype=np.int64)
    if len(there) > 1:
        order = np.lexsort((number, columns.get("dataset_from_index", number)))
        stops = np.cumsum(_row_counts(root, info.data_path, there))
        ends = np.cumsum(length[order])
        place[order] = np.searchsorted(stops, ends)
        if not np.isin(stops, np.append(ends, 0)).all() or ends[-1:] != stops[-1:]:
            raise MetadataError(
                "The episode table has no 'data/chunk_index' and 'data/file_index', and the "
                f"{len(there)} data files do not divide between episodes of these lengths: say in "
                f"which file each episode is, in {str(root / EPISODES_FOLDER)!r}."
            )
    pairs = np.array(there or [(0, 0)], dtype=np.int64)
    return pairs[place, 0], pairs[place, 1]


def _row_counts(root: Path, template: str, files: Sequence[tuple[int, int]]) -> list[int]:
    counts = []
    for chunk, file in files:
        with open_parquet(root / template.format(chunk_index=chunk, file_index=file)) as table:
            counts.append(table.num_rows)
    return counts


def _on_disk(root: Path, template: str, constants: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return chunk and number of each file that a template could name, in ascending order."""
    pattern = "".join(
        glob.escape(literal) + ("" if name is None else "*")
        for literal, name, _, _ in Formatter().parse(template)
    )
    there: set[tuple[int, int]] = set()
    for path in root.glob(pattern):
        numbers = numbers_in(template, path.relative_to(root).as_posix(), constants)
        if numbers is not None:
            there.add((numbers.get("chunk_index", 0), numbers.get("file_index", 0)))
    return sorted(there)
