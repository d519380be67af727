"""Images of any rows, stored as pictures or as video."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.frames.unchanged import telling_changes
from roboreel.image import box_of, decode_image, decode_images, from_channels_last, image_shape
from roboreel.io.batch_buffers import BatchBuffers
from roboreel.io.sources import fetch
from roboreel.sample_spec import SampleSpec
from roboreel.threads import ThreadPool
from roboreel.video.plan import cost_of, packet_spans
from roboreel.video.reader import Target
from roboreel.video.scale import fit_picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import DTypeLike, NDArray

    from roboreel.dataset.cache import Cache
    from roboreel.frames.frame_reader import FrameReader
    from roboreel.image import Layout
    from roboreel.io.budget import Budget
    from roboreel.video.plan import ClipRequest, Job, Plan


class Images:
    """The cameras of a dataset."""

    def __init__(self, frames: FrameReader, budget: Budget, cache: Cache | None = None) -> None:
        self._manifest = frames.manifest
        self._pictures = frames.pictures
        self._videos = frames.videos
        self._clips = frames.clips
        self._unchanged = frames.unchanged
        self._cache = cache
        self._buffers = budget.share(BatchBuffers)
        self._pool = ThreadPool(frames.videos.threads, "roboreel-pictures")

    def read(
        self,
        cameras: Mapping[str, NDArray[np.int64]],
        episodes: NDArray[np.int64],
        spec: SampleSpec,
        sizes: Sequence[int],
        *,
        goes_on: bool,
    ) -> dict[str, list[NDArray[Any]]]:
        """Return the images of some rows, in parts that have memory of their own.

        An image that several parts hold is decoded once.

        Args:
            cameras: The rows of each camera, ``(B,)`` or ``(B, T)``.
            episodes: Position of the episode of each anchor, ``(B,)``.
            spec: The size to scale to, and the order of the axes.
            sizes: How many anchors each part has.
            goes_on: Whether the next read may go on behind these images.

        Returns:
            Arrays ``(…, C, H, W)`` or ``(…, H, W, C)`` for each part: uint8; for depth, metres as
            float32 from video, or the stored values from pictures.
        """
        asked = _asked(cameras, episodes, sizes)
        videos = [one for one in asked.values() if self._is_video(one.camera, spec)]
        found = self._read_videos(videos, spec, goes_on=goes_on) if videos else {}
        for camera, one in asked.items():
            if camera not in found:
                found[camera] = self._read_stored(one, spec)
        return {
            camera: [
                images.reshape(size, *cameras[camera].shape[1:], *images.shape[1:])
                for images, size in zip(parts, sizes, strict=True)
            ]
            for camera, parts in found.items()
        }

    def fetch(
        self,
        cameras: Mapping[str, NDArray[np.int64]],
        episodes: NDArray[np.int64],
        spec: SampleSpec,
    ) -> int:
        """Have the packets of remote videos at hand that `read` would decode.

        Returns:
            How many bytes were missing.
        """
        jobs: list[Job] = []
        for one in _asked(cameras, episodes, [len(episodes)]).values():
            if self._is_video(one.camera, spec):
                plan = self._videos.plan(self._requests(one.camera, one.rows, one.episodes))
                jobs += [job for job in plan.jobs if job.table.via == "mp4"]
        return fetch(packet_spans(jobs))

    def video_files(self, names: Sequence[str], episode: int, spec: SampleSpec) -> list[Path]:
        """Return the video files that the images of an episode are read from."""
        known = self._manifest.features
        cameras = [name for name in names if name in known and self._is_video(name, spec)]
        return [self._clips.path(camera, episode) for camera in cameras]

    def _is_video(self, camera: str, spec: SampleSpec) -> bool:
        return self._manifest.features[camera].is_video and not self.is_cached(camera, spec)

    def _read_stored(self, asked: _Asked, spec: SampleSpec) -> list[NDArray[Any]]:
        """Return images that are no video, for each part."""
        if self.is_cached(asked.camera, spec):
            assert self._cache is not None
            read = partial(self._cache.images, layout=spec.layout, pool=self._pool)
            return [read(asked.camera, rows) for rows in asked.parts()]
        return self._read_pictures(asked, spec)

    def encoded(self, camera: str, rows: NDArray[np.int64]) -> list[bytes]:
        """Return the pictures of some rows as stored."""
        distinct, places = _distinct(rows)
        pictures = self._pictures.read(camera, distinct)
        return pictures if places is None else [pictures[place] for place in places]

    def stream(self, camera: str, episode: int, spec: SampleSpec) -> Iterator[NDArray[Any]]:
        """Yield the images of the episode at a position one by one, in bounded memory."""
        table = self._manifest.episodes
        start, length = int(table.start[episode]), int(table.length[episode])
        if self.is_cached(camera, spec):
            for row in range(start, start + length):
                yield self._read_stored(_Asked.one(camera, row), spec)[0][0]
            return
        if self._manifest.features[camera].is_video:
            with telling_changes(self._unchanged.confirm):
                request = self._clips.request(camera, episode, np.arange(length), np.arange(length))
                depth = self._manifest.features[camera].depth
                stored = self._videos.table(request.path).coding.image_size
                box = box_of(stored, spec.image_size or stored, spec.fit)
                images = self._videos.stream(
                    request, size=box.size, layout=spec.layout, depth=depth
                )
                for number, image in enumerate(images):
                    if number == 0:  # The file is open by now, and stays so.
                        self._unchanged.confirm()
                    yield box.padded(image, spec.layout)
            return
        for row in range(start, start + length):
            yield self._read_pictures(_Asked.one(camera, row), spec)[0][0]

    def path(self, camera: str) -> str:
        """Return in words how a camera is read."""
        if self.is_cached(camera, SampleSpec()):
            return "training cache, mapped"
        if self._manifest.features[camera].is_video:
            return f"video, decoded from the packets it needs{self._describe_demuxed(camera)}"
        return self._pictures.rung(camera)

    def _describe_demuxed(self, camera: str) -> str:
        demuxed = self._videos.demuxed
        if not demuxed:
            return ""
        root, files = self._manifest.root, self._manifest.video_files[camera]
        count = sum(root / files[file] in demuxed for file in range(len(files)))
        return f"; {count} files by FFmpeg's demuxer, which is slower" if count else ""

    def is_cached(self, camera: str, spec: SampleSpec) -> bool:
        """Whether the cache holds a camera in this size; other sizes are read from the source."""
        if self._cache is None or camera not in self._cache.manifest.cameras:
            return False
        size = spec.image_size
        source = self._manifest.features[camera].shape[:2]
        stored = self._cache.manifest.cameras[camera].size or source
        # What a cache holds is stretched, which is the same only in the same proportions.
        return size is None or (size == stored and box_of(source, size, spec.fit).size == size)

    def _read_pictures(self, asked: _Asked, spec: SampleSpec) -> list[NDArray[Any]]:
        # Rows that repeat, as they do at the edges of an episode, are decoded once.
        distinct, places = _distinct(asked.rows)
        pictures = self._pictures.read(asked.camera, distinct)
        try:
            return self._decode(asked, pictures, places, spec)
        except CorruptFileError as error:
            raise self._naming(asked.camera, distinct, pictures, error) from error

    def _decode(
        self, asked: _Asked, pictures: list[bytes], places: list[int] | None, spec: SampleSpec
    ) -> list[NDArray[Any]]:
        """Return pictures as images; ``places`` says which picture each row has."""
        size, layout = spec.image_size, spec.layout
        feature = self._manifest.features[asked.camera]
        alpha = feature.has_alpha
        none: NDArray[Any] = np.empty(feature.shape, np.uint8)
        first = decode_image(pictures[0], alpha=alpha) if pictures else none
        resized = size is not None and size != first.shape[:2]
        shape = (*(size or first.shape[:2]), first.shape[2])
        parts = self._batches(asked.sizes, shape, first.dtype, layout)
        images = [image for part in parts for image in part]
        firsts = images if places is None else _firsts(images, places)
        if resized:
            scale = partial(_scale_into, alpha=alpha, spec=spec)
            list(self._pool.map(scale, pictures, firsts))
        elif pictures:
            firsts[0][...] = from_channels_last(first, layout)
            decode_images(pictures[1:], firsts[1:], layout=layout, alpha=alpha, pool=self._pool)
        for image, place in zip(images, places or (), strict=False):
            if image is not firsts[place]:
                image[...] = firsts[place]
        return parts

    def _batches(
        self, counts: Sequence[int], shape: tuple[int, ...], dtype: DTypeLike, layout: Layout
    ) -> list[NDArray[Any]]:
        height, width, channels = shape
        one = image_shape(height, width, channels, layout)
        return [self._buffers.empty((count, *one), dtype) for count in counts]

    def _naming(
        self,
        camera: str,
        rows: NDArray[np.int64],
        pictures: list[bytes],
        error: CorruptFileError,
    ) -> CorruptFileError:
        """Return the error with the row and the file of the damaged picture."""
        for row, picture in zip(rows.tolist(), pictures, strict=True):
            try:
                decode_image(picture)
            except CorruptFileError as wrong:  # noqa: PERF203  # only after a failure
                return CorruptFileError(
                    f"Row {row} of {camera!r}: {wrong} In {self._pictures.path_of(row)!r}."
                )
        path = self._pictures.path_of(int(rows[0]))
        return CorruptFileError(f"{camera!r}: {error} In {path!r}.")

    def _read_videos(
        self, several: Sequence[_Asked], spec: SampleSpec, *, goes_on: bool
    ) -> dict[str, list[NDArray[Any]]]:
        """Return the images of all cameras that are video, decoded side by side.

        Raises:
            StaleDatasetError: The files may be those of other episodes by now.
        """
        with telling_changes(self._unchanged.confirm):
            found = self._decode_videos(several, spec, goes_on=goes_on)
        self._unchanged.confirm()
        return found

    def _decode_videos(
        self, several: Sequence[_Asked], spec: SampleSpec, *, goes_on: bool
    ) -> dict[str, list[NDArray[Any]]]:
        found: dict[str, list[NDArray[Any]]] = {}
        work: list[tuple[Job, Target]] = []
        for asked in several:
            requests = self._requests(asked.camera, asked.rows, asked.episodes)
            plan = self._videos.plan(requests, beside=len(several))
            found[asked.camera] = self._aim(asked, plan, spec, work, goes_on=goes_on)
            # Of a shuffled group of batches: memory for the next camera may be free by then.
            if len(asked.sizes) > 1 and not goes_on:
                self._videos.read_all(work)
                work = []
        if len(several) > 1:
            work.sort(key=lambda one: cost_of(one[0].runs), reverse=True)
        self._videos.read_all(work)
        return found

    def _aim(
        self,
        asked: _Asked,
        plan: Plan,
        spec: SampleSpec,
        work: list[tuple[Job, Target]],
        *,
        goes_on: bool,
    ) -> list[NDArray[Any]]:
        """Return arrays for the images of a plan, and add its jobs to the work on them."""
        layout, feature = spec.layout, self._manifest.features[asked.camera]
        channels, dtype = (3, np.uint8) if feature.depth is None else (1, np.float32)
        height, width = spec.image_size or self._video_size(asked.camera, plan.image_sizes)
        parts = self._batches(asked.sizes, (height, width, channels), dtype, layout)
        boxes = {
            path: box_of(stored, (height, width), spec.fit)
            for path, stored in plan.image_sizes.items()
        }
        if any(box.size != box.outer for box in boxes.values()):
            for part in parts:
                part[...] = 0
        targets = {
            box: Target(
                [image for part in parts for image in box.inside(part, layout)],
                layout,
                feature.depth,
                goes_on=goes_on,
            )
            for box in set(boxes.values())
        }
        work += [(job, targets[boxes[job.path]]) for job in plan.jobs]
        return parts

    def _requests(
        self, camera: str, rows: NDArray[np.int64], episodes: NDArray[np.int64]
    ) -> list[ClipRequest]:
        slots: defaultdict[int, list[int]] = defaultdict(list)
        for slot, episode in enumerate(episodes.tolist()):
            slots[episode].append(slot)
        frames = rows - self._manifest.episodes.start[episodes]
        return [
            self._clips.request(camera, episode, frames[places], np.asarray(places))
            for episode, places in slots.items()
        ]

    def _video_size(self, camera: str, sizes: Mapping[Path, tuple[int, int]]) -> tuple[int, int]:
        if not sizes:
            height, width, _ = self._manifest.features[camera].shape
            return height, width
        first = next(iter(sizes))
        for path, size in sizes.items():
            if size != sizes[first]:
                raise CorruptFileError(
                    f"The images of {camera!r} differ in size: {sizes[first]} in {str(first)!r} "
                    f"and {size} in {str(path)!r}. Pass image_size=(height, width) to scale them "
                    "to one."
                )
        return sizes[first]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Images that are wanted of one camera."""

    camera: str
    rows: NDArray[np.int64]
    """``(N,)``."""
    episodes: NDArray[np.int64]
    """Position of each row's episode, ``(N,)``."""
    sizes: list[int]
    """How many images each part has."""

    @classmethod
    def one(cls, camera: str, row: int) -> _Asked:
        """Return what asks for the image of one row that is no video."""
        return cls(camera, np.asarray([row]), np.asarray([], np.int64), [1])

    def parts(self) -> list[NDArray[np.int64]]:
        """Return the rows of each part."""
        return np.split(self.rows, np.cumsum(self.sizes)[:-1])


def _asked(
    cameras: Mapping[str, NDArray[np.int64]], episodes: NDArray[np.int64], sizes: Sequence[int]
) -> dict[str, _Asked]:
    return {
        camera: _Asked(
            camera,
            rows.reshape(-1),
            np.repeat(episodes, rows[:1].size),
            [size * rows[:1].size for size in sizes],
        )
        for camera, rows in cameras.items()
    }


def _scale_into(picture: bytes, out: NDArray[Any], *, alpha: bool, spec: SampleSpec) -> None:
    assert spec.image_size is not None
    fitted = fit_picture(decode_image(picture, alpha=alpha), spec.image_size, spec.fit)
    out[...] = from_channels_last(fitted, spec.layout)


def _firsts(images: list[NDArray[Any]], places: list[int]) -> list[NDArray[Any]]:
    """Return the first of the images of each place."""
    first: dict[int, NDArray[Any]] = {}
    for image, place in zip(images, places, strict=True):
        first.setdefault(place, image)
    return list(first.values())  # Places count up in the order of their first images.


def _distinct(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int] | None]:
    """Return the distinct rows, and the place of each row among them; None if none repeats."""
    place: dict[int, int] = {}
    places = [place.setdefault(row, len(place)) for row in rows.tolist()]
    if len(place) == len(places):
        return rows, None
    return np.fromiter(place, np.int64, len(place)), places
