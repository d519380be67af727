"""What a batch of a remote dataset needs, fetched together before it is read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from roboreel.distinct import distinct
from roboreel.errors import DatasetError, RemoteError
from roboreel.io.sources import carry_stop, fetch
from roboreel.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.frames.clips import Clips
    from roboreel.frames.columns import Columns
    from roboreel.frames.frame_files import FrameFiles
    from roboreel.frames.picture_columns import PictureColumns
    from roboreel.schema import Manifest
    from roboreel.video.reader import VideoReader


_ORDER = "frame_index"
_AT_ONCE = 32


class Fetching:
    """Fetches footers, indexes, columns and packets in a few rounds, however many files there are.

    Nothing is returned: the readers find what was fetched. They also raise the error of a single
    file, since they know which episode it belongs to.
    """

    def __init__(
        self,
        manifest: Manifest,
        files: FrameFiles,
        columns: Columns,
        pictures: PictureColumns,
        videos: VideoReader,
        clips: Clips,
    ) -> None:
        self._manifest = manifest
        self._files = files
        self._columns = columns
        self._pictures = pictures
        self._videos = videos
        self._clips = clips
        self._seen: set[str | int] = set()
        self._pool = ThreadPool(_AT_ONCE, "roboreel-index")

    def fetch_values(self, rows: Mapping[str, NDArray[np.int64]]) -> int:
        """Have footers, indexes of videos, columns and pictures at hand.

        Args:
            rows: By feature, the rows to read, ``(N,)``; cameras too.

        Returns:
            How many bytes of columns and pictures were missing.
        """
        features = self._manifest.features
        videos = {name: some for name, some in rows.items() if features[name].is_video}
        # The order of the frames of an episode decides which image is whose.
        values = {
            name: self._columns.unread(name, some)
            for name, some in rows.items()
            if not features[name].is_camera
        }
        if videos and _ORDER in features:
            values[_ORDER] = self._columns.unread(_ORDER, self._first_rows(videos.values()))
        pictures = {n: some for n, some in rows.items() if features[n].dtype == "image"}
        self._open(values, pictures, videos)
        return self._fetch_columns(values, pictures)

    def _first_rows(self, several: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return a row of each episode that some rows lie in."""
        episodes = distinct(self._files.episodes_of(np.concatenate(list(several))))
        return self._manifest.episodes.start[episodes]

    def _open(
        self,
        values: Mapping[str, NDArray[np.int64]],
        pictures: Mapping[str, NDArray[np.int64]],
        videos: Mapping[str, NDArray[np.int64]],
    ) -> None:
        """Read the footers and indexes of files that are new, side by side."""
        table = self._manifest.episodes
        calls: list[Callable[[], object]] = []
        rows = [some for some in (*values.values(), *pictures.values()) if len(some)]
        if rows:
            episodes = distinct(self._files.episodes_of(np.concatenate(rows)))
            for file in distinct(table.data_file[episodes]).tolist():
                if file not in self._seen:
                    self._seen.add(file)
                    row = int(table.start[episodes[table.data_file[episodes] == file][0]])
                    calls.append(partial(self._files.locate_one, row))
        for camera, some in videos.items():
            for path in self._paths(camera, some):
                if str(path) not in self._seen:
                    self._seen.add(str(path))
                    calls.append(partial(self._videos.table, path))
        if calls:
            list(self._pool.map(_try, map(carry_stop, calls)))

    def _paths(self, camera: str, rows: NDArray[np.int64]) -> list[Path]:
        episodes = distinct(self._files.episodes_of(rows))
        files = distinct(self._manifest.episodes.clips[camera].file[episodes])
        names = self._manifest.video_files[camera]
        return [self._manifest.root / names[file] for file in files.tolist() if file >= 0]

    def _fetch_columns(
        self,
        values: Mapping[str, NDArray[np.int64]],
        pictures: Mapping[str, NDArray[np.int64]],
    ) -> int:
        wanted: dict[Path, list[tuple[int, int]]] = {}
        names_of: dict[tuple[int, int], list[str]] = {}
        for name, rows in values.items():
            for place in self._groups(rows):
                names_of.setdefault(place, []).append(name)
        for (file, group), names in names_of.items():
            spans = self._files.open(file).reader.byte_spans(group, names)
            wanted.setdefault(self._files.path(file), []).extend(spans)
        for camera, rows in pictures.items():
            for file, file_rows in self._by_file(rows):
                spans = self._pictures.spans(camera, file, file_rows)
                wanted.setdefault(self._files.path(file), []).extend(spans)
        return fetch(wanted)

    def _groups(self, rows: NDArray[np.int64]) -> list[tuple[int, int]]:
        return self._columns.groups_of(distinct(rows)) if len(rows) else []

    def _by_file(self, rows: NDArray[np.int64]) -> list[tuple[int, list[int]]]:
        files, places = self._files.locate(distinct(rows))
        return [(file, places[files == file].tolist()) for file in distinct(files).tolist()]


def _try(call: Callable[[], object]) -> None:
    try:
        call()
    except RemoteError:
        raise
    except DatasetError:
        return  # Whoever reads the file says what is wrong with it.
