"""pyarrow's errors as ours, with the name of the file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from roboreel.errors import CorruptFileError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["parquet_errors"]


@contextmanager
def parquet_errors(path: Path, *, episodes: str = "") -> Iterator[None]:
    """Turn what pyarrow raises while it reads a file into our errors; ours pass unchanged.

    Args:
        path: The file.
        episodes: The episodes whose data it holds, such as ``"episode 3"``, if a missing file is
            to be reported as theirs.

    Raises:
        MissingFileError: The file does not exist.
        CorruptFileError: It is not a readable Parquet file.
    """
    try:
        yield
    except FileNotFoundError as error:
        missing = f"The data file of {episodes} is missing:" if episodes else "There is no file"
        raise MissingFileError(f"{missing} {str(path)!r}.") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CorruptFileError(f"Not a readable Parquet file ({reason}): {str(path)!r}.") from error
