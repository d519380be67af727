"""The video files of the new dataset: kept, copied, put together from packets, or encoded again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.edit.encoding import ClipPlace, times_of
from roboreel.edit.layout import is_per_episode
from roboreel.errors import EditError
from roboreel.frames.clip_spans import arrange_clips
from roboreel.video.clip import images_of
from roboreel.video.mp4 import read_packet_table
from roboreel.video.splice import splice_videos

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.edit.context import EditContext
    from roboreel.edit.layout import FileTarget
    from roboreel.schema import Manifest

    Places = dict[int, ClipPlace]


def write_clips(context: EditContext, target: FileTarget, out: Path) -> Places:
    """Return by new episode where its images are in a video file, which is written if it is new.

    Args:
        context: The edit.
        target: The file.
        out: Where to write; nothing is synced.
    """
    if target.how == "remuxed":
        return _splice(context, target, out)
    return {number: _old_times(context, target, number) for number in target.pieces}


def check_clips(
    context: EditContext,
    manifest: Manifest,
    places: Mapping[str, Mapping[int, ClipPlace]],
    where: Callable[[FileTarget], Path],
) -> None:
    """Raise if a row of the new dataset would not show the image that it showed.

    Args:
        context: The edit.
        manifest: The new dataset.
        places: Where the images of each new episode were put, by camera.
        where: Where each video file is by now.

    Raises:
        EditError: A row would show another image, or none.
    """
    spans = {camera: arrange_clips(manifest, camera) for camera in manifest.episodes.clips}
    for target in context.layout.videos:
        if _is_untouched(context, target):
            continue
        copied = target.how in ("kept", "linked", "copied")
        if copied:
            videos = context.sources[target.sources[0][0]].frames.videos
            table = videos.table(context.old_file(target))
        else:
            table = read_packet_table(where(target))
        last = -1
        for number in target.pieces:
            clip = spans[str(target.camera)].clip(number)
            every = np.arange(clip.length)
            found = images_of(every, clip, table.ticks, table.time_base, step=table.step)
            first = places[str(target.camera)][number].first
            expected = found if first is None else first + every
            expected = _images(context, target, number) if copied else expected
            if not np.array_equal(found, expected) or (not copied and found[0] <= last):
                raise EditError(
                    f"The images of episode {context.old_number(number)} of {target.camera!r} would "
                    "not be found by their times any more, since the times of the video are uneven. "
                    f"Write the video anew with --scrub (scrub=True): {target.file!r}."
                )
            last = int(found[-1])


def _is_untouched(context: EditContext, target: FileTarget) -> bool:
    """Whether every clip of a file stays as it is."""
    if target.how not in ("kept", "linked", "copied"):
        return False
    piece = context.recipe.pieces[target.pieces[0]]
    camera = context.old_name(piece, str(target.camera))
    there = context.source(piece).stored(camera).episodes_with(piece.episode)
    return there == len(target.pieces) and all(context.is_whole(n) for n in target.pieces)


def _images(context: EditContext, target: FileTarget, number: int) -> NDArray[np.int64]:
    """Return the images of a new episode among those of its old file."""
    piece = context.recipe.pieces[number]
    name = context.old_name(piece, str(target.camera))
    return context.source(piece).images(name, piece.episode)[piece.start : piece.stop]


def _old_times(context: EditContext, target: FileTarget, number: int) -> ClipPlace:
    """Return the times of a clip in a file that stays as it is."""
    piece = context.recipe.pieces[number]
    source, name = context.source(piece), context.old_name(piece, str(target.camera))
    length_s = int(context.layout.length[number]) / context.layout.fps
    if is_per_episode(context.layout.kinds[target.camera].files):
        return ClipPlace(0.0, length_s)
    if piece.is_whole and not is_per_episode(source.stored(name).files):
        clips = source.manifest.episodes.clips[name]
        return ClipPlace(float(clips.start_s[piece.episode]), float(clips.stop_s[piece.episode]))
    images = _images(context, target, number)
    table = source.frames.videos.table(source.root / source.video_file(name, piece.episode))
    return ClipPlace(*times_of(table.ticks, int(images[0]), int(images[-1]), table))


def _splice(context: EditContext, target: FileTarget, out: Path) -> Places:
    spans = []
    for number in target.pieces:
        piece = context.recipe.pieces[number]
        name = context.old_name(piece, str(target.camera))
        spans.append(context.source(piece).span(name, piece.episode, piece.start, piece.stop))
    alone = is_per_episode(context.layout.kinds[target.camera].files)
    hidden = alone and not spans[0].is_exact
    shown = splice_videos(spans, out, hide=hidden)
    clock = spans[0].table.time_base
    places, before = {}, 0
    for number, span, ticks in zip(target.pieces, spans, shown, strict=True):
        needed = span.table.pts[span.needed]
        first = before + int((needed < span.table.pts[span.packets].min()).sum())
        times = float(int(ticks[0]) * clock), float((int(ticks[-1]) + span.step) * clock)
        places[number] = ClipPlace(*times, None if hidden else first)
        before += len(needed)
    return places
