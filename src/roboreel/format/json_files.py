"""JSON files of the metadata, in and out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError, MetadataError
from roboreel.files import write_atomically
from roboreel.io.reading import read_file
from roboreel.parquet.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# Beyond this a float does not hold every whole number.
_MOST = 2**53


def whole(value: object) -> int | None:
    """Return a whole number, also one that a writer spelled ``3.0``; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 and abs(value) < _MOST else None


def read_json(path: Path) -> Any:  # noqa: ANN401  # typed by the caller
    """Return what a JSON file holds.

    Raises:
        MissingFileError: There is no such file.
        MetadataError: It is not JSON; the error names file and line.
    """
    try:
        content = read_file(path, "JSON file")
    except CorruptFileError as error:
        raise MetadataError(str(error)) from error
    if not content.strip(b"\0 \t\r\n"):
        raise MetadataError(
            "The file is empty, as after a crash or on a full disk. Restore it from a copy: "
            f"{str(path)!r}."
        )
    try:
        return parse_json(content)
    except json.JSONDecodeError as error:
        raise MetadataError(
            f"Not JSON: {error.msg} at line {error.lineno}, column {error.colno} of {str(path)!r}."
        ) from error
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"Not a readable JSON file ({error}): {str(path)!r}.") from error


def read_object(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        MissingFileError: There is no such file.
        MetadataError: It is not a JSON object.
    """
    raw = read_json(path)
    if not isinstance(raw, dict):
        raise MetadataError(f"An object was expected, not a {type(raw).__name__}: {str(path)!r}.")
    return raw


def write_json(path: Path, value: Mapping[str, Any], *, sync: bool = True) -> None:
    """Write an object by atomic rename, indented as LeRobot does."""
    write_atomically(path, json.dumps(value, indent=4, ensure_ascii=False), sync=sync)


def write_json_lines(path: Path, values: Iterable[Mapping[str, Any]], *, sync: bool = True) -> None:
    """Write one object per line, by atomic rename."""
    lines = (json.dumps(value, ensure_ascii=False) for value in values)
    write_atomically(path, "".join(f"{line}\n" for line in lines), sync=sync)
