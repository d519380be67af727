"""What a replay buffer is made of: its features, its capacity, its files."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from roboreel.errors import BufferMismatchError, FrameError, MetadataError
from roboreel.files import write_atomically
from roboreel.format.counters import TASK_NUMBER
from roboreel.io.reading import read_file
from roboreel.numbers import is_rate
from roboreel.schema import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER = "columns"
"""Where the files of the features lie, below the buffer's folder."""

_FORMAT = "roboreel replay buffer"
_VERSION = 1
_PAGE_BYTES = 4096
_MAX_CAPACITY = 2**40
# For the estimate of disk space: at quality 95 a JPEG takes a sixth of the pixels' bytes, or less.
_JPEG_SHARE = 6


@dataclass(frozen=True, slots=True)
class RingSpec:
    """What a replay buffer is made of.

    Raises:
        FrameError: A value is out of range, or a feature cannot be stored.
    """

    capacity: int
    """Slots for frames."""
    features: Mapping[str, Feature]
    fps: float | None = None
    tasks: Mapping[int, str] = field(default_factory=dict)
    """Texts by the numbers that frames have as ``task_index``."""

    __hash__ = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if isinstance(self.capacity, bool) or not isinstance(self.capacity, int):
            raise FrameError(f"capacity is {self.capacity!r}: give a number of frames.")
        if not 1 <= self.capacity <= _MAX_CAPACITY:
            raise FrameError(f"capacity is {self.capacity}: give at least one frame.")
        if not self.features:
            raise FrameError("A replay buffer needs at least one feature.")
        if self.fps is not None and not is_rate(self.fps):
            raise FrameError(
                f"fps is {self.fps}: give frames per second, from 1e-6 to 1e6, or leave it out."
            )
        reserved = {"row", *(f"{name}_is_pad" for name in self.features)}
        for name, feature in self.features.items():
            if name in reserved:
                raise FrameError(f"A feature cannot be called {name!r}: samples use that key.")
            _check_feature(name, feature)
        _check_tasks(self.tasks, self.features)

    @property
    def files(self) -> dict[str, str]:
        """The file of each feature, below the buffer's folder."""
        return {
            # The number keeps apart names that differ only in case.
            name: f"{FOLDER}/{number:03d}-{quote(name, safe='')[:80]}.bin"
            for number, name in enumerate(self.features)
        }

    def slot_bytes(self, name: str) -> int:
        """Return the size of one slot of a feature.

        A JPEG slot has room for the worst image. It is made of whole pages, since pages that are
        never written take no space on the disk.
        """
        feature = self.features[name]
        size = int(np.prod(feature.value_shape, dtype=np.int64)) * feature.numpy_dtype.itemsize
        return -(-size // _PAGE_BYTES) * _PAGE_BYTES + _PAGE_BYTES if feature.is_camera else size


def _check_feature(name: str, feature: Feature) -> None:
    if feature.is_video:
        raise FrameError(
            f"{name!r} is a video, but frames of a replay buffer are overwritten one by one: "
            "declare it as 'image' (stored as JPEG) or as 'uint8' (stored as it is)."
        )
    if feature.is_text:
        raise FrameError(f"{name!r} is {feature.dtype}: store a number that stands for the text.")
    if feature.dtype == "image" and (len(feature.shape) != 3 or feature.shape[2] not in (1, 3)):
        raise FrameError(f"{name!r} has shape {feature.shape}: images are (height, width, 1 or 3).")
    if feature.dtype == "image" and feature.depth is not None:
        raise FrameError(
            f"{name!r} is depth, which JPEG would blur: declare 'uint16' or 'float32'."
        )
    try:
        dtype = feature.numpy_dtype
    except TypeError:
        raise FrameError(
            f"{name!r} has the dtype {feature.dtype!r}, which NumPy does not know."
        ) from None
    if dtype.kind not in "biufc" or any(size < 1 for size in feature.shape):
        raise FrameError(f"{name!r} cannot be stored: {feature.dtype} of shape {feature.shape}.")


def _check_tasks(tasks: Mapping[Any, Any], features: Mapping[str, Feature]) -> None:
    if tasks and (TASK_NUMBER not in features or features[TASK_NUMBER].shape != (1,)):
        raise FrameError(f"There are tasks: declare Feature('int64', (1,)) as {TASK_NUMBER!r} too.")
    for number, text in tasks.items():
        if isinstance(number, bool) or not isinstance(number, int) or not isinstance(text, str):
            raise FrameError(f"Task {number!r} is {text!r}: give texts by number.")


def describe_difference(there: RingSpec, asked: RingSpec) -> str:
    """Return what differs between the buffer on disk and the one asked for; empty if nothing."""
    parts = []
    if there.capacity != asked.capacity:
        parts.append(f"capacity is {there.capacity:,}, not {asked.capacity:,}")
    if asked.fps is not None and there.fps != asked.fps:
        parts.append(f"fps is {there.fps}, not {asked.fps}")
    if asked.tasks and dict(there.tasks) != dict(asked.tasks):
        parts.append(f"tasks are {dict(there.tasks)}, not {dict(asked.tasks)}")
    for name in there.features.keys() | asked.features.keys():
        left, right = (_spelled(spec.features.get(name)) for spec in (there, asked))
        if left != right:
            parts.append(f"{name!r} is {left}, not {right}")
    return "; ".join(sorted(parts))


def _spelled(feature: Feature | None) -> str:
    return "absent" if feature is None else f"{feature.dtype} {feature.shape}"


def write_spec(spec: RingSpec, path: Path) -> None:
    """Write the description of a buffer; it comes last, so its presence means that all is there."""
    features = {
        name: {"dtype": f.dtype, "shape": list(f.shape), "names": f.names and list(f.names)}
        for name, f in spec.features.items()
    }
    description = {
        "format": _FORMAT,
        "version": _VERSION,
        "capacity": spec.capacity,
        "fps": spec.fps,
        "tasks": {str(number): text for number, text in spec.tasks.items()},
        "features": features,
    }
    write_atomically(path, json.dumps(description, indent=2) + "\n")


def read_spec(path: Path) -> RingSpec:
    """Read the description of a buffer.

    Raises:
        MetadataError: The file is not one, or is of another version.
    """
    try:
        described = json.loads(read_file(path, "description"))
        known = (described["format"], described["version"]) == (_FORMAT, _VERSION)
        features = {
            name: Feature(f["dtype"], tuple(f["shape"]), f["names"] and tuple(f["names"]))
            for name, f in described["features"].items()
        }
        tasks = {int(number): text for number, text in described.get("tasks", {}).items()}
        spec = RingSpec(described["capacity"], features, described["fps"], tasks)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MetadataError(f"Not a replay buffer ({error}): {str(path)!r}.") from error
    if not known:
        raise MetadataError(
            f"The replay buffer is of another version than {_VERSION}: {str(path)!r}."
        )
    return spec


def check_free_space(spec: RingSpec, folder: Path) -> None:
    """Raise if the disk could not hold the buffer once it is full.

    The files start empty and grow with the frames. JPEG features are counted at a sixth of their
    pixels.

    Raises:
        BufferMismatchError: Too little is free.
    """
    share = {name: _JPEG_SHARE if f.is_camera else 1 for name, f in spec.features.items()}
    frame_bytes = sum(spec.slot_bytes(name) // share[name] for name in spec.features)
    needed, free = spec.capacity * frame_bytes, shutil.disk_usage(folder).free
    if needed > free:
        raise BufferMismatchError(
            f"{spec.capacity:,} frames need about {needed / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB "
            f"are free: about {free // frame_bytes:,} frames would fit, in {str(folder)!r}."
        )
