"""What a training cache holds, and the state of the dataset it was built from: ``cache.json``."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roboreel.dataset.cache.folder import CACHE_FILE, NUMBERS, part_name
from roboreel.dataset.cache.pictures import picture_from_json, picture_to_json
from roboreel.errors import CacheError, MissingFileError
from roboreel.files import walk
from roboreel.format.paths import METADATA_FOLDER, SMALL_NAMES
from roboreel.io.reading import read_file
from roboreel.io.states import state_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from roboreel.dataset.cache.pictures import Picture
    from roboreel.schema import FileSet, Manifest

_LAYOUT_VERSION = 1
_MOST_FILES_COMPARED = 2000


@dataclass(frozen=True, slots=True)
class CacheManifest:
    """What a cache holds, and the state of the dataset it was built from."""

    num_rows: int
    part_rows: int
    """Rows per part. Images are built part by part; an interrupted build resumes at a part."""
    numbers: tuple[str, ...]
    """Features of numbers."""
    cameras: Mapping[str, Picture] = field(hash=False)
    state: Mapping[str, Any] = field(hash=False)
    """See `dataset_state`."""

    @property
    def key(self) -> str:
        """Name of the folder with the shards; another content or dataset state has another."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def num_parts(self) -> int:
        """How many stores of images there are; none without cameras."""
        return -(-self.num_rows // self.part_rows) if self.cameras else 0

    @property
    def stores(self) -> list[str]:
        """Names of the shard stores in that folder."""
        return [NUMBERS, *map(part_name, range(self.num_parts))]

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain values."""
        return {
            "layout": _LAYOUT_VERSION,
            "part_rows": self.part_rows,
            "num_rows": self.num_rows,
            "numbers": list(self.numbers),
            "cameras": {name: picture_to_json(picture) for name, picture in self.cameras.items()},
            "source": dict(self.state),
        }

    @classmethod
    def read(cls, root: Path) -> CacheManifest:
        """Return the manifest of a complete cache.

        Raises:
            CacheError: There is no cache, or its manifest cannot be read.
        """
        path = root / CACHE_FILE
        try:
            raw = json.loads(read_file(path, "cache manifest"))
            if raw["layout"] != _LAYOUT_VERSION:
                raise ValueError(f"another roboreel wrote layout {raw['layout']}: rebuild it")
            manifest = cls(
                num_rows=int(raw["num_rows"]),
                part_rows=int(raw["part_rows"]),
                numbers=tuple(raw["numbers"]),
                cameras={name: picture_from_json(p) for name, p in raw["cameras"].items()},
                state=dict(raw["source"]),
            )
            if manifest.num_rows < 0 or manifest.part_rows < 1:
                raise ValueError(f"{manifest.num_rows} rows in parts of {manifest.part_rows}")
        except MissingFileError as error:
            raise CacheError(
                f"No cache at {str(root)!r}. Make one with `roboreel cache build`."
            ) from error
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise CacheError(f"Not a cache ({error!r}): {str(path)!r}.") from error
        return manifest


def dataset_state(manifest: Manifest, *, files: bool = True) -> dict[str, Any]:
    """Return what identifies the present state of a dataset, as plain values.

    Args:
        manifest: The dataset.
        files: Whether to stat every data and video file.
    """
    digest = hashlib.sha256()
    for path in (p for p in walk(manifest.root / METADATA_FOLDER) if p.is_file()):
        digest.update(f"{path.relative_to(manifest.root).as_posix()}\n".encode())
        if path.name in SMALL_NAMES:
            digest.update(read_file(path))
        elif "stats" not in path.name:
            # An episode table is mostly statistics: too large to hash, so size and time must do.
            size_bytes, modified_ns = state_of(path)
            digest.update(f"{size_bytes} {modified_ns}\n".encode())
    sets = [manifest.data_files, *manifest.video_files.values()]
    state: dict[str, Any] = {
        "metadata": digest.hexdigest(),
        "num_files": sum(len(group) for group in sets),
    }
    if files:
        state["files"] = _digest_of_files(manifest.root, sets)
    return state


def differences(cache: CacheManifest, manifest: Manifest, *, every_file: bool = False) -> list[str]:
    """Return what has changed in a dataset since its cache was built, one sentence each.

    Metadata is always compared. Data and video files are compared by size and time, unless there
    are more than 2,000 of them; ``every_file`` compares them even then.
    """
    count = cache.state.get("num_files", 0)
    few = not isinstance(count, int) or count <= _MOST_FILES_COMPARED
    now = dataset_state(manifest, files=few or every_file)
    found = []
    if now["metadata"] != cache.state.get("metadata"):
        found.append("its metadata has changed.")
    if "files" in now and now["files"] != cache.state.get("files"):
        found.append("some of its data or video files have another size or time.")
    if manifest.episodes.num_rows != cache.num_rows:
        found.append(f"it has {manifest.episodes.num_rows} rows, the cache {cache.num_rows}.")
    return found


def _digest_of_files(root: Path, sets: Sequence[FileSet]) -> str:
    digest = hashlib.sha256()
    for group in sets:
        for file in range(len(group)):
            try:
                size_bytes, modified_ns = state_of(root / group[file])
                digest.update(f"{group[file]} {size_bytes} {modified_ns}\n".encode())
            except FileNotFoundError:  # noqa: PERF203  # a missing file is part of the state
                digest.update(f"{group[file]} missing\n".encode())
    return digest.hexdigest()
