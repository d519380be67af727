"""Videos of the new dataset that are encoded again, in parts that are then joined by copying."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.opened import Opened
from roboreel.files import link_file
from roboreel.format.video_info import encoding_of
from roboreel.video.encode import VideoWriter, check_size
from roboreel.video.mp4 import read_packet_table
from roboreel.video.splice import ImageSpan, splice_videos

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.edit.context import EditContext
    from roboreel.edit.layout import FileTarget
    from roboreel.video.encoding import Encoding
    from roboreel.video.packet_table import PacketTable

_IMAGES_AT_ONCE = 16


class ClipPlace(NamedTuple):
    """Where the images of a new episode are in their file."""

    start_s: float
    stop_s: float
    first: int | None = None
    """Position of the first among all images of the file, if the file was written."""


def check_encodings(context: EditContext) -> None:
    """Raise if images cannot be encoded as asked, before any is.

    Raises:
        EncodingError: A size or codec is impossible.
    """
    for camera in {one.camera for one in context.layout.videos if one.how == "re-encoded"}:
        encoding, size = _coding_of(context, str(camera))
        check_size(size, encoding)


def _coding_of(context: EditContext, camera: str) -> tuple[Encoding, tuple[int, int]]:
    """Return how a camera is encoded again, and the height and width of its images."""
    feature, coding = context.features[camera], context.recipe.codings.get(camera)
    encoding = (coding.encoding if coding else None) or encoding_of(feature)
    return encoding, (feature.shape[0], feature.shape[1])


def encode_span(context: EditContext, target: FileTarget, span: tuple[int, int], out: Path) -> None:
    """Write some episodes of a video file to a file of their own; nothing is synced.

    Each is encoded by itself, so that it begins with a keyframe and can be cut out later.

    Args:
        context: The edit.
        target: The video file.
        span: Which of its episodes.
        out: Where to write.
    """
    camera = str(target.camera)
    encoding, size = _coding_of(context, camera)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        episodes = []
        for number in target.pieces[slice(*span)]:
            episodes.append(Path(scratch, f"{number}{out.suffix}"))
            with VideoWriter(
                episodes[-1], size=size, fps=context.layout.fps, encoding=encoding
            ) as writer:
                for images in _decoded(context, camera, number):
                    for image in images:
                        writer.write(image)
        _join(episodes, out)


def join_encoded(
    context: EditContext, target: FileTarget, parts: Sequence[Path], out: Path
) -> dict[int, ClipPlace]:
    """Put the parts of a video file together, and return where its episodes are.

    Args:
        context: The edit.
        target: The video file.
        parts: What `encode_span` wrote, in order. A single one gets a second name.
        out: Where to write.
    """
    if len(parts) == 1:
        link_file(parts[0], out)
    else:
        _join(parts, out)
    table = read_packet_table(out)
    stops = np.cumsum(context.layout.length[list(target.pieces)]).tolist()
    firsts = [0, *stops[:-1]]
    return {
        number: ClipPlace(*times_of(table.ticks, first, stop - 1, table), first)
        for number, first, stop in zip(target.pieces, firsts, stops, strict=True)
    }


def _join(parts: Sequence[Path], out: Path) -> None:
    """Put whole videos behind each other, and their index in front."""
    tables = [read_packet_table(part) for part in parts]
    pairs = zip(parts, tables, strict=True)
    splice_videos([ImageSpan.of(path, one, 0, len(one.size)) for path, one in pairs], out)


def times_of(
    ticks: NDArray[np.int64], first: int, last: int, table: PacketTable
) -> tuple[float, float]:
    """Return when an image is shown, and when the one after another is, from the file's own clock."""
    step = max(round(table.step), 1)
    follows = last + 1 < len(ticks) and ticks[last + 1] - ticks[last] < 1.5 * step
    stop = int(ticks[last + 1]) if follows else int(ticks[last]) + step
    clock = table.time_base
    return float(int(ticks[first]) * clock), float(stop * clock)


def _decoded(context: EditContext, camera: str, number: int) -> Iterator[NDArray[Any]]:
    """Yield the images of a new episode, some at a time."""
    piece = context.recipe.pieces[number]
    source, name = context.source(piece), context.old_name(piece, camera)
    dataset = Dataset(Opened(source.manifest, None, None))
    rows = int(source.manifest.episodes.start[piece.episode]) + context.frames(number)
    size = context.features[camera].shape[:2]
    for first in range(0, len(rows), _IMAGES_AT_ONCE):
        part = rows[first : first + _IMAGES_AT_ONCE]
        yield dataset.read(part, [name], image_size=size, layout="hwc")[name]
