"""Whole inputs for the parsers: what mutations start from, made by the factories of the tests."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import pyarrow as pa

import roboreel as reel
from roboreel.check.baseline import write_baseline
from roboreel.check.run import check_dataset
from roboreel.commit import STORE, Change, Commit, Workshop
from roboreel.image import encode_jpeg, encode_png
from roboreel.record.journal import RecordFile, RowFormat
from roboreel.schema import Feature
from tests.factory import NUMBERS, write_dataset, write_dataset_v2
from tests.parquet.test_extents import write as write_bytes
from tests.parquet.test_levels import packed, run
from tests.parquet.test_thrift import struct_of
from tests.recordings import FPS, features, record
from tests.video_factory import numbered_image, write_video

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[[Path], Iterator[bytes]]

SMALL = (16, 24)
ROWS = {"action": Feature("float32", (2,)), "note": Feature("string", (1,))}


def seeds(make: Make) -> list[bytes]:
    """Return the inputs that a function of this module makes in a temporary folder."""
    with TemporaryDirectory() as folder:
        return list(make(Path(folder)))


def videos(folder: Path) -> Iterator[bytes]:
    """Yield MP4 files: a stored table, B-frames with an edit list, several codecs."""
    ways: list[dict[str, Any]] = [
        {"gop": 3},
        {"gop": 12, "bframes": 3},
        {"codec": "libsvtav1"},
        {"codec": "libx265", "bframes": 3},
        {"codec": "libvpx-vp9"},
    ]
    for way in ways:
        size = (64, 64) if "codec" in way else SMALL
        yield write_video(folder / "video.mp4", range(6), size=size, **way).read_bytes()


def fragments(folder: Path) -> Iterator[bytes]:
    """Yield fragmented MP4 files."""
    for flags in ("+empty_moov+default_base_moof", "", "+delay_moov"):
        yield write_video(
            folder / "video.mp4",
            range(6),
            gop=2,
            size=SMALL,
            container_options={"movflags": f"frag_keyframe{flags}"},
        ).read_bytes()


def thrift(_: Path) -> Iterator[bytes]:
    """Yield structs in Thrift's compact encoding."""
    yield struct_of({1: 0, 2: 300, 3: 200, 6: 7})
    yield (
        struct_of({1: 2**31, 4: b"text", 200: -5})[:-1]
        + b"\x0c\x0a"
        + struct_of({1: 5, 2: 0})
        + b"\0"
    )


def levels(_: Path) -> Iterator[bytes]:
    """Yield runs and bit-packed groups; the first two bytes are width and count."""
    yield bytes([3, 24]) + packed(list(range(8)), 3) + run(5, 16, 3)
    yield bytes([1, 200]) + run(1, 200, 1)


def parquet(folder: Path) -> Iterator[bytes]:
    """Yield small Parquet files of pictures, in every compression that is parsed."""
    values = [b"row %d " % row * 8 for row in range(6)]
    for codec in ("none", "snappy", "zstd", "lz4", "gzip"):
        for version, dictionary in (("1.0", True), ("2.0", False)):
            yield write_bytes(
                folder / "t.parquet",
                [*values, None],
                compression=codec,
                data_page_version=version,
                use_dictionary=dictionary,
                row_group_size=4,
                store_schema=False,
            ).read_bytes()


def streams(_: Path) -> Iterator[bytes]:
    """Yield Snappy streams."""
    for data in (b"abc" * 50, bytes(range(256)), np.random.default_rng(0).bytes(300)):
        yield pa.compress(data, "snappy", asbytes=True)


def lines(folder: Path) -> Iterator[bytes]:
    """Yield files of JSON lines."""
    write_dataset_v2(folder / "d", [3, 2])
    for name in ("episodes.jsonl", "tasks.jsonl"):
        yield (folder / "d" / "meta" / name).read_bytes()


def infos(folder: Path) -> Iterator[bytes]:
    """Yield info.json of every version, with cameras."""
    write_dataset(folder / "3", [2, 3])
    write_dataset_v2(folder / "2", [2, 3])
    for place in ("3", "2"):
        yield (folder / place / "meta" / "info.json").read_bytes()
    encoding = reel.Encoding("h264")
    with reel.create_dataset(
        folder / "r", fps=FPS, features=features("video", 1), encoding=encoding
    ):
        pass
    yield (folder / "r" / "meta" / "info.json").read_bytes()


def stats(folder: Path) -> Iterator[bytes]:
    """Yield the statistics of a dataset."""
    with reel.create_dataset(folder / "r", fps=FPS, features=features("image", 1)) as recorder:
        record(recorder, 0, 2)
        recorder.save_episode()
    yield (folder / "r" / "meta" / "stats.json").read_bytes()


def shard_manifests(folder: Path) -> Iterator[bytes]:
    """Yield the manifest of a shard store."""
    rows = ({"data": b"x" * 5, "n": n, "list": [1, 2]} for n in range(4))
    store = folder / "s"
    reel.write_shards(rows, {"data": "bytes", "n": "int64", "list": ["int32"]}, store)
    yield from (path.read_bytes() for path in store.rglob("meta.json"))


def shard_files(folder: Path) -> Iterator[bytes]:
    """Yield a shard."""
    rows = ({"data": b"x" * 5, "n": n, "text": "abc"} for n in range(4))
    store = folder / "s"
    reel.write_shards(rows, {"data": "bytes", "n": "int64", "text": "string"}, store)
    yield from (path.read_bytes() for path in store.rglob("*.arrow"))


def caches(folder: Path) -> Iterator[bytes]:
    """Yield the manifest of a training cache."""
    write_dataset(folder / "d", [2, 3], features=NUMBERS)
    reel.open_dataset(folder / "d").materialize(folder / "c")
    yield (folder / "c" / "cache.json").read_bytes()


def replay_specs(folder: Path) -> Iterator[bytes]:
    """Yield the description of a replay buffer."""
    with reel.ReplayBuffer(folder / "b", capacity=4, features=ROWS_OF_NUMBERS, fps=10):
        pass
    yield from (path.read_bytes() for path in (folder / "b").glob("*.json"))


ROWS_OF_NUMBERS = {"action": Feature("float32", (2,)), "image": Feature("image", (8, 8, 3))}


def replay_headers(folder: Path) -> Iterator[bytes]:
    """Yield the header of a replay buffer."""
    with reel.ReplayBuffer(folder / "b", capacity=4, features=ROWS_OF_NUMBERS) as buffer:
        image = np.zeros((2, 8, 8, 3), np.uint8)
        buffer.add_episode({"action": np.zeros((2, 2), np.float32), "image": image})
    yield (folder / "b" / "header.bin").read_bytes()


def journals(folder: Path) -> Iterator[bytes]:
    """Yield the journal of an open episode."""
    rows = RowFormat(ROWS)
    file = RecordFile(folder / "rows.journal")
    file.append(json.dumps({"episode": 0, **rows.describe()}).encode())
    for i in range(3):
        file.append(rows.pack({"action": [i, i], "note": f"n {i}"}, "task"))
    file.close()
    yield (folder / "rows.journal").read_bytes()


def open_rows(_: Path) -> Iterator[bytes]:
    """Yield one record of a journal."""
    rows = RowFormat(ROWS)
    yield rows.pack({"action": [1, 2], "note": "n"}, "task")


def commits(_: Path) -> Iterator[bytes]:
    """Yield lists of steps."""
    steps = [("00000.parquet", "data/chunk-000/file-000.parquet"), (None, "meta/tasks.parquet")]
    yield json.dumps(steps).encode()
    kept = [["00000.parquet", "data/chunk-000/file-000.parquet", None, True]]
    moved = [[None, "meta/tasks.parquet", "meta/tasks.jsonl", False]]
    yield json.dumps({"steps": [*kept, *moved], "number": 3, "purge": False}).encode()


def baselines(folder: Path) -> Iterator[bytes]:
    """Yield a baseline of ``roboreel check``."""
    write_dataset_v2(folder / "d", [3, 2])
    (folder / "d" / "data" / "chunk-000" / "episode_000001.parquet").unlink()
    write_baseline(folder / "b", check_dataset(folder / "d"))
    yield (folder / "b").read_bytes()


def views(folder: Path) -> Iterator[bytes]:
    """Yield a saved view."""
    write_dataset(folder / "d", [2, 3])
    dataset = reel.open_dataset(folder / "d")
    yield reel.save_view(dataset.select(episodes=[1]), "good").read_bytes()
    yield reel.save_view(dataset, "all").read_bytes()


def changes(folder: Path) -> Iterator[bytes]:
    """Yield what a change wrote down."""
    write_dataset(folder / "d", [2, 3])
    commit = Commit(Workshop(folder / "d"), change=Change("repair", "x"))
    commit.add("meta/stats.json").write_text("{}")
    commit.run()
    yield (folder / "d" / STORE / "undo/1/change.json").read_bytes()


def footers(folder: Path) -> Iterator[bytes]:
    """Yield the footers of small Parquet files."""
    for data in parquet(folder):
        length = int.from_bytes(data[-8:-4], "little")
        yield data[-8 - length : -8]


def pictures(_: Path) -> Iterator[bytes]:
    """Yield encoded pictures."""
    image = numbered_image(5, *SMALL)
    yield encode_png(image)
    yield encode_jpeg(image)
    with suppress(NotImplementedError):  # before imagecodecs 2025.8
        yield bytes(imagecodecs.tiff_encode(image[:, :, 0].astype(np.uint16)))
    yield bytes(imagecodecs.webp_encode(image))


def packets(folder: Path) -> Iterator[bytes]:
    """Yield configuration records and packets: a length byte, the record, the packet."""
    from roboreel.video.mp4 import read_packet_table

    for codec in ("libx264", "libx265", "libsvtav1"):
        path = write_video(folder / "v.mp4", range(2), codec, size=(64, 64))
        table = read_packet_table(path)
        start, size = int(table.offset[0]), int(table.size[0])
        record = table.coding.extradata[:255]
        yield bytes([len(record)]) + bytes(record) + path.read_bytes()[start : start + size]


def texts(_: Path) -> Iterator[bytes]:
    """Yield what people type: sizes, lists of episodes, templates and addresses."""
    for text in (
        "1.5 GiB",
        "0,4,7-9",
        "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "videos/{video_key}/chunk-{episode_chunk:03d}/x.mp4",
        "hf://datasets/owner/name@main",
        "length > p95(length) and not task contains 'cube' or x in (1, -2.5)",
        "v3.0",
    ):
        yield text.encode()
