"""Decode a dataset into a training cache."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from roboreel.cores import usable_cores
from roboreel.dataset.cache.folder import (
    CACHE_FILE,
    LOCK_FILE,
    NUMBERS,
    is_generation,
    part_name,
    refuse_strangers,
)
from roboreel.dataset.cache.home import cache_path
from roboreel.dataset.cache.manifest import CacheManifest, dataset_state
from roboreel.dataset.cache.pictures import Jpeg, choose_pictures
from roboreel.errors import CacheError
from roboreel.files import make_folder, remove_tree, write_atomically
from roboreel.image import encode_jpeg
from roboreel.io.budget import process_budget
from roboreel.io.heap import return_freed_memory
from roboreel.sample_spec import SampleSpec
from roboreel.shards import Array, Image, Value, write_shards
from roboreel.shards.publish import withdraw
from roboreel.shards.write import write_arrays
from roboreel.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.dataset.cache.pictures import Picture
    from roboreel.dataset.dataset import Dataset
    from roboreel.image import Layout

_PART_ROWS = 4096
_ROWS_AT_ONCE = 32
_ROWS_TRIED = 48
_BLOCK_ROWS, _BLOCK_BYTES = 1 << 16, 32 * 1024**2
# A block is there several times: as episodes, joined, and as Arrow writes it.
_BLOCK_SHARE = 16


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a cache, extrapolated from a few frames."""

    frames: int
    cameras: int
    size_bytes: int
    duration_s: float


def estimate(dataset: Dataset, cameras: Mapping[str, Picture] | None = None) -> Estimate:
    """Return what a cache will cost; decodes and encodes a few frames, writes nothing."""
    manifest = plan_cache(dataset, cameras)
    count = manifest.num_rows
    row_bytes = _row_bytes(dataset, manifest)
    share, tried_bytes, started_s = 1.0, 0, time.perf_counter()
    if count and manifest.cameras:
        # Short runs of neighbours, since the build decodes neighbours too.
        tried = np.linspace(0, count - 1, _ROWS_TRIED).astype(np.int64)
        rows = np.unique(np.minimum((tried[:, None] + np.arange(4)).reshape(-1), count - 1))
        with ThreadPool(usable_cores()) as pool:
            for example in _images(dataset, manifest, rows, pool):
                tried_bytes += sum(
                    len(image) if isinstance(image, bytes) else image.nbytes
                    for image in example.values()
                )
        share = count / len(rows)
    return Estimate(
        frames=count,
        cameras=len(manifest.cameras),
        size_bytes=int(tried_bytes * share) + row_bytes * count,
        duration_s=(time.perf_counter() - started_s) * share,
    )


def materialize(
    dataset: Dataset,
    root: Path,
    cameras: Mapping[str, Picture] | None = None,
    *,
    on_rows: Callable[[int, int], object] = lambda done, total: None,
) -> None:
    """Build the cache of a dataset unless it is there; see `Dataset.materialize`.

    An interrupted build resumes where it stopped. An older cache in the same folder stays valid
    until the new one is complete.
    """
    manifest = plan_cache(dataset, cameras)
    refuse_strangers(root)
    make_folder(root)
    if is_complete(root, manifest):
        return
    with FileLock(str(root / LOCK_FILE)):
        # Checked again: another process may have built it while this one waited for the lock.
        if not is_complete(root, manifest):
            _build(dataset, root, manifest, on_rows)


def map_numbers(dataset: Dataset) -> Path:
    """Write the numbers of a dataset to its default cache unless they are there; return its folder.

    Raises:
        CacheError: The disk has too little space for them, or the folder cannot be written.
    """
    manifest = plan_cache(dataset, {})
    root = cache_path(dataset.path, {})
    if not is_complete(root, manifest):
        needed = manifest.num_rows * _row_bytes(dataset, manifest)
        _make_writable(root)
        free = shutil.disk_usage(root).free
        if needed > free:
            raise CacheError(
                f"The numbers of {str(dataset.path)!r} take {needed / 1e6:,.0f} MB as a mapped "
                f"copy, and {free / 1e6:,.0f} MB are free. Set ROBOREEL_CACHE to a folder on "
                f"another disk, or open the dataset without numbers='mapped': {str(root)!r}."
            )
        materialize(dataset, root, {})
        return_freed_memory()
    return root


def _make_writable(root: Path) -> None:
    """Make the folder of mapped numbers, or say what to do if that is not allowed."""
    try:
        make_folder(root)
        reason = None if os.access(root, os.W_OK) else "it is read-only"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    if reason is not None:
        raise CacheError(
            f"The folder of the mapped copy cannot be written ({reason}). Set ROBOREEL_CACHE to "
            f"another folder, or open the dataset without numbers='mapped': {str(root)!r}."
        )


def plan_cache(dataset: Dataset, cameras: Mapping[str, Picture] | None) -> CacheManifest:
    """Return what the cache of a dataset will hold.

    Raises:
        CacheError: A pattern matches no camera, or JPEG would destroy depth or alpha.
    """
    manifest = dataset.manifest
    return CacheManifest(
        num_rows=manifest.episodes.num_rows,
        part_rows=_PART_ROWS,
        numbers=tuple(name for name, f in manifest.features.items() if f.kind == "number"),
        cameras=choose_pictures(manifest, cameras),
        state=dataset_state(manifest),
    )


def is_complete(root: Path, manifest: CacheManifest) -> bool:
    """Return whether the cache in a folder is the one that is wanted."""
    try:
        return CacheManifest.read(root).key == manifest.key
    except CacheError:
        return False


def _build(
    dataset: Dataset,
    root: Path,
    manifest: CacheManifest,
    on_rows: Callable[[int, int], object],
) -> None:
    folder = root / manifest.key
    make_folder(folder)
    write_numbers(dataset, folder, manifest)
    with ThreadPool(usable_cores()) as pool:
        for part in range(manifest.num_parts):
            write_part(dataset, folder, manifest, part, pool, on_rows)
    publish(root, manifest)


def write_part(
    dataset: Dataset,
    folder: Path,
    manifest: CacheManifest,
    part: int,
    pool: ThreadPool,
    on_rows: Callable[[int, int], object] = lambda done, total: None,
) -> None:
    """Write the images of one part, unless they are there."""
    first, total = part * manifest.part_rows, manifest.num_rows
    rows = np.arange(first, min(first + manifest.part_rows, total))
    write_shards(
        _images(dataset, manifest, rows, pool, lambda done: on_rows(first + done, total)),
        _image_features(dataset, manifest),
        folder / part_name(part),
        batch_size=256,
        source={"cache": manifest.key, "first": first, "rows": len(rows)},
    )
    on_rows(first + len(rows), total)


def publish(root: Path, manifest: CacheManifest) -> None:
    """Make the stores of a manifest the cache in a folder, and remove those of older ones."""
    write_atomically(root / CACHE_FILE, json.dumps(manifest.to_json(), indent=1))
    for old in root.iterdir():
        # An open cache holds its numbers. If this one is open, a later build removes it.
        if is_generation(old) and old.name != manifest.key and withdraw(old / NUMBERS):
            remove_tree(old, ignore_errors=True)


def write_numbers(dataset: Dataset, folder: Path, manifest: CacheManifest) -> None:
    """Write all numbers, unless they are there."""
    features: dict[str, object] = {
        name: Array(f.value_shape, f.dtype) if f.value_shape else Value(f.dtype)
        for name, f in dataset.features.items()
        if name in manifest.numbers
    }
    write_arrays(
        lambda: _numbers(dataset, manifest),
        features,
        folder / NUMBERS,
        shard_size="1GB",
        source={"cache": manifest.key},
    )


def _numbers(dataset: Dataset, manifest: CacheManifest) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the numbers of all rows, episode after episode, in blocks of a record batch each."""
    # Large batches, since a gather visits every batch it needs; yet few rows in memory.
    block_bytes = min(_BLOCK_BYTES, process_budget().limit_bytes // _BLOCK_SHARE)
    block_rows = min(_BLOCK_ROWS, max(1, block_bytes // max(1, _row_bytes(dataset, manifest))))
    frames, episodes = dataset._reader.frames, dataset.manifest.episodes
    parts: list[dict[str, NDArray[Any]]] = []
    count, file = 0, -1
    for position in np.argsort(episodes.start, kind="stable").tolist():
        if episodes.data_file[position] != file:
            frames.files.let_go(file)
            file = int(episodes.data_file[position])
        start = int(episodes.start[position])
        stop = start + int(episodes.length[position])
        for first in range(start, stop, block_rows):
            last = min(first + block_rows, stop)
            parts.append(frames.columns.read_span(manifest.numbers, first, last))
            count += last - first
            if count >= block_rows:
                joined = _joined(parts)
                parts, count = [], 0
                yield joined
                frames.files.tidy()
    if parts:
        yield _joined(parts)


def _joined(parts: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _row_bytes(dataset: Dataset, manifest: CacheManifest) -> int:
    return sum(
        math.prod(feature.value_shape) * feature.numpy_dtype.itemsize
        for name, feature in dataset.features.items()
        if name in manifest.numbers
    )


def _image_features(dataset: Dataset, manifest: CacheManifest) -> dict[str, object]:
    features: dict[str, object] = {}
    for name, picture in manifest.cameras.items():
        if isinstance(picture, Jpeg):
            features[name] = Image()
            continue
        # Taken from an image that was read: depth may be metres, or 16 bits.
        spec = SampleSpec(name, image_size=picture.size)
        first = dataset._reader.read(np.zeros(1, np.int64), spec)[name]
        features[name] = Array(first.shape[1:], first.dtype.name)
    return features


def _images(
    dataset: Dataset,
    manifest: CacheManifest,
    rows: NDArray[np.int64],
    pool: ThreadPool,
    on_done: Callable[[int], object] = lambda done: None,
) -> Iterator[dict[str, Any]]:
    """Yield the images of each row as they are stored; they are encoded in threads."""
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        columns = {
            name: _encoded(dataset, name, picture, some, pool)
            for name, picture in manifest.cameras.items()
        }
        for i in range(len(some)):
            yield {name: column[i] for name, column in columns.items()}
        on_done(first + len(some))


def _encoded(
    dataset: Dataset,
    name: str,
    picture: Picture,
    rows: NDArray[np.int64],
    pool: ThreadPool,
) -> Any:  # noqa: ANN401  # pictures or pixels, one per row
    layout: Layout = "hwc" if isinstance(picture, Jpeg) else "chw"
    images = dataset._reader.read(rows, SampleSpec(name, None, picture.size, layout))[name]
    if not isinstance(picture, Jpeg):
        return images
    quality = picture.quality
    return list(pool.map(lambda image: encode_jpeg(image, quality=quality), images))
