"""Checks of the data files' columns: whether they are there, of the declared type, and filled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.checks import Scan
from roboreel.findings import finding
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER, TASK_NUMBER
from roboreel.parquet.dense import keeps_values
from roboreel.words import counted, name_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roboreel.check.context import Context
    from roboreel.check.data_file import Block, DataFile
    from roboreel.findings import Finding, Severity
    from roboreel.parquet.scan import ScannedColumn
    from roboreel.schema import Feature

# Without these an episode's rows are still known, and so is what they would count.
_DERIVED = ("frame_index", "index", TASK_NUMBER)


class ColumnTypes(Scan):
    """Whether each feature has a column of its shape and dtype, in every file."""

    codes = ("RR210", "RR211")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        # What is wrong is mostly wrong in every file: said once, with the files counted.
        self._files: dict[tuple[str, str, str, Severity], list[str]] = {}

    def file(self, file: DataFile) -> Iterator[Finding]:
        """Look for the columns."""
        for name, feature in self.context.manifest.features.items():
            if not feature.is_video and name not in file.scanned.column_names:
                derived = name in _DERIVED
                says = f"{name!r} has no column" + (": it is derived" if derived else "")
                severity: Severity = (
                    "note" if derived else "warning" if name in COUNTERS else "error"
                )
                self._note("RR211", name, says, severity, file.path)
        yield from ()

    def block(self, block: Block) -> Iterator[Finding]:
        """Compare the columns with what is declared."""
        for name, column in block.columns.items():
            feature = self.context.manifest.features.get(name)  # Counters need no declaration.
            wrong = None if feature is None else _describe_type(name, column, feature)
            if wrong is not None:
                self._note("RR210", name, *wrong, block.file.path)
        yield from ()

    def state(self) -> dict[str, Any]:
        """Return what is wrong, with its files."""
        return {"files": self._files}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add what is wrong in more files."""
        for fault, files in state["files"].items():
            self._files.setdefault(fault, []).extend(files)

    def finish(self) -> Iterator[Finding]:
        """Say what is wrong, and in how many files."""
        for (code, name, says, severity), files in self._files.items():
            distinct = list(dict.fromkeys(files))
            where = counted(len(distinct), "data file")
            if len(distinct) < len(self.context.manifest.data_files):
                owners = [self.context.numbers_by_file[file] for file in distinct]
                where += f", of {name_episodes(np.sort(np.concatenate(owners)))}"
            yield finding(
                code,
                f"{says}, in {where}.",
                severity=severity,
                file=files[0],
                feature=name,
            )

    def _note(self, code: str, name: str, says: str, severity: Severity, path: str) -> None:
        self._files.setdefault((code, name, says, severity), []).append(path)


class Nulls(Scan):
    """Whether each row has a value."""

    codes = ("RR212",)

    def block(self, block: Block) -> Iterator[Finding]:
        """Look for nulls, episode by episode."""
        for name, column in block.columns.items():
            # A row without a task is RR209; one without an episode is of another, RR204.
            if column.nulls is None or name in (TASK_NUMBER, EPISODE_NUMBER):
                continue
            for episode, frames in block.spans.where(column.nulls[block.spans.rows]):
                yield episode.finding(
                    "RR212",
                    f"{name!r} is null in {counted(len(frames), 'row')} of episode "
                    f"{episode.number}, first at frame {frames[0]}.",
                    frames[0],
                    frames[-1] + 1,
                    feature=name,
                )


def _describe_type(
    name: str, column: ScannedColumn, feature: Feature
) -> tuple[str, Severity] | None:
    """Return what is wrong with the type of a column, and how bad that is."""
    declared = f"but {feature.dtype} of shape {feature.shape} is declared"
    if column.lengths is not None:
        low, high = column.lengths
        return f"{name!r} has lists of {low} to {high} values, {declared}", "error"
    if column.values is None:
        return f"{name!r} holds {column.stored}, {declared}", "error"
    shape = column.values.shape[1:]
    if column.num_rows and _without_ones(shape) != _without_ones(feature.value_shape):
        return f"{name!r} has values of shape {shape or (1,)}, {declared}", "error"
    stored, wanted = column.values.dtype, feature.numpy_dtype
    if stored == wanted:
        return None
    says = f"{name!r} holds {stored} values, but {wanted} is declared"
    if not keeps_values(column.values, wanted):
        return f"{says} and cannot hold them all", "error"
    return says, "note"


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


SCANS: tuple[type[Scan], ...] = (ColumnTypes, Nulls)
