"""Rows of a training cache, from its mapped shards."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.cache.folder import CACHE_FILE, NUMBERS, part_name
from roboreel.dataset.cache.manifest import CacheManifest, differences
from roboreel.dataset.cache.pictures import Raw
from roboreel.distinct import distinct
from roboreel.errors import CacheError, CorruptFileError
from roboreel.image import decode_images, image_shape, image_size
from roboreel.io.kept_open import KeptOpen
from roboreel.shards import open_shards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.image import Layout
    from roboreel.schema import Manifest
    from roboreel.shards import Store
    from roboreel.threads import ThreadPool

_MAX_OPEN_PARTS = 64


def open_cache(root: Path, manifest: Manifest) -> Cache:
    """Open the cache of a dataset.

    Raises:
        CacheError: There is no cache, or it was built from another state of the dataset.
    """
    cache = CacheManifest.read(root)
    differing = differences(cache, manifest)
    if differing:
        raise CacheError(
            f"The dataset has changed since its cache was built: {differing[0]} Rebuild the cache "
            f"with `roboreel cache build`, or open the dataset without it: {str(root)!r}."
        )
    with suppress(OSError):
        # `roboreel cache prune` removes the least recently used caches first.
        os.utime(root / CACHE_FILE)
    return Cache(root, cache)


class Cache:
    """An open cache; thread-safe, and usable after a fork."""

    def __init__(self, root: Path, manifest: CacheManifest) -> None:
        self.root = root
        self.manifest = manifest
        self._folder = root / manifest.key
        # Opened at once: as long as the numbers are open, no rebuild removes this cache.
        self._numbers = open_shards(self._folder / NUMBERS)
        self._parts: KeptOpen[int, Store] = KeptOpen(limit=_MAX_OPEN_PARTS, survives_fork=True)

    def numbers(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return a feature of numbers at some rows, ``(N, …)``."""
        return np.asarray(self._numbers.take(rows, features=[name])[name])

    def images(
        self, camera: str, rows: NDArray[np.int64], *, layout: Layout, pool: ThreadPool
    ) -> NDArray[Any]:
        """Return the images of some rows, as `Images.read` does, in the cache's size."""
        if not len(rows):
            if not self.manifest.num_rows:
                return np.empty((0, *image_shape(0, 0, 3, layout)), np.uint8)
            # The shape of no images is that of any image here.
            return self.images(camera, np.zeros(1, np.int64), layout=layout, pool=pool)[:0]
        if isinstance(self.manifest.cameras[camera], Raw):
            pixels = self._pixels(camera, rows)
            return pixels if layout == "chw" else pixels.transpose(0, 2, 3, 1)
        return self._decode(camera, rows, layout, pool)

    def _pixels(self, camera: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        parts = [(slots, stored[camera]) for slots, stored in self._take(camera, rows)]
        out = np.empty((len(rows), *parts[0][1].shape[1:]), parts[0][1].dtype)
        for slots, pixels in parts:
            out[slots] = pixels
        return out

    def _decode(
        self, camera: str, rows: NDArray[np.int64], layout: Layout, pool: ThreadPool
    ) -> NDArray[Any]:
        pictures: list[bytes] = [b""] * len(rows)
        for slots, stored in self._take(camera, rows):
            for slot, picture in zip(slots.tolist(), stored[camera], strict=True):
                pictures[slot] = picture
        height, width, _ = image_size(pictures[0])
        out = np.empty((len(rows), *image_shape(height, width, 3, layout)), np.uint8)
        try:
            decode_images(pictures, out, layout=layout, pool=pool)
        except CorruptFileError as error:
            raise CorruptFileError(
                f"{error} Camera {camera!r} of a cache. Rebuild the cache: {str(self.root)!r}."
            ) from error
        return out

    def _take(
        self, camera: str, rows: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], Mapping[str, Any]]]:
        """Yield the rows that each part holds, after the slots of the result they belong to."""
        size = self.manifest.part_rows
        parts = rows // size
        for part in distinct(parts).tolist():
            slots = np.flatnonzero(parts == part)
            yield slots, self._part(part).take(rows[slots] - part * size, features=[camera])

    def _part(self, part: int) -> Store:
        path = self._folder / part_name(part)
        return self._parts.get(part, lambda: open_shards(path, max_open=4))
