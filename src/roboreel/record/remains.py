"""What a crash left of an open episode: read, verified, and made an episode of."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, DatasetError, FrameError
from roboreel.format.episode_metadata import check_metadata, column_types
from roboreel.format.ledger import Ledger
from roboreel.image import decode_image
from roboreel.io.budget import process_budget
from roboreel.io.reading import read_file
from roboreel.record.checks import given_features
from roboreel.record.episode import METADATA, ROWS, FinishedEpisode, image_path, open_folder
from roboreel.record.journal import RowFormat, Rows, read_records
from roboreel.stats import ImageSampler, sample_stride
from roboreel.video.clip import Clip
from roboreel.video.reader import ClipRequest, VideoReader
from roboreel.video.salvage import first_images, whole_fragments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.format.episode_metadata import Value
    from roboreel.schema import Feature, Manifest
    from roboreel.stats.gather import Gathered

RECOVERED = "recovered"
"""Column of the episode table: True for an episode that was recovered."""


@dataclass(frozen=True, slots=True, eq=False)
class Remains:
    """What there is of an open episode."""

    folder: Path
    """Its journal."""
    rows: Rows
    """Its frames without images."""
    pictures: Mapping[str, list[bytes]]
    """Encoded images by camera, as many as can be decoded."""
    videos: Mapping[str, tuple[Path, int]]
    """By camera, a video file, and how many of its images can be decoded."""
    left_bytes: int
    """Bytes of the journal that are no records."""

    @property
    def counts(self) -> list[int]:
        """How many frames there are, and how many images of each camera."""
        pictures = [len(several) for several in self.pictures.values()]
        return [len(self.rows), *pictures, *(count for _, count in self.videos.values())]

    @property
    def kept(self) -> int:
        """How many frames have an image of every camera."""
        return min(self.counts)

    @property
    def is_whole(self) -> bool:
        """Whether everything that is there can be used."""
        return not self.left_bytes and len(set(self.counts)) == 1

    def finish(self, manifest: Manifest) -> FinishedEpisode:
        """Return the complete frames as an episode that can be saved; at least one is needed.

        Raises:
            DatasetError: An image cannot be used after all.
        """
        videos = {}
        for name, (path, _) in self.videos.items():
            videos[name] = path.with_suffix(".whole.mp4")
            first_images(path, self.kept, videos[name])
        pictures = {name: several[: self.kept] for name, several in self.pictures.items()}
        every = sample_stride(manifest.fps)
        images: dict[str, Gathered] = {}
        for name in manifest.cameras:
            seen = (
                _images(manifest, name, videos[name], self.kept, every)
                if name in videos
                else (decode_image(data) for data in pictures[name][::every])
            )
            sampler = ImageSampler(manifest.features[name], 1)
            for image in seen:
                sampler.take(image)
            images[name] = sampler.gathered
        metadata = _read_metadata(self.folder / METADATA, manifest)
        return FinishedEpisode(self.rows.first(self.kept), pictures, videos, images, metadata)


def read_remains(manifest: Manifest, scratch: Path) -> Remains:
    """Read the journal of a dataset's open episode, and decode every image of it.

    Args:
        manifest: The dataset.
        scratch: A folder for copies of videos.
    """
    folder = open_folder(manifest.root)
    rows, left_bytes = _read_rows(folder / ROWS, manifest)
    pictures, videos = {}, {}
    for name in manifest.cameras:
        path = image_path(folder, manifest.features, name)
        if manifest.features[name].is_video:
            copy = scratch / path.name
            count = whole_fragments(path, copy) if path.exists() else 0
            videos[name] = (copy, _count_good(_images(manifest, name, copy, count)))
        else:
            records, rest = read_records(path) if path.exists() else ([], 0)
            good = _count_good(_decoded(records, manifest.features[name]))
            pictures[name] = records[:good]
            left_bytes += rest + sum(map(len, records[good:]))
    return Remains(folder, rows, pictures, videos, left_bytes)


def _count_good(images: Iterable[NDArray[Any]]) -> int:
    """Return how many images can be decoded before the first that cannot."""
    count = 0
    try:
        for _ in images:
            count += 1
    except DatasetError:
        pass  # What follows cannot be used: frames have no gaps.
    return count


def _decoded(pictures: Iterable[bytes], feature: Feature) -> Iterator[NDArray[Any]]:
    for data in pictures:
        image = decode_image(data)
        if image.shape != feature.shape:
            raise CorruptFileError(f"An image is {image.shape}: {feature.shape} is declared.")
        yield image


def _images(
    manifest: Manifest, camera: str, path: Path, length: int, every: int = 1
) -> Iterator[NDArray[Any]]:
    """Yield every nth image among the first ``length`` of a video file."""
    if not length:
        return
    frames = np.arange(0, length, every)
    request = ClipRequest(
        path=path,
        clip=Clip(0.0, length / manifest.fps, length, manifest.fps),
        frames=frames,
        slots=np.arange(len(frames)),
        episode=int(Ledger.of(manifest).num_episodes),
        camera=camera,
    )
    reader = VideoReader(budget=process_budget(), threads=1)
    yield from reader.stream(request, layout="hwc", depth=manifest.features[camera].depth)


def _read_rows(path: Path, manifest: Manifest) -> tuple[Rows, int]:
    """Return the frames of a journal that are not saved yet, and the bytes left over."""
    rows = RowFormat(given_features(manifest.features))
    if not path.exists():
        return rows.unpack([]), 0
    records, left = read_records(path)
    try:
        header = json.loads(records[0]) if records else {}
        number = header.pop("episode", None)
        if number is not None and number < Ledger.of(manifest).num_episodes:
            return rows.unpack([]), 0  # saved right before the crash
        if header != rows.describe():
            return rows.unpack([]), path.stat().st_size
        return rows.unpack(records[1:]), left
    except (ValueError, TypeError, AttributeError, RecursionError, CorruptFileError):
        return rows.unpack([]), path.stat().st_size


def _read_metadata(path: Path, manifest: Manifest) -> dict[str, Value]:
    """Return what was said of the episode, if saving it had begun, and that it was recovered."""
    there = column_types(Ledger.of(manifest))
    try:
        said = json.loads(read_file(path))
    except (DatasetError, ValueError, RecursionError):
        said = {}
    given: dict[str, Value] = {}
    for name, value in [*(said.items() if isinstance(said, dict) else ()), (RECOVERED, True)]:
        # Earlier versions took NaN; a column of the caller's own may have the name of ours.
        with suppress(FrameError):
            given |= check_metadata(there, {name: value})
    return given
