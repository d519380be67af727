"""Folders with a CSV table beside images or videos as recordings; one folder is one episode."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.importing.rates import rate_of_times
from roboreel.importing.recording import (
    TASK_NAMES,
    Recording,
    SourceEpisode,
    Stream,
    natural_key,
    picture_stream,
)
from roboreel.importing.time_units import is_time_name
from roboreel.io.reading import read_file
from roboreel.video.demux import demux_packet_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.importing.recording import Values


_PICTURES = (".jpg", ".jpeg", ".png")
_VIDEOS = (".mp4", ".mkv", ".mov", ".webm", ".avi")
_MOST_PICTURE_BYTES = 256 * 1024**2


@dataclass(frozen=True, slots=True, eq=False)
class _Episode:
    """What lies in the folder of one episode."""

    folder: Path
    table: Mapping[str, NDArray[Any] | list[str]]
    length: int
    pictures: Mapping[str, tuple[Path, ...]]
    """By camera, its files in order."""
    videos: Mapping[str, Path]
    columns: Mapping[str, list[str]]
    """By stream, the columns that are its elements."""


def open_source(path: Path) -> Recording:
    """Open a folder: a CSV table in it, or one in each of its subfolders.

    Raises:
        CorruptFileError: A file is damaged.
        SourceError: Tables and images do not fit together.
    """
    tables = sorted(path.glob("*.csv"))
    folders = [path] if tables else sorted({p.parent for p in path.glob("*/*.csv")}, key=_by_name)
    if not folders:
        raise SourceError(f"There is no CSV table in this folder, or just below it: {str(path)!r}.")
    return MediaFolder(path, [_read_episode(folder) for folder in folders])


class MediaFolder(Recording):
    """Episodes in folders."""

    def __init__(self, path: Path, episodes: list[_Episode]) -> None:
        self._episodes = episodes
        first = episodes[0]
        for episode in episodes:
            _check_same(first, episode)
        streams = {name: _table_stream(first, name) for name in first.columns}
        streams |= {name: _picture_stream(name, files) for name, files in first.pictures.items()}
        streams |= {name: _video_stream(name, file) for name, file in first.videos.items()}
        listed = [
            SourceEpisode(
                "." if episode.folder == path else episode.folder.name,
                episode.length,
                _one_task(episode),
            )
            for episode in episodes
        ]
        fps = _rate(first)
        reason = "the times in its table" if fps else ""
        super().__init__(path, "media_folder", streams, listed, fps=fps, fps_reason=reason)

    def _read(self, episode: int, wanted: Mapping[str, NDArray[np.int64]]) -> dict[str, Values]:
        """Return lines of the table, and pictures from their files."""
        place = self._episodes[episode]
        return {
            name: self._values(place, self.streams[name], positions)
            for name, positions in wanted.items()
        }

    def video_path(self, episode: int, stream: str) -> Path:
        """Return the video of a camera."""
        if stream not in self._episodes[episode].videos:
            return super().video_path(episode, stream)
        return self._episodes[episode].videos[stream]

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _values(self, place: _Episode, stream: Stream, positions: NDArray[np.int64]) -> Values:
        if stream.kind == "pictures":
            files = place.pictures[stream.name]
            return [
                read_file(files[i], "picture", most_bytes=_MOST_PICTURE_BYTES)
                for i in positions.tolist()
            ]
        columns = place.columns[stream.name]
        if stream.kind == "text":
            cells = place.table[columns[0]]
            return [str(cells[i]) for i in positions.tolist()]
        values = np.stack([np.asarray(place.table[c])[positions] for c in columns], axis=1)
        return values.astype(stream.dtype).reshape(len(positions), *stream.shape)


def _read_episode(folder: Path) -> _Episode:
    tables = sorted(folder.glob("*.csv"))
    if len(tables) != 1:
        raise SourceError(
            f"There are {len(tables)} tables, and an episode has one: {str(folder)!r}."
        )
    table = read_table(tables[0])
    length = len(next(iter(table.values())))
    pictures = _listed_pictures(folder, table)
    used = set(pictures)
    for below in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
        files = tuple(sorted((p for p in below.iterdir() if _is(p, _PICTURES)), key=_by_name))
        if files and not any(set(files) & set(known) for known in pictures.values()):
            pictures[below.name] = files
    videos = {p.stem: p for p in sorted(folder.iterdir()) if _is(p, _VIDEOS)}
    counts = {f"images of {camera!r}": len(files) for camera, files in pictures.items()}
    counts |= {f"images in {p.name!r}": len(demux_packet_table(p).shown) for p in videos.values()}
    for noun, count in counts.items():
        if count != length:
            raise SourceError(
                f"There are {count} {noun}, and {length} lines in the table: {str(folder)!r}."
            )
    numbers = [n for n, cells in table.items() if isinstance(cells, np.ndarray)]
    columns = group_columns(numbers)
    texts = [n for n in table if n not in numbers and n not in used]
    return _Episode(
        folder, table, length, pictures, videos, columns | {name: [name] for name in texts}
    )


def _listed_pictures(
    folder: Path, table: Mapping[str, NDArray[Any] | list[str]]
) -> dict[str, tuple[Path, ...]]:
    """Return the files of cameras that columns of the table name, by column."""
    pictures: dict[str, tuple[Path, ...]] = {}
    for name, cells in table.items():
        if isinstance(cells, list) and cells:
            if not all(cell.lower().endswith(_PICTURES) for cell in cells):
                continue
            pictures[name] = tuple(folder / cell for cell in cells)
            for file in pictures[name]:
                _check_inside(file, folder, name)
    return pictures


def _check_inside(file: Path, folder: Path, column: str) -> None:
    """Raise unless a file that a table names is there, below the folder of the table."""
    try:
        inside = file.resolve().is_relative_to(folder.resolve())
        there = file.is_file()
    except (ValueError, OSError, RuntimeError):  # no file has such a name; a link to itself
        inside, there = True, False
    if not inside:
        raise SourceError(
            f"Column {column!r} names {str(file)!r}, which is outside of {str(folder)!r}."
        )
    if not there:
        raise SourceError(f"Column {column!r} names a file that is not there: {str(file)!r}.")


def _table_stream(episode: _Episode, name: str) -> Stream:
    columns = episode.columns[name]
    cells = [episode.table[column] for column in columns]
    if not isinstance(cells[0], np.ndarray):
        return Stream(name, "text", source_type="text")
    dtype = np.result_type(*(np.asarray(c).dtype for c in cells)).name
    if len(columns) == 1:
        return Stream(name, "numbers", dtype, (), source_type="CSV")
    return Stream(name, "numbers", dtype, (len(columns),), tuple(columns), source_type="CSV")


def _picture_stream(name: str, files: tuple[Path, ...]) -> Stream:
    if not files:
        return Stream(name, "other", note="It has no pictures.")
    data = read_file(files[0], "picture", most_bytes=_MOST_PICTURE_BYTES)
    try:
        return picture_stream(name, data)
    except CorruptFileError as error:
        raise CorruptFileError(f"{error} {str(files[0])!r}.") from error


def _video_stream(name: str, file: Path) -> Stream:
    coding = demux_packet_table(file).coding
    size = (coding.height, coding.width, 3)
    return Stream(name, "video", "uint8", size, codec=coding.codec, source_type=coding.codec)


def _rate(episode: _Episode) -> float | None:
    for name, cells in episode.table.items():
        if is_time_name(name) and isinstance(cells, np.ndarray) and len(cells) > 1:
            return rate_of_times(cells, name)
    return None


def _one_task(episode: _Episode) -> str | None:
    """Return the task, if a file beside the table holds it."""
    for name in TASK_NAMES:
        file = episode.folder / f"{name}.txt"
        if file.is_file():
            return read_file(file, "task").decode("utf-8", "replace").strip() or None
    return None


def _check_same(first: _Episode, other: _Episode) -> None:
    for noun in ("columns", "pictures", "videos"):
        ours, theirs = set(getattr(first, noun)), set(getattr(other, noun))
        if ours != theirs:
            lacking = ", ".join(sorted(ours ^ theirs))
            raise SourceError(
                f"Episodes differ in {noun}: {lacking} is not in both {str(first.folder)!r} and "
                f"{str(other.folder)!r}."
            )


def _is(path: Path, endings: tuple[str, ...]) -> bool:
    return path.is_file() and path.suffix.lower() in endings


def _by_name(path: Path) -> Any:  # noqa: ANN401  # a key to sort by
    return natural_key(path.name)


# CSV tables as columns of numbers and texts, grouped into values by the names of the columns.

_MOST_BYTES = 1024**3
_SEPARATORS = (",", ";", "\t")
_NUMBERED = re.compile(r"^(.*?)[_.\[]?(\d+)\]?$")


def read_table(path: Path) -> dict[str, NDArray[Any] | list[str]]:
    """Return the columns of a CSV file: numbers where every cell is one, otherwise texts.

    Whole numbers become int64, others float64. Cells are separated by what the first line has most
    of: commas, semicolons or tabs; numbers between semicolons may have a decimal comma.

    Raises:
        CorruptFileError: It is not a table with a line of names, or is too large.
    """
    data = read_file(path, "table", most_bytes=_MOST_BYTES)
    try:
        text = data.decode("utf-8-sig")
        head = text.partition("\n")[0]
        mark = max(_SEPARATORS, key=head.count)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
        names = [name.strip() for name in next(rows, [])]
        cells = [row for row in rows if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise CorruptFileError(f"The table cannot be read: {error}: {str(path)!r}.") from error
    if not names or len(set(names)) != len(names) or not all(names):
        raise CorruptFileError(
            f"The first line of a table names its columns, each once: {str(path)!r}."
        )
    for number, row in enumerate(cells, 2):
        if len(row) != len(names):
            raise CorruptFileError(
                f"Line {number} has {len(row)} cells, and there are {len(names)} columns: {str(path)!r}."
            )
    columns = list(zip(*cells, strict=True)) if cells else [()] * len(names)
    decimal = "," if mark == ";" else "."
    return {
        name: _column(list(column), decimal) for name, column in zip(names, columns, strict=True)
    }


def group_columns(names: list[str]) -> dict[str, list[str]]:
    """Return columns that are elements of one value, by its name.

    ``action_0, action_1`` and ``action[0], action[1]`` are one value, and so are
    ``state.x, state.y``.

    Examples:
        >>> group_columns(["action_0", "action_1", "state.x", "state.y", "reward"])
        {'action': ['action_0', 'action_1'], 'state': ['state.x', 'state.y'], 'reward': ['reward']}
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        found = _NUMBERED.match(name)
        stem = found[1] if found else name.rpartition(".")[0]
        groups.setdefault(stem or name, []).append(name)
    split: dict[str, list[str]] = {}
    for stem, members in groups.items():
        if len(members) > 1 and stem not in names:
            split[stem] = members
        else:
            split |= {name: [name] for name in members}
    return split


def _column(cells: list[str], decimal: str) -> NDArray[Any] | list[str]:
    try:
        values = np.array([float(cell.replace(decimal, ".")) for cell in cells], np.float64)
    except ValueError:
        return cells
    whole = all(re.fullmatch(r"\s*[+-]?\d{1,18}\s*", cell) for cell in cells)
    return np.array([int(cell) for cell in cells], np.int64) if whole and cells else values
