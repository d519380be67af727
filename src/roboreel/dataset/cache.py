"""A dataset decoded once and read at map speed: what a training cache holds, and where."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CacheError, CorruptFileError
from roboreel.forking import after_fork
from roboreel.image import decode_images, image_size
from roboreel.shards import open_shards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.image import Layout
    from roboreel.schema import Manifest
    from roboreel.shards import Store

__all__ = [
    "Cache",
    "CacheManifest",
    "Jpeg",
    "Picture",
    "Raw",
    "choose_pictures",
    "differences",
    "is_generation",
    "open_cache",
    "refuse_strangers",
    "source_of",
]

CACHE_FILE = "cache.json"
_LAYOUT_VERSION = 1
_MOST_FILES_COMPARED = 2000
_MAX_OPEN_PARTS = 64


@dataclass(frozen=True, slots=True)
class Jpeg:
    """Images as JPEG: small on disk, a third of a millisecond to decode at 224x224."""

    size: tuple[int, int] | None = None
    """Height and width; those of the source when None."""
    quality: int = 95

    def __post_init__(self) -> None:
        _check_size(self.size)
        if not 1 <= self.quality <= 100:
            raise ValueError(f"A JPEG quality lies between 1 and 100, not at {self.quality}.")


@dataclass(frozen=True, slots=True)
class Raw:
    """Images as pixels: nothing to decode, several times the disk."""

    size: tuple[int, int] | None = None
    """Height and width; those of the source when None."""

    def __post_init__(self) -> None:
        _check_size(self.size)


Picture = Jpeg | Raw


@dataclass(frozen=True, slots=True)
class CacheManifest:
    """What a cache holds, and what it was made from."""

    num_rows: int
    part_rows: int
    """Rows of one part of the images, which is the unit that an interrupted build resumes by."""
    numbers: tuple[str, ...]
    """Features of numbers, mapped."""
    cameras: Mapping[str, Picture] = field(hash=False)
    source: Mapping[str, Any] = field(hash=False)
    """The state of the dataset that it was made from."""

    @property
    def key(self) -> str:
        """Return what tells this cache from others of the same dataset, and of other states."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return the object that is stored."""
        return {
            "layout": _LAYOUT_VERSION,
            "part_rows": self.part_rows,
            "num_rows": self.num_rows,
            "numbers": list(self.numbers),
            "cameras": {
                name: {"form": type(picture).__name__, **asdict(picture)}
                for name, picture in self.cameras.items()
            },
            "source": dict(self.source),
        }

    @classmethod
    def read(cls, root: Path) -> CacheManifest:
        """Return the manifest of a cache that is whole.

        Raises:
            CacheError: There is none, or it cannot be understood.
        """
        path = root / CACHE_FILE
        try:
            raw = json.loads(path.read_text())
            if raw["layout"] != _LAYOUT_VERSION:
                raise ValueError(f"layout {raw['layout']} is of another roboreel: build it anew")
            return cls(
                num_rows=int(raw["num_rows"]),
                part_rows=int(raw["part_rows"]),
                numbers=tuple(raw["numbers"]),
                cameras={name: _picture(entry) for name, entry in raw["cameras"].items()},
                source=raw["source"],
            )
        except FileNotFoundError as error:
            raise CacheError(
                f"No cache at {str(root)!r}. Make one with `roboreel cache build`."
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CacheError(f"Not a cache ({error!r}): {str(path)!r}.") from error


def open_cache(root: Path, manifest: Manifest) -> Cache:
    """Open the cache of a dataset.

    Raises:
        CacheError: There is none, or it was made from another state of the dataset.
    """
    cache = CacheManifest.read(root)
    differing = differences(cache, manifest)
    if differing:
        raise CacheError(
            f"The cache was made from another state of the dataset: {differing[0]} Build it anew "
            f"with `roboreel cache build`, or open without it: {str(root)!r}."
        )
    with suppress(OSError):
        # `roboreel cache prune` removes what was used longest ago.
        os.utime(root / CACHE_FILE)
    return Cache(root, cache)


def differences(cache: CacheManifest, manifest: Manifest, *, every_file: bool = False) -> list[str]:
    """Return what has changed in a dataset since a cache was made from it, one sentence each.

    Metadata is always compared. Data and video files are compared by size and time unless there
    are thousands of them; ``every_file`` compares them even then.
    """
    few = int(cache.source.get("num_files", 0)) <= _MOST_FILES_COMPARED
    now = source_of(manifest, files=few or every_file)
    found = []
    if now["metadata"] != cache.source.get("metadata"):
        found.append("its metadata has changed.")
    if "files" in now and now["files"] != cache.source.get("files"):
        found.append("some of its data or video files have another size or time.")
    if manifest.episodes.num_rows != cache.num_rows:
        found.append(f"it has {manifest.episodes.num_rows} rows, the cache {cache.num_rows}.")
    return found


def source_of(manifest: Manifest, *, files: bool = True) -> dict[str, Any]:
    """Return what identifies the state of a dataset, as plain values.

    Args:
        manifest: The dataset.
        files: Whether to look at every data and video file.
    """
    meta = sorted(path for path in (manifest.root / "meta").rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in meta:
        digest.update(f"{path.relative_to(manifest.root).as_posix()}\n".encode())
        if path.name in ("info.json", "tasks.parquet", "tasks.jsonl", "episodes.jsonl"):
            digest.update(path.read_bytes())
        elif "stats" not in path.name:
            # Most of an episode table is statistics: its size and time must do.
            state = path.stat()
            digest.update(f"{state.st_size} {state.st_mtime_ns}\n".encode())
    sets = [manifest.data_files, *manifest.video_files.values()]
    source: dict[str, Any] = {
        "metadata": digest.hexdigest(),
        "num_files": sum(len(group) for group in sets),
    }
    if files:
        source["files"] = _digest_of_files(manifest.root, sets)
    return source


def choose_pictures(
    manifest: Manifest, cameras: Mapping[str, Picture] | None
) -> dict[str, Picture]:
    """Return how each chosen camera is to be stored.

    Args:
        manifest: The dataset.
        cameras: Pictures by the name of a camera, or by a pattern such as
            ``"observation.images.*"``; the first that fits counts.

    Raises:
        CacheError: A pattern that fits no camera, or depth as JPEG.
    """
    chosen: dict[str, Picture] = {}
    for pattern, picture in (cameras or {}).items():
        fitting = [name for name in manifest.cameras if fnmatchcase(name, pattern)]
        if not fitting:
            raise CacheError(
                f"No camera fits {pattern!r}: there are {', '.join(manifest.cameras) or 'none'}, "
                f"in {str(manifest.root)!r}."
            )
        for name in fitting:
            if manifest.features[name].depth is not None and isinstance(picture, Jpeg):
                raise CacheError(f"Depth does not survive JPEG: give {name!r} as Raw.")
            chosen.setdefault(name, picture)
    return chosen


def is_generation(path: Path) -> bool:
    """Whether a path is a folder that a build of a cache made."""
    return path.is_dir() and re.fullmatch(r"[0-9a-f]{16}", path.name) is not None


def refuse_strangers(root: Path) -> None:
    """Raise if a folder holds anything that no build of a cache made."""
    for path in root.iterdir() if root.exists() else ():
        ours = path.name in (CACHE_FILE, ".lock") or path.name.endswith(f".tmp-{CACHE_FILE}")
        if not ours and not is_generation(path):
            raise CacheError(
                f"There are other files, such as {path.name!r}: a cache has a folder of its own, "
                f"not {str(root)!r}."
            )


class Cache:
    """The mapped shards of a dataset; pickles and forks reopen them."""

    def __init__(self, root: Path, manifest: CacheManifest) -> None:
        self.root = root
        self.manifest = manifest
        self._folder = root / manifest.key
        # Opened at once: no build of another cache here removes what somebody holds.
        self._numbers = open_shards(self._folder / "numbers")
        self._parts: OrderedDict[int, Store] = OrderedDict()
        self._lock = threading.Lock()
        after_fork(self, Cache._after_fork)

    def numbers(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of a feature of numbers at some rows, ``(N, …)``."""
        return np.asarray(self._numbers.take(rows, features=[name])[name])

    def images(
        self, camera: str, rows: NDArray[np.int64], *, layout: Layout, pool: Executor
    ) -> NDArray[Any]:
        """Return the images of some rows, as `Images.read` gives them, in the cache's size."""
        if not len(rows):
            return np.empty((0, 3, 0, 0) if layout == "chw" else (0, 0, 0, 3), np.uint8)
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
        self, camera: str, rows: NDArray[np.int64], layout: Layout, pool: Executor
    ) -> NDArray[Any]:
        pictures: list[bytes] = [b""] * len(rows)
        for slots, stored in self._take(camera, rows):
            for slot, picture in zip(slots.tolist(), stored[camera], strict=True):
                pictures[slot] = picture
        height, width, _ = image_size(pictures[0])
        shape = (3, height, width) if layout == "chw" else (height, width, 3)
        out = np.empty((len(rows), *shape), np.uint8)
        try:
            decode_images(pictures, out, layout=layout, pool=pool)
        except CorruptFileError as error:
            raise CorruptFileError(
                f"{error} Camera {camera!r} of the cache {str(self.root)!r}; build it anew."
            ) from error
        return out

    def _take(
        self, camera: str, rows: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], Mapping[str, Any]]]:
        """Yield what each part holds of some rows, and where in the result it goes."""
        size = self.manifest.part_rows
        parts = rows // size
        for part in np.unique(parts).tolist():
            slots = np.flatnonzero(parts == part)
            yield slots, self._part(part).take(rows[slots] - part * size, features=[camera])

    def _part(self, part: int) -> Store:
        with self._lock:
            if part in self._parts:
                self._parts.move_to_end(part)
                return self._parts[part]
        opened = open_shards(self._folder / f"images-{part:06d}", max_open=4)
        with self._lock:
            self._parts[part] = opened
            while len(self._parts) > _MAX_OPEN_PARTS:
                # Another thread may be reading: the last reference closes its files.
                self._parts.popitem(last=False)
        return opened

    def _after_fork(self) -> None:
        self._lock = threading.Lock()


def _check_size(size: tuple[int, int] | None) -> None:
    if size is not None and min(size) < 1:
        raise ValueError(f"{size!r} is not a height and a width.")


def _picture(entry: Mapping[str, Any]) -> Picture:
    size = None if entry["size"] is None else (int(entry["size"][0]), int(entry["size"][1]))
    return Jpeg(size, int(entry["quality"])) if entry["form"] == "Jpeg" else Raw(size)


def _digest_of_files(root: Path, sets: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for group in sets:
        for file in range(len(group)):
            try:
                state = (root / group[file]).stat()
                digest.update(f"{group[file]} {state.st_size} {state.st_mtime_ns}\n".encode())
            except FileNotFoundError:  # noqa: PERF203  # a missing file is part of the state
                digest.update(f"{group[file]} missing\n".encode())
    return digest.hexdigest()
