import struct
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    MissingFileError,
    UnsupportedVideoError,
)
from roboreel.video.demux import demux_packet_table
from roboreel.video.mp4 import MAX_PACKETS, read_packet_table
from roboreel.video.packet_table import PacketTable, reorder_depth
from tests.video_factory import write_video

FILES: dict[str, dict[str, Any]] = {
    "one group after another": {"gop": 5},
    "images moved, with an edit list": {"gop": 12, "bframes": 3},
    "headers first": {"container_options": {"movflags": "faststart"}},
    "fragments, empty start": {
        "gop": 5,
        "bframes": 2,
        "container_options": {"movflags": "frag_keyframe+empty_moov+default_base_moof"},
    },
    "fragments, old offsets": {"gop": 5, "container_options": {"movflags": "frag_keyframe"}},
    "fragments, late start": {
        "gop": 5,
        "bframes": 2,
        "container_options": {"movflags": "frag_keyframe+delay_moov"},
    },
    "AV1": {"codec": "libsvtav1"},
    "HEVC, open groups": {"codec": "libx265", "bframes": 3},
    "VP9": {"codec": "libvpx-vp9"},
}


@pytest.mark.parametrize("name", FILES)
def test_the_table_is_what_ffmpeg_finds_in_the_file(name, tmp_path):
    path = write_video(tmp_path / "video.mp4", range(30), **FILES[name])
    table = read_packet_table(path)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        assert float(table.time_base) == float(stream.time_base)
        assert (table.coding.width, table.coding.height) == (stream.width, stream.height)
    assert table.offset.tolist() == [packet.pos for packet in packets]
    assert table.size.tolist() == [packet.size for packet in packets]
    assert table.keyframe.tolist() == [packet.is_keyframe for packet in packets]
    order = np.argsort([packet.pts for packet in packets])
    assert table.shown.tolist() == order.tolist()
    assert table.ticks.tolist() == sorted(packet.pts for packet in packets)
    assert np.array_equal(np.diff(table.dts), np.diff([packet.dts for packet in packets]))


# --- Files made by hand, for what no encoder at hand writes.


def box(kind: bytes, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def full(kind: bytes, *content: bytes, version: int = 0) -> bytes:
    return box(kind, bytes([version, 0, 0, 0]), *content)


def u32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *(value % 2**32 for value in values))


def table_box(kind: bytes, *rows: tuple[int, ...], version: int = 0) -> bytes:
    return full(kind, u32(len(rows)), *(u32(*row) for row in rows), version=version)


PACKETS = 6
DATA_AT = 8


def handmade(
    path: Path,
    *,
    trak: Iterable[bytes] = (),
    moov: Iterable[bytes] = (),
    descriptions: int = 1,
    **stbl: bytes,
) -> Path:
    """Write a file of six packets of 100 bytes in two chunks; boxes may be replaced."""
    entry = box(
        b"avc1", bytes(6), u32(1)[2:], bytes(16), struct.pack(">HH", 64, 48), bytes(50),
        box(b"avcC", bytes(range(1, 12))),
    )  # fmt: skip
    boxes = {
        "stsd": full(b"stsd", u32(descriptions), entry * descriptions),
        "stts": table_box(b"stts", (PACKETS, 512)),
        "stsc": table_box(b"stsc", (1, 3, 1)),
        "stsz": full(b"stsz", u32(0, PACKETS), u32(*[100] * PACKETS)),
        "stco": table_box(b"stco", (DATA_AT,), (DATA_AT + 300,)),
        **stbl,
    }
    media = box(
        b"mdia",
        full(b"mdhd", u32(0, 0, 15360, 0, 0)),
        full(b"hdlr", u32(0), b"vide", bytes(13)),
        box(b"minf", box(b"stbl", *boxes.values())),
    )
    movie = box(
        b"moov",
        full(b"mvhd", u32(0, 0, 1000, 0), bytes(80)),
        box(b"trak", full(b"tkhd", u32(0, 0, 1, 0, 0), bytes(60)), *trak, media),
        *moov,
    )
    path.write_bytes(box(b"mdat", b"x" * 600) + movie)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "video.mp4"


def test_packets_lie_one_after_another_in_their_chunks(path):
    chunks = table_box(b"stco", (DATA_AT + 300,), (DATA_AT,))
    table = read_packet_table(handmade(path, stco=chunks))
    assert table.offset.tolist() == [308, 408, 508, 8, 108, 208]
    assert table.keyframe.all()


def test_wide_offsets_are_read(path):
    chunks = full(b"co64", u32(2), struct.pack(">QQ", DATA_AT, DATA_AT + 300))
    table = read_packet_table(handmade(path, stco=chunks))
    assert table.offset.tolist() == [8, 108, 208, 308, 408, 508]


def test_sizes_may_be_stored_once_for_all(path):
    sizes = full(b"stsz", u32(100, PACKETS))
    assert read_packet_table(handmade(path, stsz=sizes)).size.tolist() == [100] * 6


def test_sizes_of_less_than_32_bits_are_left_to_ffmpeg(path):
    sizes = full(b"stz2", bytes([0, 0, 0, 8]), u32(PACKETS), bytes([100] * PACKETS))
    with pytest.raises(UnsupportedVideoError, match="less than 32 bits"):
        read_packet_table(handmade(path, stsz=sizes))
    assert demux_packet_table(path).size.tolist() == [100] * 6


def test_offsets_of_presentation_may_be_negative(path):
    ctts = table_box(b"ctts", (1, 0), (1, 512), (1, -512), (3, 0), version=1)
    table = read_packet_table(handmade(path, ctts=ctts))
    assert table.shown.tolist() == [0, 2, 1, 3, 4, 5]
    assert table.ticks.tolist() == [0, 512, 1024, 1536, 2048, 2560]
    assert table.coding.reorder == 1


def edits(*rows: tuple[int, int], version: int = 0) -> bytes:
    code = ">QqI" if version else ">IiI"
    entries = [struct.pack(code, *row, 0x10000) for row in rows]
    return box(b"edts", full(b"elst", u32(len(entries)), *entries, version=version))


@pytest.mark.parametrize("version", [0, 1])
def test_an_edit_shows_part_of_the_track_after_a_delay(version, path):
    trak = [edits((500, -1), (100, 1024), version=version)]
    table = read_packet_table(handmade(path, trak=trak))
    # 0.5 s of nothing, then 0.1 s from the third image on.
    assert table.shown.tolist() == [2, 3, 4]
    assert table.ticks.tolist() == [7680, 8192, 8704]


def test_several_edits_are_refused(path):
    trak = [edits((100, 0), (100, 2048))]
    with pytest.raises(UnsupportedVideoError, match=r"more than one part of the track.*video\.mp4"):
        read_packet_table(handmade(path, trak=trak))


def test_several_codec_descriptions_are_refused(path):
    with pytest.raises(UnsupportedVideoError, match="2 codec descriptions"):
        read_packet_table(handmade(path, descriptions=2))


def test_colours_that_the_file_declares_are_kept(path):
    write_video(path, range(3), colour=(1, 1), container_options={"movflags": "write_colr"})
    colour = read_packet_table(path).coding.colour
    assert colour is not None
    assert (colour.matrix, colour.full_range) == (1, False)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("stts", table_box(b"stts", (2**32 - 1, 512))),
        ("stsc", table_box(b"stsc", (1, 2**32 - 1, 1))),
        ("ctts", table_box(b"ctts", (2**32 - 1, 0))),
    ],
)
def test_a_run_that_claims_to_be_billions_long_takes_no_memory(kind, content, path):
    handmade(path, **{kind: content, "stco": table_box(b"stco", (DATA_AT,))})
    tracemalloc.start()
    try:
        read_packet_table(path) if kind == "stsc" else _try_to_read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"stsz": full(b"stsz", u32(1, 2**32 - 1))}, "declares 4,294,967,295 packets of 1 bytes"),
        ({"stsz": full(b"stsz", u32(0, 2**32 - 1))}, "has room for"),
        ({"stts": table_box(b"stts", (3, 512))}, "table of times covers only some of the packets"),
        ({"stss": table_box(b"stss", (7,))}, "Keyframes are listed that do not exist"),
        ({"stco": table_box(b"stco", (DATA_AT,), (10**6,))}, "lie outside the file"),
        ({"stsc": table_box(b"stsc", (2, 3, 1))}, "chunks is not in order"),
        ({"stsd": b""}, "no box"),
    ],
)
def test_damage_is_named(content, message, path):
    with pytest.raises(CorruptFileError, match=message):
        read_packet_table(handmade(path, **content))


def test_a_fragment_that_claims_too_many_packets_is_refused(path):
    trex = box(b"mvex", full(b"trex", u32(1, 1, 512, 1, 0)))
    handmade(path, moov=[trex])
    run = full(b"trun", u32(MAX_PACKETS))
    fragment = box(b"moof", box(b"traf", full(b"tfhd", u32(1)), run))
    path.write_bytes(path.read_bytes() + fragment)
    with pytest.raises(CorruptFileError, match="more than the file can hold"):
        read_packet_table(path)


def test_a_recording_that_was_interrupted_says_so(path):
    path.write_bytes(box(b"ftyp", b"isom") + struct.pack(">I4s", 10**6, b"mdat") + b"x" * 100)
    with pytest.raises(CorruptFileError, match="writing it was interrupted"):
        read_packet_table(path)


def test_a_file_that_is_not_there_says_so(path):
    with pytest.raises(MissingFileError, match=r"no video file.*video\.mp4"):
        read_packet_table(path)


def _try_to_read(path: Path) -> PacketTable | None:
    try:
        return read_packet_table(path)
    except DatasetError:
        return None


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    fragmented = {"movflags": "frag_keyframe+empty_moov"}
    whole = write_video(folder / "whole.mp4", range(12), gop=4, bframes=2)
    parts = write_video(folder / "parts.mp4", range(12), gop=4, container_options=fragmented)
    return [path.read_bytes() for path in (whole, parts, handmade(folder / "hand.mp4"))]


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_damage_to_a_file_leads_to_anything_but_a_named_error(seeds, path, data):
    content = bytearray(data.draw(st.sampled_from(seeds)))
    # Headers matter most: aim at the boxes, not at the images.
    places = [content.find(kind) for kind in (b"moov", b"moof") if kind in content]
    start = data.draw(st.sampled_from([0, *places]))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(start, len(content) - 4))
        content[at : at + 4] = data.draw(
            st.sampled_from([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x01", b"\x7f\xff\xff\xff"])
            | st.binary(min_size=1, max_size=4)
        )
    path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    tracemalloc.start()
    try:
        table = _try_to_read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20 + 400 * len(content)
    finally:
        tracemalloc.stop()
    if table is not None:
        assert (table.offset >= 0).all()
        assert (table.offset + table.size <= path.stat().st_size).all()
        assert len(table.shown) == len(table.ticks) <= len(table.size)


@given(st.lists(st.integers(-50, 50), unique=True))
def test_the_reorder_depth_is_the_most_packets_that_an_image_waits_for(pts):
    waits = [sum(other > own for other in pts[:place]) for place, own in enumerate(pts)]
    assert reorder_depth(np.array(pts, dtype=np.int64)) == min(max(waits, default=0), 16)
