"""pyarrow's errors as ours, with the name of the file."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from roboreel.errors import CorruptFileError, DatasetError, MissingFileError
from roboreel.io.handles import too_many_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["parquet_errors"]


@contextmanager
def parquet_errors(path: Path, *, episodes: str = "") -> Iterator[None]:
    """Turn the errors of pyarrow while it reads a file into ours.

    Args:
        path: The file.
        episodes: The episodes in it, such as ``"episode 3"``, to name if the file is missing.

    Raises:
        MissingFileError: The file does not exist.
        CorruptFileError: It is not a readable Parquet file.
        TooManyFilesError: The limit of open files is reached.
    """
    try:
        yield
    except DatasetError as error:
        if isinstance(error, MissingFileError) and episodes:
            raise MissingFileError(
                f"The data file of {episodes} is missing: {str(path)!r}."
            ) from error
        raise  # Ours already, though it may be an OSError too.
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = f"The data file of {episodes} is missing:" if episodes else "There is no file"
        raise MissingFileError(f"{missing} {str(path)!r}.") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files(path) from error
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CorruptFileError(f"Not a readable Parquet file ({reason}): {str(path)!r}.") from error
