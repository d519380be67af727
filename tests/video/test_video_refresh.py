"""H.264 keyframes that are no IDR images: with gradual refresh, decoding begins further back."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

import roboreel as reel
from roboreel.edit import edit_dataset, plan_conversion, verify_copy
from roboreel.errors import CorruptFileError
from roboreel.io.budget import Budget
from roboreel.video import decode
from roboreel.video.bitstream import length_bytes_of
from roboreel.video.clip_file import is_exact, make_clip_file
from roboreel.video.demux import demux_packet_table
from roboreel.video.exact_start import ExactStarts, begins_exactly
from roboreel.video.mp4 import read_packet_table
from roboreel.video.nal import refreshes_all
from roboreel.video.packet_table import Coding
from roboreel.video.packets import FilePackets
from roboreel.video.reader import VideoReader
from roboreel.video.splice import ImageSpan, splice_videos
from tests.clean import CHANGING_EPISODE, FRONT, LENGTHS, SIZES, clean_dataset
from tests.video.test_video_reader import request
from tests.video_factory import decode_all, write_video

COUNT = 40
REFRESH = {"x264-params": "intra-refresh=1:keyint=8"}
# The width decides how long a refresh takes. With two columns it claims to take no time at all.
VIDEOS: dict[str, Any] = {
    "odd": {"size": (34, 98)},
    "two columns": {"size": (34, 32)},
    "one column": {"size": (34, 16)},
    "usual": {"size": (48, 64)},
    "B-frames": {"size": (50, 66), "bframes": 2},
    "slower": {"size": (50, 66), "options": {"x264-params": "intra-refresh=1:keyint=24"}},
    "slices": {"size": (50, 66), "options": {"x264-params": "intra-refresh=1:keyint=8:slices=3"}},
}


@pytest.fixture(params=VIDEOS)
def video(request: Any, tmp_path: Path) -> tuple[Path, NDArray[np.uint8]]:
    """A video with gradual refresh, and its images by a decode from the start."""
    settings = {"options": REFRESH, **VIDEOS[request.param]}
    path = write_video(tmp_path / "v.mp4", range(COUNT), gop=250, **settings)
    assert read_packet_table(path).keyframe.sum() > 1
    return path, decode_all(path)


@pytest.fixture
def reader():
    reader = VideoReader(budget=Budget(), threads=1)
    yield reader
    reader.close()


@pytest.fixture
def fed(monkeypatch):
    """The packets that decoders were fed, in order."""
    packets: list[int] = []
    feed = decode._feed

    def noting(context: Any, packet: Any, number: int, *others: Any) -> Any:
        if packet is not None:
            packets.append(number)
        return feed(context, packet, number, *others)

    monkeypatch.setattr(decode, "_feed", noting)
    return packets


def wrong(
    reader: VideoReader,
    video: tuple[Path, NDArray[np.uint8]],
    reads: Sequence[Sequence[int]],
) -> list[Sequence[int]]:
    """Return the reads that give other images than a decode from the start."""
    path, expected = video
    return [
        frames
        for frames in reads
        if not np.array_equal(read(reader, path, frames), expected[frames])
    ]


def read(reader: VideoReader, path: Path, frames: Sequence[int]) -> NDArray[np.uint8]:
    plan = reader.plan([request(path, frames, length=COUNT)])
    images = np.empty((len(frames), *plan.image_sizes[path], 3), np.uint8)
    reader.read(plan, images, layout="hwc")
    return images


def test_every_image_alone_is_that_of_a_decode_from_the_start(video):
    for frame in range(COUNT):
        reader = VideoReader(budget=Budget(), threads=1)
        assert not wrong(reader, video, [[frame]])


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_images_in_order_are_those_of_a_decode_from_the_start(video, step, ahead, reader):
    frames = range(COUNT - ahead)[::step]
    assert not wrong(reader, video, [sorted({frame, frame + ahead}) for frame in frames])


def test_images_at_random_are_those_of_a_decode_from_the_start(video, reader):
    rng = np.random.default_rng(0)
    reads = [sorted(rng.choice(COUNT, rng.integers(1, 4), False).tolist()) for _ in range(60)]
    assert not wrong(reader, video, reads)


def test_a_stream_is_that_of_a_decode_from_the_start(video, reader):
    path, expected = video
    streamed = reader.stream(request(path, range(COUNT), length=COUNT), layout="hwc")
    assert np.array_equal(np.stack(list(streamed)), expected)


def test_a_video_without_lengths_before_its_units_is_read_as_exactly(reader, tmp_path):
    path = write_video(tmp_path / "v.ts", range(COUNT), gop=250, size=(34, 98), options=REFRESH)
    table = reader.table(path)
    assert table.via == "ffmpeg"
    assert length_bytes_of(table.coding) is None
    assert table.keyframe.sum() > 1
    assert not wrong(reader, (path, decode_all(path)), [[frame] for frame in range(COUNT)[::-1]])


def test_images_one_by_one_are_decoded_about_twice(reader, fed, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(COUNT), gop=250, options=REFRESH)
    assert not wrong(reader, (path, decode_all(path)), [[frame] for frame in range(COUNT)])
    assert len(fed) < 2.5 * COUNT


def test_an_open_gop_is_decoded_from_its_own_keyframe(reader, fed, tmp_path):
    options = {"x264-params": "open-gop=1:keyint=8"}
    path = write_video(tmp_path / "v.mp4", range(COUNT), gop=8, bframes=2, options=options)
    table = read_packet_table(path)
    with FilePackets(path, table) as packets:
        keyframe = int(np.flatnonzero(table.keyframe)[-1])
        (_, data), *_ = packets.read(keyframe, keyframe + 1)
        assert not refreshes_all(data, table.coding)
        assert begins_exactly(data, table.coding)
    frame = int(np.flatnonzero(table.shown == keyframe)[0])
    assert not wrong(reader, (path, decode_all(path)), [[frame]])
    assert fed == [keyframe]


def test_decoding_begins_at_the_last_idr_image_and_no_earlier(reader, fed, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT // 2), gop=250, options=REFRESH)
    joined = tmp_path / "v.mp4"
    with av.open(str(joined), "w") as output:
        stream = None
        for part in range(2):
            with av.open(str(path)) as source:
                stream = stream or output.add_stream_from_template(source.streams.video[0])
                for packet in source.demux(video=0):
                    if packet.size:
                        ticks = round(part * COUNT // 2 / 30 / packet.time_base)
                        packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks
                        packet.stream = stream
                        output.mux(packet)
    assert not wrong(reader, (joined, decode_all(joined)), [[COUNT - 1]])
    assert fed == list(range(COUNT // 2, COUNT))


def test_damage_before_a_keyframe_is_an_error_for_what_leans_on_it(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(COUNT), gop=250, size=(34, 98), options=REFRESH)
    expected, table = decode_all(path), read_packet_table(path)
    content = bytearray(path.read_bytes())
    start, size = int(table.offset[20]), int(table.size[20])
    content[start + 8 : start + size] = bytes(size - 8)
    path.write_bytes(content)
    for frame in [*range(20), *range(20)[::-1]]:
        assert np.array_equal(read(reader, path, [frame])[0], expected[frame]), frame
    for frame in [*range(20, COUNT), *range(20, COUNT)[::-1]]:
        with pytest.raises(CorruptFileError):
            read(reader, path, [frame])


def unit(*values: int) -> bytes:
    return len(values).to_bytes(4, "big") + bytes(values)


CODING = Coding("h264", b"\x01\x64\x00\x0a\xff\xe1\x00", 64, 48)
I_SLICE, P_SLICE = unit(0x41, 0x88, 0x80), unit(0x41, 0x9A, 0x80)
LATER_I, LATER_P = unit(0x41, 0x42, 0x20), unit(0x41, 0x46, 0x80)  # From macroblock 1 on.
AT_ONCE, LATER = unit(6, 6, 1, 0xC4, 0x80), unit(6, 6, 2, 0x34, 0x40, 0x80)


@pytest.mark.parametrize(
    ("packet", "is_exact"),
    [
        (unit(0x65, 0x88, 0x80), True),
        (LATER + unit(0x65, 0x88, 0x80), True),  # An IDR image, whatever is said of it.
        (I_SLICE, True),
        (AT_ONCE + I_SLICE, True),
        (LATER + I_SLICE, False),
        (AT_ONCE + P_SLICE, False),
        (I_SLICE + LATER_I, True),
        (I_SLICE + LATER_P, False),
        (I_SLICE + P_SLICE, True),  # Two fields.
        (unit(6, 5, 2, 6, 6, 6, 2, 0x34, 0x40, 0x80) + I_SLICE, False),  # The second message.
        (unit(6, 5, 3, 0, 0, 3, 1, 6, 2, 0x34, 0x40, 0x80) + I_SLICE, False),  # Escaped.
        (unit(6, 5, 255, 1, *[9] * 256, 6, 1, 0x4C) + I_SLICE, False),  # Long.
        (unit(6, 6, 255, 255) + I_SLICE, True),
        (unit(6, 6, 9) + I_SLICE, True),
        (unit(6, 6, 1, 0) + I_SLICE, True),
        (unit(6) + I_SLICE, True),
        (unit() + I_SLICE, True),
        (unit(0x41), False),
        (b"", True),
    ],
)
def test_what_a_packet_says_of_its_recovery(packet, is_exact):
    assert begins_exactly(memoryview(packet), CODING) == is_exact
    bare = replace(CODING, extradata=b"")
    assert begins_exactly(memoryview(with_start_codes(packet)), bare) == is_exact
    assert begins_exactly(memoryview(packet), replace(CODING, codec="hevc"))


def with_start_codes(packet: bytes) -> bytes:
    stream = b""
    while packet:
        stop = 4 + int.from_bytes(packet[:4], "big")
        stream, packet = stream + b"\x00\x00\x01" + packet[4:stop], packet[stop:]
    return stream


def test_bytes_at_random_are_parsed_without_an_error():
    rng = np.random.default_rng(0)
    whole = LATER + unit(6, 5, 255, 3, *[9] * 258, 6, 1, 0x4C) + I_SLICE + LATER_P
    for _ in range(3000):
        packet = np.frombuffer(whole, np.uint8)[: rng.integers(len(whole) + 1)].copy()
        places = rng.random(len(packet)) < rng.choice([0.01, 0.3, 1.0])
        packet[places] = rng.choice([0, 1, 3, 5, 6, 65, 255], int(places.sum()))
        for extradata in (CODING.extradata, b""):
            begins_exactly(memoryview(packet.tobytes()), replace(CODING, extradata=extradata))


def test_a_video_that_begins_with_no_exact_keyframe_is_decoded_from_its_first_packet(tmp_path):
    path = write_video(tmp_path / "a.mp4", range(40), gop=250, size=(34, 98), options=REFRESH)
    table = read_packet_table(path)
    keyframe = table.keyframe.copy()
    keyframe[0] = False
    table = replace(table, keyframe=keyframe)
    starts = ExactStarts()
    with FilePackets(path, table) as reader:
        for last in np.flatnonzero(keyframe).tolist() * 2:
            assert starts.find(reader, table, last) == starts.get(table, last) == 0


@pytest.mark.parametrize("start", [8, 20, 32])
def test_a_clip_that_begins_inside_a_refresh_brings_what_it_takes_to_decode(start, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(40), gop=250, size=(34, 98), options=REFRESH)
    table, expected = read_packet_table(path), decode_all(path)
    span = ImageSpan.of(path, table, start, 40)
    assert not span.is_exact
    splice_videos([span], tmp_path / "b.mp4")
    assert np.array_equal(decode_all(tmp_path / "b.mp4")[start:], expected[start:])
    splice_videos([ImageSpan.of(path, table, 0, 30)], tmp_path / "b.mp4")
    assert np.array_equal(decode_all(tmp_path / "b.mp4")[:30], expected[:30])
    assert ImageSpan.of(path, demux_packet_table(path), start, 40).begin == span.begin == 0
    packets = table.shown[start:].astype(np.int64)
    assert not is_exact(path, table, packets)
    content, moments = make_clip_file(path, table, packets, fps=30)
    (tmp_path / "c.mp4").write_bytes(content)
    assert np.array_equal(decode_all(tmp_path / "c.mp4")[-len(moments) :], expected[start:])


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_an_edit_that_begins_inside_a_refresh_keeps_every_pixel(version, tmp_path):
    root = clean_dataset(tmp_path / "d", version, episodes_per_file=1)
    path = root / reel.open_dataset(root).manifest.video_files[FRONT][CHANGING_EPISODE]
    numbers = range(LENGTHS[CHANGING_EPISODE])
    write_video(path, numbers, gop=250, size=SIZES[FRONT], options=REFRESH)
    expected = decode_all(path)[12:]
    edit_dataset(root).trim(CHANGING_EPISODE, start=12).apply()
    plan = plan_conversion(root, "2.1" if version == "v3.0" else "3.0", tmp_path / "out")
    plan.apply()
    verify_copy(plan)
    for edited in (root, tmp_path / "out"):
        images = reel.open_dataset(edited).episodes[CHANGING_EPISODE][FRONT]
        assert np.array_equal(images.transpose(0, 2, 3, 1), expected)
