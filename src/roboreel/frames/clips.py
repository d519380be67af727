"""Which video file shows an episode, which stretch of it, and which packets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    MissingFileError,
    MissingImageError,
    RemoteError,
)
from roboreel.frames.clip_spans import arrange_clips
from roboreel.video.clip import images_of
from roboreel.video.reader import ClipRequest, open_packets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.frames.clip_spans import ClipSpans
    from roboreel.frames.columns import Columns
    from roboreel.schema import Manifest
    from roboreel.video.clip import Clip
    from roboreel.video.packet_table import PacketTable
    from roboreel.video.reader import VideoReader


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeClip:
    """The packets that show an episode."""

    request: ClipRequest
    """All frames that have an image, in order."""
    table: PacketTable
    """All packets of the file."""
    packets: NDArray[np.int64]
    """The packet of each frame that has an image, ``(N,)``."""
    frames: NDArray[np.int64]
    """The row of each such frame, counted from the first row of the episode, ``(N,)``.

    Ascending, unless the rows of the episode are out of order; nearly always all.
    """

    @property
    def path(self) -> Path:
        """The video file."""
        return self.request.path

    @property
    def keyframes(self) -> NDArray[np.bool_]:
        """Whether decoding can start at the packet of each frame, ``(N,)``."""
        return self.table.keyframe[self.packets]

    @property
    def can_stream(self) -> bool:
        """Whether the packets alone, one for each frame, decode to the episode's images.

        They do if they begin at a keyframe and are shown in decoding order.
        """
        shown = self.table.pts[self.packets]
        return bool(
            self.keyframes[0] and (np.diff(self.packets) == 1).all() and (np.diff(shown) > 0).all()
        )

    def read_packets(self) -> Iterator[bytes]:
        """Yield the packet of each frame of a clip that can stream; no other byte is read."""
        start, stop = int(self.packets[0]), int(self.packets[-1]) + 1
        with open_packets(self.path, self.table) as reader:
            for _, data in reader.read(start, stop):
                yield bytes(data)


class Clips:
    """The clips of a dataset: for each episode and camera, the part of a video file."""

    def __init__(self, manifest: Manifest, videos: VideoReader, order: FrameOrder) -> None:
        self._manifest = manifest
        self._videos = videos
        self._order = order
        self._spans: dict[str, ClipSpans] = {}

    def clip(self, camera: str, episode: int) -> Clip:
        """Return where the images of the episode at a position lie in its file."""
        spans = self._spans.get(camera)
        if spans is None:
            spans = self._spans[camera] = arrange_clips(self._manifest, camera)
        return spans.clip(episode)

    def note_order(self, episode: int, numbers: NDArray[Any]) -> None:
        """Take note of the ``frame_index`` of all rows of an episode that were read already."""
        self._order.note(episode, numbers)

    def request(
        self, camera: str, episode: int, frames: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> ClipRequest:
        """Return the request for some images of an episode.

        Args:
            camera: A camera that is stored as video.
            episode: The episode's position.
            frames: Rows, counted from the first of the episode, ``(N,)``.
            slots: Where in a batch each image goes, ``(N,)``.

        Raises:
            MissingFileError: The metadata names no video file.
            CorruptFileError: What the rows say of their order is contradictory.
        """
        return ClipRequest(
            self.path(camera, episode),
            self.clip(camera, episode),
            self._order.frames_at(episode, frames),
            slots,
            episode=int(self._manifest.episodes.number[episode]),
            camera=camera,
            times_of=partial(self._order.times_of, episode),
        )

    def path(self, camera: str, episode: int) -> Path:
        """Return the video file of the episode at a position.

        Raises:
            MissingFileError: The metadata names none.
        """
        manifest, episodes = self._manifest, self._manifest.episodes
        file = int(episodes.clips[camera].file[episode])
        if file < 0:
            raise MissingFileError(
                f"The metadata names no video of {camera!r} for episode "
                f"{int(episodes.number[episode])}, in {str(manifest.root)!r}."
            )
        return _path(manifest.root, manifest.video_files[camera][file])

    def find(self, camera: str, episode: int) -> EpisodeClip:
        """Return the clip of the episode at a position; frames without an image are left out.

        Raises:
            MissingFileError: There is no video file.
            MissingImageError: The file has no image of the episode at all.
        """
        every = np.arange(int(self._manifest.episodes.length[episode]))
        request = self.request(camera, episode, every, every)
        table = self._videos.table(request.path)
        frames, images = _frames_with_images(request, table)
        if not len(frames):
            raise MissingImageError(
                f"The video has no image of episode {request.episode}, camera {camera!r}. Leave "
                f"the episode out with select(), or restore its video {str(request.path)!r}."
            )
        request = replace(request, frames=frames, slots=frames)
        places = self._order.places_of(episode, frames)
        return EpisodeClip(request, table, table.shown[images].astype(np.int64), places)


@lru_cache(maxsize=4096)
def _path(root: Path, name: str) -> Path:
    # Batches and episodes share files. Making a path is slow, and fills Python's table of names.
    return root / name


def _frames_with_images(
    request: ClipRequest, table: PacketTable
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    frames = np.arange(request.clip.length)
    try:
        return frames, _images_of(frames, request, table)
    except MissingImageError:
        # Some images are missing: keep the others.
        images = [_image_of(frame, request, table) for frame in frames.tolist()]
    there = [frame for frame, image in enumerate(images) if image is not None]
    found = [image for image in images if image is not None]
    return np.array(there, dtype=np.int64), np.array(found, dtype=np.int64)


def _image_of(frame: int, request: ClipRequest, table: PacketTable) -> int | None:
    try:
        return int(_images_of(np.array([frame]), request, table)[0])
    except MissingImageError:
        return None


def _images_of(
    frames: NDArray[np.int64], request: ClipRequest, table: PacketTable
) -> NDArray[np.int64]:
    clock = table.ticks, table.time_base
    return images_of(frames, request.clip, *clock, request.times_of, step=table.step)


class FrameOrder:
    """The order of the rows of each episode, looked up once per episode.

    Rows are nearly always in order. Where they are not, the image of a row is the one of its
    ``frame_index``, not of its place. Where the data cannot be read, rows count as in order.
    """

    def __init__(self, manifest: Manifest, columns: Columns) -> None:
        self._manifest = manifest
        self._columns = columns
        self._known = np.zeros(len(manifest.episodes), dtype=bool)
        self._frames: dict[int, NDArray[np.int64]] = {}
        """By the position of the episode, if its rows are out of order: the frame of each row."""

    def frames_at(self, episode: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame of each row of an episode.

        Args:
            episode: The episode's position.
            places: Rows, counted from the first of the episode, ``(N,)``.

        Raises:
            CorruptFileError: What the rows say of their order is contradictory.
        """
        if not self._known[episode]:
            self._look_up(episode)
        frames = self._frames.get(episode)
        return places if frames is None else frames[places]

    def note(self, episode: int, numbers: NDArray[Any]) -> None:
        """Store the ``frame_index`` of all rows of an episode, which the caller has read."""
        if len(numbers) == self._manifest.episodes.length[episode] and _counts_up(numbers):
            self._known[episode] = True

    def places_of(self, episode: int, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that hold some frames, counted from the first row of the episode."""
        stored = self.frames_at(episode, np.arange(int(self._manifest.episodes.length[episode])))
        return np.argsort(stored, kind="stable")[frames]

    def times_of(self, episode: int, frames: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return when frames are, in seconds from the start of the episode.

        These are the stored timestamps, unless they are no clock: they must start at 0 and increase.
        """
        by_rate = frames / self._manifest.fps
        try:
            stored = self._gather("timestamp", episode).astype(np.float64)
        except RemoteError:
            raise
        except DatasetError:
            return by_rate
        every = np.arange(len(stored))
        stored = stored[self.places_of(episode, every)]
        is_clock = abs(stored[0]) < 0.5 / self._manifest.fps and (np.diff(stored) > 0).all()
        return stored[frames] if is_clock else by_rate

    def _look_up(self, episode: int) -> None:
        if self._manifest.episodes.length[episode]:
            try:
                numbers = self._gather("frame_index", episode)
                times_s = None if _counts_up(numbers) else self._gather("timestamp", episode)
            except RemoteError:
                raise  # The data can be read, only not now: nothing is assumed of its order.
            except DatasetError:
                return  # Not known: another try may succeed.
            if times_s is not None:
                self._compare(episode, numbers, times_s)
        self._known[episode] = True

    def _compare(self, episode: int, numbers: NDArray[Any], times_s: NDArray[Any]) -> None:
        """Note the order of an episode whose frame_index does not count up."""
        in_order = bool((np.diff(times_s) > 0).all())
        if not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
            return  # It is no order: as in LeRobot, only check complains.
        if (np.diff(times_s[np.argsort(numbers, kind="stable")]) > 0).all():
            self._frames[episode] = numbers.astype(np.int64)
        elif in_order:
            number = int(self._manifest.episodes.number[episode])
            raise CorruptFileError(
                f"frame_index and timestamp of episode {number} put its rows in different orders, so "
                "that the images of its rows are not known. Leave the episode out with select(), or "
                f"correct one of the columns: {str(self._manifest.root)!r}."
            )

    def _gather(self, name: str, episode: int) -> NDArray[Any]:
        start = int(self._manifest.episodes.start[episode])
        rows = np.arange(start, start + int(self._manifest.episodes.length[episode]))
        return self._columns.gather(name, rows).reshape(-1)


def _counts_up(numbers: NDArray[Any]) -> bool:
    """Whether numbers count up by one: from 0, or from wherever a writer began."""
    return bool((np.diff(numbers) == 1).all())
