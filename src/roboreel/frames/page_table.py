"""The pages of one feature in all data files that were asked for so far."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from roboreel.distinct import distinct
from roboreel.errors import CorruptFileError
from roboreel.forking import after_fork
from roboreel.storage.small_groups.number_pages import PAGE, describe_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.frames.frame_files import FrameFiles
    from roboreel.schema import Feature
    from roboreel.spans.mapped import MappedFile
    from roboreel.storage.small_groups.number_pages import Form, NumberPages

__all__ = ["PageTable"]

_NOT_DESCRIBED, _UNFAMILIAR = -1, -2
_tokens = count()


class PageTable:
    """Numbers the row groups of described files one after another: `pages` has one entry for each.

    Thread-safe: files are only ever added.

    Args:
        files: The dataset's data files.
        name: The feature.
        feature: The feature as the metadata declares it.
    """

    def __init__(self, files: FrameFiles, name: str, feature: Feature) -> None:
        self._files = files
        self._name = name
        self._feature = feature
        self._begin()
        after_fork(self, PageTable._begin)
        self._row_base = np.zeros(0, np.int64)
        """By file, where its rows begin among those of all described files."""
        self.form: Form | None = None
        """How the described files store the feature, all in the same way."""
        self.pages = np.zeros(0, PAGE)
        self.file = np.zeros(0, np.int64)
        """The file of each entry."""
        self.row_start = np.zeros(1, np.int64)
        """Where the rows of each entry begin, and those of the last one end."""
        self.identities: dict[int, object] = {}
        """What each described file was when it was described."""
        self.token = f"pages {next(_tokens)}"
        self.counted_bytes = 0
        """What a budget counts of this."""

    def _begin(self) -> None:
        self._lock, self._describing = threading.Lock(), threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Memory that this takes."""
        return int(self.pages.nbytes + self.file.nbytes + self.row_start.nbytes)

    def locate(
        self, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the entry of each row, its row there, and whether its file is described at all."""
        files, file_rows = self._files.locate(rows)
        with self._lock:
            lacking = max(0, int(files.max(initial=-1)) + 1 - len(self._row_base))
            self._row_base = np.append(self._row_base, np.full(lacking, _NOT_DESCRIBED))
        base = self._row_base[files]
        if (base == _NOT_DESCRIBED).any():
            with self._describing:  # One thread does it, and the others wait for it.
                for file in distinct(files[base == _NOT_DESCRIBED]).tolist():
                    self._describe(file)
            base = self._row_base[files]
        place = base + file_rows
        row_start = self.row_start
        entry = np.searchsorted(row_start, place, side="right") - 1
        return entry, place - row_start[entry], base >= 0

    def set_values_at(self, entries: NDArray[np.int64], values_at: int) -> None:
        """Note where the values begin in some pages."""
        with self._lock:
            self.pages["values_at"][entries] = values_at

    def _describe(self, file: int) -> None:
        if self._row_base[file] != _NOT_DESCRIBED:
            return
        num_rows = np.diff(self._files.group_bounds(file))
        mapped = self._files.map(file)
        mapped.check_size()
        found = self._look_at(mapped, num_rows)
        with self._lock:
            if found is None or (self.form is not None and found.form != self.form):
                self._row_base[file] = _UNFAMILIAR
                return
            self.form = found.form
            self.identities[file] = mapped.identity
            base = int(self.row_start[-1])
            pages = np.concatenate([self.pages, found.pages])
            files = np.append(self.file, np.full(len(num_rows), file))
            row_start = np.append(self.row_start, base + np.cumsum(num_rows))
            # All or none, should Ctrl-C come now.
            self.pages, self.file, self.row_start = pages, files, row_start
            self._row_base[file] = base  # Last: from now on others use the entries.

    def _look_at(self, mapped: MappedFile, num_rows: NDArray[np.int64]) -> NumberPages | None:
        if not mapped.is_local:
            return None  # All bytes would be fetched, to see where the pages are.
        try:
            return describe_numbers(mapped, self._name, self._feature, num_rows)
        except (CorruptFileError, IndexError, KeyError, UnicodeDecodeError):
            return None  # pyarrow says what is wrong with it.
