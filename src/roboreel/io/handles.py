"""Files opened for reading, with an error of ours for all that can be wrong."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from roboreel.errors import CorruptFileError, MissingFileError, TooManyFilesError
from roboreel.files import open_regular
from roboreel.io.lfs import LFS_ADVICE, MOST_POINTER_BYTES, starts_as_pointer

if TYPE_CHECKING:
    from pathlib import Path


def open_to_read(path: Path, noun: str = "file") -> tuple[int, os.stat_result]:
    """Return a handle of a regular file, and its state. The caller closes the handle.

    Args:
        path: The file. Links are followed.
        noun: What the file is, for the error: ``"video file"``.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: It is not a regular file, cannot be opened, or is a Git LFS pointer.
        TooManyFilesError: The limit of open files is reached.
    """
    try:
        handle, status = open_regular(path, noun)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError(f"There is no {noun} {str(path)!r}.") from error
    except CorruptFileError:
        raise
    except ValueError as error:  # A name with a null byte, or with half of a surrogate pair.
        raise CorruptFileError(f"No {noun} can be called {str(path)!r}.") from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files(path) from error
        raise CorruptFileError(
            f"Cannot open the {noun} ({error.strerror}): {str(path)!r}."
        ) from error
    if status.st_size <= MOST_POINTER_BYTES and starts_as_pointer(handle):
        os.close(handle)
        raise CorruptFileError(f"The {noun} {LFS_ADVICE}: {str(path)!r}.")
    return handle, status


def too_many_files(path: Path) -> TooManyFilesError:
    """Return the error for a file that cannot be opened since too many are open."""
    return TooManyFilesError(
        errno.EMFILE,
        "Too many files are open in this process. Close datasets that are not needed, or raise the "
        "limit with `ulimit -n`",
        str(path),
    )
