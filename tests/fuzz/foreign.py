"""Parsers of recordings as functions of bytes, and whole inputs for them."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import DatasetError
from roboreel.importing import open_recording, plan_import
from roboreel.importing.mapping_file import map_to_toml, read_map
from roboreel.importing.tf_example import parse_example
from tests.importing import foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Stored = Callable[[bytes, str], Path]

_MOST_READ = 10
HAS_ARRAYS = find_spec("h5py") is not None and find_spec("zarr") is not None


def read_recording(path: Path) -> None:
    """Open a recording, plan its import, and read some values of every stream."""
    with open_recording(path) as recording:
        with suppress(DatasetError):
            plan_import(recording)
        for name, stream in recording.streams.items():
            if stream.kind not in ("video", "other"):
                with suppress(DatasetError):
                    count = recording.count(0, name)
                    recording.read(0, {name: np.arange(min(count, _MOST_READ))})


def parse_tf_example(data: bytes) -> None:
    """Read every list of an example, as each kind."""
    example = parse_example(data)
    for name in example:
        for read in (example.strings, example.floats, example.ints):
            with suppress(DatasetError):
                read(name)


def parse_records(data: bytes, stored: Stored) -> None:
    """Read a TFRecord file beside its features."""
    stored(json.dumps(foreign.FEATURES).encode(), "rlds/features.json")
    read_recording(stored(data, "rlds/a-train.tfrecord-00000-of-00001").parent)


def parse_features(data: bytes, stored: Stored) -> None:
    """Read features.json beside its records."""
    stored(_records(), "rlds/a-train.tfrecord-00000-of-00001")
    read_recording(stored(data, "rlds/features.json").parent)


def parse_map(data: bytes, stored: Stored) -> None:
    """Read a mapping, and write it again."""
    mapping = read_map(stored(data, "map.toml"))
    again = read_map(stored(map_to_toml(mapping).encode(), "again.toml"))
    assert again == mapping


def parse_table(data: bytes, stored: Stored) -> None:
    """Read a folder with such a table."""
    stored(foreign.png(0), "media/camera/0.png")
    read_recording(stored(data, "media/log.csv").parent)


def parse_zarr_metadata(data: bytes, stored: Stored) -> None:
    """Read a Zarr store with such metadata of an array."""
    for name, content in _zarr_files().items():
        stored(content, f"z.zarr/{name}")
    stored(data, "z.zarr/data/img/.zarray")
    top = stored(_zarr_files()[".zgroup"], "z.zarr/.zgroup")
    read_recording(top.parent)


def examples(_: Path) -> Iterator[bytes]:
    """Yield whole examples."""
    yield foreign.example(foreign.rlds_lists(range(2), "x"))
    yield foreign.example({"a": [1, -1, 2**40], "b": np.zeros(3, np.float32), "c": [b"x", b""]})


def records(_: Path) -> Iterator[bytes]:
    """Yield whole TFRecord files."""
    yield _records()


def features(_: Path) -> Iterator[bytes]:
    """Yield files features.json."""
    yield json.dumps(foreign.FEATURES).encode()


def maps(_: Path) -> Iterator[bytes]:
    """Yield mappings."""
    yield (
        b'fps = 30\nalign = "linear"\nmax_gap = "50ms"\ntask = { text = "x", stream = "/t" }\n'
        b'[episodes]\nby = "times"\ntimes = [[0.0, 1.5]]\n[features."observation.state"]\n'
        b'stream = "/joints"\nfield = "position"\nelements = ["a", 1]\nunit = "deg"\nshift = 1\n'
        b'[features.c]\nstream = "/c"\nflip = "both"\nresize = [2, 3]\nstore = "image"\n'
    )


def tables(_: Path) -> Iterator[bytes]:
    """Yield CSV tables."""
    yield b"timestamp,action_0,action_1,note,camera\n0.1,1,2.5,hi,camera/0.png\n"


def zarr_metadata(_: Path) -> Iterator[bytes]:
    """Yield metadata of arrays."""
    yield _zarr_files()["data/img/.zarray"]


def zarr_zips(folder: Path) -> Iterator[bytes]:
    """Yield zip files of stores."""
    yield foreign.write_zarr(folder / "a.zip", (2, 1), zipped=True).read_bytes()


def hdf5_files(folder: Path) -> Iterator[bytes]:
    """Yield small HDF5 files."""
    yield foreign.write_act(folder / "a.h5", 2).read_bytes()
    yield foreign.write_robomimic(folder / "b.h5", (2, 1)).read_bytes()


@cache
def _records() -> bytes:
    return foreign.tfrecord([foreign.example(foreign.rlds_lists(range(2), "x"))])


@cache
def _zarr_files() -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        top = foreign.write_zarr(Path(folder, "a.zarr"), (2, 1))
        return {
            path.relative_to(top).as_posix(): path.read_bytes()
            for path in top.rglob("*")
            if path.is_file()
        }
