"""One episode of one camera, decoded from start to end in bounded memory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.image_watch import ImageWatch, StillRun, thinned
from roboreel.check.pixel_summary import PixelSummary, summarize_pixels
from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    MissingValueError,
    UnsupportedVideoError,
)
from roboreel.image import decode_image
from roboreel.stats import ImageAccumulator
from roboreel.video.mp4 import read_packet_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roboreel.frames.clips import EpisodeClip
    from roboreel.frames.frame_reader import FrameReader

NOT_SEEN = 255
"""Stands for the sharpness of an image that was not seen."""
_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class Damage:
    """Frames whose images cannot be decoded."""

    start: int
    stop: int
    cause: str


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeImages:
    """What was seen of an episode, in about a byte per frame."""

    camera: str
    position: int
    """The episode's position."""
    num_images: int
    same: StillRun | None
    """The longest run of images that are equal to the last bit."""
    still: StillRun | None
    """The longest run of images that hardly differ."""
    num_still: int
    """Frames in all such runs."""
    changes: tuple[float, ...]
    """How much the image changes where it changes most, each time over as many frames as the
    shortest run has; of 255."""
    black: tuple[int, ...]
    """Frames whose images are black."""
    sharpness: NDArray[np.uint8]
    """Of each frame, ``(T,)``; `NOT_SEEN` where there is no image, or it is black."""
    damage: tuple[Damage, ...]
    pixels: PixelSummary | None
    """None for depth, and for images of other than three channels of 8 bits."""
    not_read: str | None = None
    """Why there are no images, or not all."""


def look_at_episode(
    frames: FrameReader, camera: str, position: int, *, least: int
) -> EpisodeImages:
    """Decode all images of an episode, and return what they look like.

    Args:
        frames: The dataset.
        camera: The camera.
        position: The episode's position.
        least: How many still images in a row are worth keeping.
    """
    feature = frames.manifest.features[camera]
    look = _Look(frames, camera, position, ImageWatch(least, is_depth=feature.depth is not None))
    try:
        if feature.is_video:
            look.at_video()
        else:
            look.at_pictures()
    except (DatasetError, OSError) as error:
        return look.result(not_read=str(error))
    return look.result()


class _Look:
    """Passes the images of an episode to the checks that look at them."""

    def __init__(self, frames: FrameReader, camera: str, position: int, watch: ImageWatch) -> None:
        self._frames = frames
        self._camera = camera
        self._position = position
        self._watch = watch
        self._damage: list[Damage] = []
        self._counted: ImageAccumulator | None = None

    def result(self, not_read: str | None = None) -> EpisodeImages:
        """Return what was seen."""
        watch = self._watch
        watch.finish()
        length = int(self._frames.manifest.episodes.length[self._position])
        sharpness = np.full(length, NOT_SEEN, np.uint8)
        if watch.sharpness:
            sharpness[watch.frames] = np.minimum(watch.sharpness, NOT_SEEN - 1)
            sharpness[watch.black] = NOT_SEEN
        runs = watch.same if watch.is_depth else watch.still
        return EpisodeImages(
            camera=self._camera,
            position=self._position,
            num_images=len(watch.frames),
            same=_longest(watch.same),
            still=_longest(watch.still),
            num_still=sum(run.length for run in runs),
            changes=tuple(watch.changes),
            black=tuple(watch.black),
            sharpness=sharpness,
            damage=tuple(self._damage),
            pixels=None if self._counted is None else summarize_pixels(self._counted),
            not_read=not_read,
        )

    def at_video(self) -> None:
        """Look at a clip; after damage, decoding goes on at the next keyframe."""
        clip = self._frames.clips.find(self._camera, self._position)
        if clip.table.via != "mp4":
            _raise_if_damaged(clip)
        depth = self._frames.manifest.features[self._camera].depth
        starts = clip.table.start[clip.packets]
        independent = clip.keyframes
        place = 0
        while place < len(clip.frames):
            rest = clip.request.frames[place:]
            request = replace(clip.request, frames=rest, slots=rest)
            try:
                for image in self._frames.videos.stream(request, layout="chw", depth=depth):
                    self._see(int(clip.frames[place]), image, bool(independent[place]))
                    place += 1
            except (CorruptFileError, UnsupportedVideoError) as error:
                later = np.flatnonzero(starts[place:] > starts[place])
                stop = place + int(later[0]) if len(later) else len(clip.frames)
                self._lose(clip, place, stop, error)
                place = stop

    def _lose(self, clip: EpisodeClip, place: int, stop: int, error: Exception) -> None:
        cause = str(error).split(" Video file: ")[0].split(": [Errno")[0].rstrip(".") + "."
        self._damage.append(Damage(int(clip.frames[place]), int(clip.frames[stop - 1]) + 1, cause))

    def at_pictures(self) -> None:
        """Look at the pictures in a data file."""
        episodes = self._frames.manifest.episodes
        start = int(episodes.start[self._position])
        for frame, picture in enumerate(
            self._pictures(start, int(episodes.length[self._position]))
        ):
            try:
                if isinstance(picture, MissingValueError):
                    raise picture
                pixels = decode_image(picture)
            except (CorruptFileError, MissingValueError) as error:  # noqa: PERF203  # decoding is dear
                self._damage.append(Damage(frame, frame + 1, str(error)))
            else:
                self._see(frame, pixels.transpose(2, 0, 1), True)

    def _pictures(
        self, start: int, length: int
    ) -> Iterator[bytes | memoryview | MissingValueError]:
        """Yield the picture of each row, or why there is none."""
        row = start
        try:
            for picture in self._frames.pictures.read_span(self._camera, start, start + length):
                yield picture
                row += 1
        except MissingValueError:
            # One by one from here on: some are there.
            for missing in range(row, start + length):
                try:
                    yield self._frames.pictures.read(self._camera, np.asarray([missing]))[0]
                except MissingValueError as error:  # noqa: PERF203  # only after a failure
                    yield error

    def _see(self, frame: int, image: NDArray[Any], is_independent: bool) -> None:
        self._watch.add(frame, image, is_independent=is_independent)
        if image.dtype == np.uint8 and len(image) == _CHANNELS and not self._watch.is_depth:
            self._counted = self._counted or ImageAccumulator(_CHANNELS)
            self._counted.update(thinned(image)[None])


def _raise_if_damaged(clip: EpisodeClip) -> None:
    """Raise the error of a damaged index, which FFmpeg reads as far as it goes: it is RR401."""
    with suppress(UnsupportedVideoError):
        read_packet_table(clip.path)


def _longest(runs: list[StillRun]) -> StillRun | None:
    return max(runs, key=lambda run: run.length, default=None)
