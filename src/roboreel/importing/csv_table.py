"""CSV tables as columns of numbers and texts, grouped into values by the names of the columns."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.spans.reading import read_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["group_columns", "read_table"]

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
