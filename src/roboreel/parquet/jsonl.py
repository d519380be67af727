"""Files with one JSON object per line, as columns."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from roboreel.errors import CorruptFileError, DatasetError
from roboreel.io.reading import open_stream
from roboreel.parquet.arrow_types import plain_numbers
from roboreel.parquet.json_text import parse_json
from roboreel.parquet.ragged import TextLists

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray


_BLOCK_BYTES = 2**20


@contextmanager
def open_lines(path: Path) -> Iterator[BinaryIO]:
    """Yield a file of lines, open for reading; it is a regular file, and not too large.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, or too large.
    """
    with open_stream(path) as file:
        yield file


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file with their line numbers, from 1; blank lines are skipped.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: A line is not a JSON object; the error names the line.
    """
    with open_lines(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = parse_json(line)
            except (ValueError, RecursionError) as error:
                raise CorruptFileError(
                    f"Line {number} is not JSON ({error}): {str(path)!r}."
                ) from error
            if not isinstance(value, dict):
                raise CorruptFileError(
                    f"Line {number} holds a {type(value).__name__} where an object was expected: "
                    f"{str(path)!r}."
                )
            yield number, value


def index_lines(path: Path, key: str) -> dict[int, int]:
    """Return where the line of each object begins, by the number that it has under a key.

    Of lines with the same number the last one counts; lines without a number are left out.

    Raises:
        CorruptFileError: A line is not JSON.
    """
    starts, offset = {}, 0
    with open_lines(path) as file:
        for line, content in enumerate(file, start=1):
            if content.strip():
                try:
                    number = parse_json(content)[key]
                except (ValueError, RecursionError) as error:
                    raise CorruptFileError(
                        f"Line {line} is not JSON ({error}): {str(path)!r}."
                    ) from error
                except (KeyError, TypeError):
                    number = None
                if isinstance(number, int):
                    starts[number] = offset
            offset += len(content)
    return starts


def read_line_columns(
    path: Path, *, integers: Sequence[str], text_lists: Sequence[str]
) -> tuple[dict[str, NDArray[np.int64]], dict[str, TextLists]]:
    """Return some keys of a file's objects as columns, in the order of the lines.

    Args:
        path: The file.
        integers: Keys whose values are whole numbers; every object must have them.
        text_lists: Keys whose values are lists of texts; a missing one is an empty list.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: A line cannot be understood; the error names the line.
    """
    schema = pa.schema(
        [(key, pa.int64()) for key in integers]
        + [(key, pa.list_(pa.string())) for key in text_lists]
    )
    try:
        with open_lines(path) as file:
            if _has_bare_null(file):
                return _read_slowly(path, integers, text_lists)
            file.seek(0)
            table = pa_json.read_json(
                file,
                read_options=pa_json.ReadOptions(use_threads=False),
                parse_options=pa_json.ParseOptions(
                    explicit_schema=schema, unexpected_field_behavior="ignore"
                ),
            )
        texts = {key: TextLists.from_arrow(table.column(key)) for key in text_lists}
    except DatasetError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        # Arrow is 20 times faster, but accepts less and does not name lines.
        return _read_slowly(path, integers, text_lists)
    if any(table.column(key).null_count for key in integers):
        return _read_slowly(path, integers, text_lists)
    return {key: plain_numbers(table.column(key)) for key in integers}, texts


def _has_bare_null(file: BinaryIO) -> bool:
    """Whether a null stands where an object should: as the first of a block, it ends Arrow's process."""
    end = b""
    while block := file.read(_BLOCK_BYTES):
        if b"null" in end + block:
            break
        end = block[-3:]
    else:
        return False
    file.seek(0)
    return any(
        part.lstrip(b" \t\n\xef\xbb\xbf").startswith(b"n")
        for line in file
        for part in line.split(b"\r")
    )


def _read_slowly(
    path: Path, integers: Sequence[str], text_lists: Sequence[str]
) -> tuple[dict[str, NDArray[np.int64]], dict[str, TextLists]]:
    numbers: dict[str, list[int]] = {key: [] for key in integers}
    texts: dict[str, list[list[str]]] = {key: [] for key in text_lists}
    for line, values in read_lines(path):
        for key in integers:
            numbers[key].append(_integer(values, key, line, path))
        for key in text_lists:
            listed = values.get(key) or []
            several = listed if isinstance(listed, list) else [listed]
            texts[key].append([str(text) for text in several])
    return (
        {key: np.asarray(column, dtype=np.int64) for key, column in numbers.items()},
        {key: TextLists.from_lists(column) for key, column in texts.items()},
    )


def _integer(values: dict[str, Any], key: str, line: int, path: Path) -> int:
    value = values.get(key)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value != int(value)
    ):
        raise CorruptFileError(
            f"Line {line} has {key}={value!r} where a whole number was expected: {str(path)!r}."
        )
    if abs(value) >= 2**62:
        raise CorruptFileError(
            f"Line {line} has {key}={value!r}, which is too large: {str(path)!r}."
        )
    return int(value)
