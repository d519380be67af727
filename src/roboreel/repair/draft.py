"""What is gathered while a repair is planned: the dataset as it will be, and the files that change."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roboreel.check.data_file import DataFile
from roboreel.errors import DatasetError
from roboreel.format.json_files import read_object
from roboreel.format.paths import info_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.check.context import Context
    from roboreel.findings import Finding
    from roboreel.format.edits import FileEdit
    from roboreel.repair.unlisted import Unlisted
    from roboreel.stats import FeatureStats


class Draft:
    """A repair in the making. Cures read the dataset from it and add what they change.

    Args:
        context: The dataset as it is.
        findings: What is to be repaired.
    """

    def __init__(self, context: Context, findings: Sequence[Finding]) -> None:
        self.context = context
        self.findings = tuple(findings)
        self.manifest = context.manifest
        """The dataset as it will be described."""
        self.old_info = read_object(info_path(context.root))
        self.info: dict[str, Any] = self.old_info
        """What info.json will say."""
        self.episode_kinds: set[str] = set()
        """What of the episode table is written anew."""
        self.new_tasks: dict[int, str] = {}
        self.columns: dict[tuple[int, str], NDArray[Any]] = {}
        """Values that change, by position of the episode and column."""
        self.stats: dict[str, FeatureStats] = {}
        self.episode_stats: dict[int, dict[str, FeatureStats]] = {}
        self.contradictions: list[Finding] = []
        """Findings of statistics that are sound, and not those of the values."""
        self.unlisted: tuple[Unlisted, ...] = ()
        """Data files of episodes that the table does not list."""
        self.changes: list[FileEdit] = []
        self._cured: dict[Finding, None] = {}

    @property
    def cured(self) -> tuple[Finding, ...]:
        """The findings that have an answer so far."""
        return tuple(one for one in self.findings if one in self._cured)

    def asked(self, *codes: str) -> list[Finding]:
        """Return the findings of some codes that have no answer yet."""
        return [one for one in self.findings if one.code in codes and one not in self._cured]

    def cure(self, findings: Sequence[Finding]) -> None:
        """Take note that findings have an answer."""
        self._cured |= dict.fromkeys(findings)

    def codes(self, *among: str) -> tuple[str, ...]:
        """Return which of some codes have been answered."""
        return tuple(sorted({one.code for one in self._cured if one.code in among}))

    def write(self, edit: FileEdit | None, codes: tuple[str, ...]) -> None:
        """Add a file that is written anew because of some codes, if it changes."""
        if edit is not None:
            self.changes.append(replace(edit, codes=codes))

    def data_files(self) -> Iterator[DataFile]:
        """Yield the data files that can be read, with their counters; each is closed afterwards."""
        for number, positions in enumerate(self.context.positions_by_data_file):
            if not self.context.wanted[positions].any():
                continue
            try:
                file = DataFile(self.context, number, reads_values=False)
            except (DatasetError, OSError):
                continue  # a finding of its own
            try:
                yield file
            finally:
                file.close()

    @cached_property
    def _positions(self) -> dict[int, int]:
        numbers = self.context.manifest.episodes.number.tolist()
        return {number: position for position, number in enumerate(numbers)}

    def position(self, number: int | None) -> int:
        """Return where an episode stands in the table; -1 if it is none."""
        return -1 if number is None else self._positions.get(number, -1)
