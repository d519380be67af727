"""Video files as FFmpeg opens them: those that hold their own packets, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av

from roboreel.errors import CorruptFileError
from roboreel.io.reading import whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from av.container import InputContainer

# Playlists (HLS, DASH, concat) and patterns of pictures would lead FFmpeg to files and servers that
# the sender of a dataset chose.
_FORMATS = "mov,matroska,avi,mpegts,mpeg,flv,ogg,asf,ivf,h264,hevc,m4v"


def open_container(path: Path) -> InputContainer:
    """Return a video file, open; the caller closes it.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: FFmpeg cannot open it, or it is a list of other files.
    """
    options = {"format_whitelist": _FORMATS}
    try:
        container: InputContainer = av.open(whole_file(path, "video file"), options=options)
    except (av.FFmpegError, UnicodeDecodeError) as error:  # It decodes tags, damaged or not.
        raise CorruptFileError(f"FFmpeg cannot open {str(path)!r}: {error}.") from error
    return container
