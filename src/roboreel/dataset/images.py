"""Images of any rows, stored as pictures or as video."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError
from roboreel.image import box_of, decode_image, decode_images, image_shape
from roboreel.memory.batch_buffers import BatchBuffers
from roboreel.sample_spec import SampleSpec
from roboreel.threads import ThreadPool
from roboreel.video.scale import fit_picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import DTypeLike, NDArray

    from roboreel.dataset.cache import Cache
    from roboreel.frames.frame_reader import FrameReader
    from roboreel.image import Layout
    from roboreel.memory.budget import Budget
    from roboreel.video.reader import ClipRequest

__all__ = ["Images"]


class Images:
    """The cameras of a dataset."""

    def __init__(self, frames: FrameReader, budget: Budget, cache: Cache | None = None) -> None:
        self._manifest = frames.manifest
        self._pictures = frames.pictures
        self._videos = frames.videos
        self._clips = frames.clips
        self._cache = cache
        self._buffers = BatchBuffers(budget)
        self._pool = ThreadPool(frames.videos.threads, "roboreel-pictures")

    def read(
        self,
        camera: str,
        rows: NDArray[np.int64],
        episodes: NDArray[np.int64],
        spec: SampleSpec,
    ) -> NDArray[Any]:
        """Return the images of some rows.

        Args:
            camera: A feature whose values are images.
            rows: Rows of the dataset, ``(N,)``.
            episodes: Position of each row's episode, ``(N,)``.
            spec: The size to scale to, and the order of the axes.

        Returns:
            ``(N, C, H, W)`` or ``(N, H, W, C)``: uint8; for depth, metres as float32 from video, or
            the stored values from pictures.
        """
        if self._is_cached(camera, spec):
            assert self._cache is not None
            return self._cache.images(camera, rows, layout=spec.layout, pool=self._pool)
        if self._manifest.features[camera].dtype == "video":
            return self._read_video(camera, rows, episodes, spec)
        return self._read_pictures(camera, rows, spec)

    def encoded(self, camera: str, rows: NDArray[np.int64]) -> list[bytes]:
        """Return the pictures of some rows as stored."""
        distinct, places = _distinct(rows)
        pictures = self._pictures.read(camera, distinct)
        return pictures if places is None else [pictures[place] for place in places]

    def stream(self, camera: str, episode: int, spec: SampleSpec) -> Iterator[NDArray[Any]]:
        """Yield the images of the episode at a position one by one, in bounded memory."""
        table = self._manifest.episodes
        start, length = int(table.start[episode]), int(table.length[episode])
        if self._is_cached(camera, spec):
            for row in range(start, start + length):
                yield self.read(camera, np.asarray([row]), np.asarray([episode]), spec)[0]
            return
        if self._manifest.features[camera].dtype == "video":
            request = self._clips.request(camera, episode, np.arange(length), np.arange(length))
            depth = self._manifest.features[camera].depth
            stored = self._videos.table(request.path).coding.image_size
            box = box_of(stored, spec.image_size or stored, spec.fit)
            for image in self._videos.stream(
                request, size=box.size, layout=spec.layout, depth=depth
            ):
                yield box.padded(image, spec.layout)
            return
        for row in range(start, start + length):
            yield self._read_pictures(camera, np.asarray([row]), spec)[0]

    def path(self, camera: str) -> str:
        """Return in words how a camera is read."""
        if self._is_cached(camera, SampleSpec()):
            return "training cache, mapped"
        if self._manifest.features[camera].dtype == "video":
            return f"video, decoded from the packets it needs{self._describe_demuxed(camera)}"
        return self._pictures.rung(camera)

    def _describe_demuxed(self, camera: str) -> str:
        demuxed = self._videos.demuxed
        if not demuxed:
            return ""
        root, files = self._manifest.root, self._manifest.video_files[camera]
        count = sum(root / files[file] in demuxed for file in range(len(files)))
        return f"; {count} files by FFmpeg's demuxer, which is slower" if count else ""

    def _is_cached(self, camera: str, spec: SampleSpec) -> bool:
        """Whether the cache holds a camera in this size; other sizes are read from the source."""
        if self._cache is None or camera not in self._cache.manifest.cameras:
            return False
        size = spec.image_size
        source = self._manifest.features[camera].shape[:2]
        stored = self._cache.manifest.cameras[camera].size or source
        # What a cache holds is stretched, which is the same only in the same proportions.
        return size is None or (size == stored and box_of(source, size, spec.fit).size == size)

    def _read_pictures(
        self, camera: str, rows: NDArray[np.int64], spec: SampleSpec
    ) -> NDArray[Any]:
        # Rows that repeat, as they do at the edges of an episode, are decoded once.
        distinct, places = _distinct(rows)
        pictures = self._pictures.read(camera, distinct)
        try:
            images = self._decode(camera, pictures, spec)
        except CorruptFileError as error:
            raise self._naming(camera, distinct, pictures, error) from error
        return images if places is None else images[places]

    def _decode(self, camera: str, pictures: list[bytes], spec: SampleSpec) -> NDArray[Any]:
        size, layout = spec.image_size, spec.layout
        if not pictures:
            height, width, channels = self._manifest.features[camera].shape
            return self._batch(0, (*(size or (height, width)), channels), np.uint8, layout)
        alpha = self._manifest.features[camera].has_alpha
        first = decode_image(pictures[0], alpha=alpha)
        if size is None or size == first.shape[:2]:
            images = self._batch(len(pictures), first.shape, first.dtype, layout)
            images[0] = first if layout == "hwc" else first.transpose(2, 0, 1)
            decode_images(pictures[1:], images[1:], layout=layout, alpha=alpha, pool=self._pool)
            return images
        images = self._batch(len(pictures), (*size, first.shape[2]), first.dtype, layout)

        def scale(picture: bytes, out: NDArray[Any]) -> None:
            fitted = fit_picture(decode_image(picture, alpha=alpha), size, spec.fit)
            out[...] = fitted if layout == "hwc" else fitted.transpose(2, 0, 1)

        list(self._pool.map(scale, pictures, images))
        return images

    def _batch(
        self, count: int, shape: tuple[int, ...], dtype: DTypeLike, layout: Layout
    ) -> NDArray[Any]:
        height, width, channels = shape
        return self._buffers.empty((count, *image_shape(height, width, channels, layout)), dtype)

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

    def _read_video(
        self,
        camera: str,
        rows: NDArray[np.int64],
        episodes: NDArray[np.int64],
        spec: SampleSpec,
    ) -> NDArray[Any]:
        layout = spec.layout
        feature = self._manifest.features[camera]
        channels, dtype = (3, np.uint8) if feature.depth is None else (1, np.float32)
        requests = self._requests(camera, rows, episodes)
        plan = self._videos.plan(requests)
        height, width = spec.image_size or self._video_size(camera, plan.image_sizes)
        out = self._batch(len(rows), (height, width, channels), dtype, layout)
        boxes = {
            path: box_of(stored, (height, width), spec.fit)
            for path, stored in plan.image_sizes.items()
        }
        if any(box.size != box.outer for box in boxes.values()):
            out[...] = 0
        for box in set(boxes.values()):
            jobs = [job for job in plan.jobs if boxes[job.path] == box]
            inside = box.inside(out, layout)
            self._videos.read(replace(plan, jobs=jobs), inside, layout=layout, depth=feature.depth)
        return out

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


def _distinct(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int] | None]:
    """Return the distinct rows, and the place of each row among them; None if none repeats."""
    place: dict[int, int] = {}
    places = [place.setdefault(row, len(place)) for row in rows.tolist()]
    if len(place) == len(places):
        return rows, None
    return np.fromiter(place, np.int64, len(place)), places
