"""Every parser of foreign bytes as a function of bytes: it returns, or raises what it may."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import roboreel as reel
from roboreel.check.baseline import read_baseline
from roboreel.commit import STORE, Workshop, finish_commit
from roboreel.commit.change import parse_change
from roboreel.dataset.cache.manifest import CacheManifest
from roboreel.dataset.episode_numbers import parse_episodes
from roboreel.dataset.query import parse as parse_condition
from roboreel.dataset.saved_views import read_view
from roboreel.errors import DatasetError
from roboreel.format.hub import parse_hub_url
from roboreel.format.info import read_info
from roboreel.format.json_files import read_json
from roboreel.format.stats_json import stats_from_json
from roboreel.format.templates import check_template
from roboreel.image import decode_image, image_size
from roboreel.io.budget import Budget, parse_size
from roboreel.io.mapped import MappedFile
from roboreel.parquet import narrow
from roboreel.parquet.extents.byte_column import ByteColumn
from roboreel.parquet.extents.levels import decode_hybrid
from roboreel.parquet.extents.snappy import scan_snappy
from roboreel.parquet.extents.thrift import BOOL, INT, read_struct
from roboreel.parquet.jsonl import index_lines, read_line_columns, read_lines
from roboreel.record.journal import RowFormat, read_records
from roboreel.repair.rescue.rebuild import find_row_groups, write_with_footer
from roboreel.replay.header import HEADER_BYTES, HeaderReader
from roboreel.replay.spec import read_spec
from roboreel.shards.manifest import parse_manifest
from roboreel.video.bitstream import obus, stream_packer
from roboreel.video.exact_start import begins_exactly
from roboreel.video.mp4 import read_packet_table
from roboreel.video.nal import disposable_test, refreshes_all
from roboreel.video.packet_table import Coding
from roboreel.video.salvage import whole_fragments
from tests.factory import write_dataset
from tests.fuzz import foreign, seeds

HAS_ROS = find_spec("mcap") is not None and find_spec("rosbags") is not None
if TYPE_CHECKING or HAS_ROS:
    from tests.fuzz import ros

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TARGETS", "Target"]

OURS = (DatasetError,)
_SHARD_BYTES = 1330
TYPED = (DatasetError, ValueError)
"""What functions may raise whose input a person types."""


@dataclass(frozen=True)
class Target:
    """One parser and what its inputs look like."""

    parse: Callable[[bytes], object]
    seeds: seeds.Make
    allowed: tuple[type[Exception], ...] = OURS
    most_bytes: int = 8192
    share: int = 5
    """How many inputs are wanted, compared with other parsers: fewer of those that are slow."""

    def __call__(self, data: bytes) -> None:
        """Parse; raise whatever is not allowed."""
        with suppress(*self.allowed):
            self.parse(data)


@cache
def folder() -> Path:
    """Return a folder of this process; whoever starts it may say which, and removes it."""
    return Path(os.environ.get("ROBOREEL_FUZZ_FOLDER") or mkdtemp())


def stored(data: bytes, name: str = "input") -> Path:
    """Return the path of a file with these bytes."""
    path = folder() / name
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except FileNotFoundError:
        path.parent.mkdir(parents=True)
        return stored(data, name)
    os.write(handle, data)
    os.close(handle)
    return path


def parse_levels(data: bytes) -> None:
    width, count = [*data[:2], 0, 0][:2]
    numbers = decode_hybrid(data[2:], width, count)
    assert len(numbers) == count


def parse_struct(data: bytes) -> None:
    read_struct(data, 0, {1: INT, 2: INT, 3: INT, 5: {1: INT, 2: INT}, 8: {1: INT, 7: BOOL}})


def parse_parquet(data: bytes) -> None:
    for column in (("image", "bytes"), ("plain",)):
        with suppress(DatasetError), ByteColumn(stored(data), column, budget=Budget()) as opened:
            # A small file can declare as many rows as it likes.
            count = min(opened.num_rows, 20)
            assert len(opened.read(range(count))) == count
            opened.view(range(count))


def parse_stream(data: bytes) -> None:
    if not data:
        return
    file = MappedFile(stored(data))
    scan_snappy(file, 0, len(data), data[0] & 0x7F, most_tags=1000)


def parse_lines(data: bytes) -> None:
    path = stored(data)
    with suppress(DatasetError):
        list(read_lines(path))
    with suppress(DatasetError):
        index_lines(path, "episode_index")
    read_line_columns(path, integers=["episode_index", "length"], text_lists=["tasks"])


def parse_info(data: bytes) -> None:
    path = stored(data, "dataset/meta/info.json")
    info = read_info(path.parents[1])
    for name, feature in info.features.items():
        if feature.dtype == "video":
            info.video_template(name)


def parse_stats(data: bytes) -> None:
    read_all = read_json(stored(data))
    for name, entry in read_all.items() if isinstance(read_all, dict) else ():
        with suppress(DatasetError):
            stats_from_json(name, entry, "stats.json")


def parse_shard(data: bytes) -> None:
    """Read a shard of the size that the manifest declares: others are refused on opening."""
    path = shard_file()
    path.write_bytes(data[:_SHARD_BYTES].ljust(_SHARD_BYTES, b"\0"))
    store = reel.open_shards(path.parents[1])
    for row in range(len(store)):
        store[row]


@cache
def shard_file() -> Path:
    (data,) = seeds.shard_files(folder() / "shards")
    assert len(data) == _SHARD_BYTES
    return next((folder() / "shards").rglob("*.arrow"))


def parse_cache(data: bytes) -> None:
    CacheManifest.read(stored(data, "cache/cache.json").parent)


def parse_header(data: bytes) -> None:
    reader = HeaderReader(data)  # type: ignore[arg-type]  # sliced like a map
    reader.newest(b"another run 1234")
    assert reader.older_synced_copy() in (2, 3)


def parse_journal(data: bytes) -> None:
    records, left = read_records(stored(data))
    assert left <= len(data)
    RowFormat(seeds.ROWS).unpack(records[1:])


def parse_rows(data: bytes) -> None:
    RowFormat(seeds.ROWS).unpack([data, data])


def parse_steps(data: bytes) -> None:
    """Read a list of steps whose files are not there: nothing may happen to the others."""
    path = stored(data, "commit/.recording/commit/steps.json")
    outside, root = stored(b"mine", "mine"), path.parents[2]
    try:
        finish_commit(Workshop(root))
    finally:
        assert outside.read_bytes() == b"mine"


def parse_view(data: bytes) -> None:
    """Read a saved view of a dataset of two episodes."""
    root = view_of_two().path
    stored(data, f"{root.name}/{STORE}/views/odd.json")
    read_view(view_of_two(), "odd")


@cache
def view_of_two() -> reel.Dataset:
    write_dataset(folder() / "two", [2, 3])
    return reel.open_dataset(folder() / "two")


def parse_footer(data: bytes) -> None:
    """Narrow a footer; what is raised here is left to pyarrow."""
    with suppress(IndexError, KeyError, UnicodeDecodeError):
        narrow._narrow(data, lambda name: name != "plain", 10**6)


def parse_cut(data: bytes) -> None:
    """Find the row groups of a file without a footer, which is like a whole one."""
    found = find_row_groups(stored(data, "cut.parquet"), like=whole_file())
    if found.row_groups:
        write_with_footer(folder() / "cut.parquet", found, folder() / "made.parquet")


@cache
def whole_file() -> Path:
    return stored(next(iter(seeds.parquet(folder()))), "whole.parquet")


def parse_fragments(data: bytes) -> None:
    path = stored(data)
    with suppress(DatasetError):
        read_packet_table(path)
    count = whole_fragments(path, folder() / "whole.mp4")
    assert 0 <= count <= len(data)


def parse_picture(data: bytes) -> None:
    with suppress(DatasetError):
        image_size(data)
    decode_image(data)


def parse_packet(data: bytes) -> None:
    """Look into a packet as each codec would have it."""
    length = data[0] if data else 0
    record, packet = data[1 : 1 + length], data[1 + length :]
    for codec in ("h264", "hevc", "av1"):
        coding = Coding(codec, record, 64, 64, 0, None)
        with suppress(DatasetError):
            pack = stream_packer(coding)
            assert pack is not None
            pack(packet, True)
        is_disposable = disposable_test(coding)
        if is_disposable is not None:
            is_disposable(memoryview(packet))
        refreshes_all(memoryview(packet), coding)
        begins_exactly(memoryview(packet), coding)
    list(obus(packet))


def parse_bag_metadata(data: bytes) -> None:
    """Read the folder of a ROS 2 bag with such metadata beside its one file."""
    path = stored(bag_database(), "bag/run.db3")
    stored(data, "bag/metadata.yaml")
    ros.read_recording(path.parent)


@cache
def bag_database() -> bytes:
    return seeds.seeds(ros.databases)[0]


def parse_text(data: bytes) -> None:
    text = data.decode(errors="replace")
    path = Path("info.json")
    for act in (
        lambda: parse_size(text),
        lambda: len(parse_episodes(text)) if len(text) < 12 else 0,
        lambda: parse_hub_url(text),
        lambda: parse_condition(text),
        lambda: check_template(text, ["chunk_index"], {"video_key": "k"}, info_path=path),
    ):
        with suppress(*TYPED):
            act()


TARGETS: dict[str, Target] = {
    "MP4 tables": Target(lambda data: read_packet_table(stored(data)), seeds.videos, OURS, 16384),
    "MP4 fragments, salvage": Target(parse_fragments, seeds.fragments, OURS, 16384),
    "codec records, packets": Target(parse_packet, seeds.packets),
    "pictures": Target(parse_picture, seeds.pictures),
    "Thrift structs": Target(parse_struct, seeds.thrift, OURS, 512),
    "Parquet levels": Target(parse_levels, seeds.levels, OURS, 512),
    "Parquet pages": Target(parse_parquet, seeds.parquet),
    "Snappy": Target(parse_stream, seeds.streams, OURS, 2048),
    "JSON lines": Target(parse_lines, seeds.lines, OURS, 2048),
    "info.json": Target(parse_info, seeds.infos),
    "stats.json": Target(parse_stats, seeds.stats, OURS, 8192),
    "shard manifests": Target(
        lambda data: parse_manifest(data.decode(errors="replace"), "meta.json"),
        seeds.shard_manifests,
        OURS,
        4096,
    ),
    "shards": Target(parse_shard, seeds.shard_files),
    "cache manifests": Target(parse_cache, seeds.caches, OURS, 4096),
    "replay descriptions": Target(lambda data: read_spec(stored(data)), seeds.replay_specs),
    "replay headers": Target(parse_header, seeds.replay_headers, OURS, HEADER_BYTES),
    "journals": Target(parse_journal, seeds.journals, OURS, 2048),
    "journal rows": Target(parse_rows, seeds.open_rows, OURS, 512),
    "steps of commits": Target(parse_steps, seeds.commits, OURS, 1024),
    "saved views": Target(parse_view, seeds.views, OURS, 512),
    "lists of changes": Target(
        lambda data: parse_change(stored(data), 1), seeds.changes, OURS, 2048
    ),
    "Parquet footers": Target(parse_footer, seeds.footers),
    "Parquet without footers": Target(parse_cut, seeds.parquet),
    "baselines": Target(lambda data: read_baseline(stored(data)), seeds.baselines, OURS, 4096),
    "examples of TensorFlow": Target(foreign.parse_tf_example, foreign.examples),
    "TFRecord files": Target(partial(foreign.parse_records, stored=stored), foreign.records),
    "features.json": Target(partial(foreign.parse_features, stored=stored), foreign.features),
    "mappings": Target(partial(foreign.parse_map, stored=stored), foreign.maps, OURS, 2048),
    "CSV tables": Target(partial(foreign.parse_table, stored=stored), foreign.tables, OURS, 512),
    "typed text": Target(parse_text, seeds.texts, OURS, 128),
}
if foreign.HAS_ARRAYS:
    TARGETS |= {
        "HDF5 files": Target(
            lambda data: foreign.read_recording(stored(data)), foreign.hdf5_files, OURS, 65536
        ),
        "Zarr metadata": Target(
            partial(foreign.parse_zarr_metadata, stored=stored), foreign.zarr_metadata
        ),
        "Zarr zip files": Target(
            lambda data: foreign.read_recording(stored(data)), foreign.zarr_zips, OURS, 16384
        ),
    }
if HAS_ROS:
    TARGETS |= {
        "MCAP files": Target(lambda data: ros.read_recording(stored(data)), ros.mcap_files),
        "ROS 1 bags": Target(lambda data: ros.read_recording(stored(data)), ros.bags),
        "ROS 2 databases": Target(
            lambda data: ros.read_recording(stored(data)), ros.databases, OURS, 65536
        ),
        "ROS 2 metadata": Target(parse_bag_metadata, ros.metadata_files),
        "ROS definitions": Target(ros.parse_definition, ros.definitions, OURS, 2048),
        "ROS video packets": Target(ros.parse_packets, ros.packets, OURS, 512),
    }
FAST = (
    "codec records, packets", "pictures", "Thrift structs", "Parquet levels", "shard manifests",
    "replay headers", "journal rows",
)  # fmt: skip
SLOW = (
    "MP4 fragments, salvage", "Parquet pages", "Parquet footers", "Parquet without footers",
    "JSON lines", "shards", "MCAP files", "ROS 1 bags", "ROS 2 databases", "ROS 2 metadata",
    "ROS definitions", "TFRecord files", "features.json", "CSV tables", "HDF5 files", "Zarr metadata",
    "Zarr zip files",
)  # fmt: skip
SHARES = dict.fromkeys(FAST, 40) | dict.fromkeys(SLOW, 1)
TARGETS |= {
    name: replace(TARGETS[name], share=share) for name, share in SHARES.items() if name in TARGETS
}
