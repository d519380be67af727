"""Joined and cut videos show the very pixels of their sources, at the right ticks."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roboreel.errors import CorruptFileError, EncodingError
from roboreel.video.encode import Encoding, VideoWriter, encode_video
from roboreel.video.index_writer import decoding_ticks
from roboreel.video.mp4 import read_packet_table
from roboreel.video.salvage import whole_fragments
from roboreel.video.splice import ImageSpan, join_videos, splice_videos

B_FRAMES = {"bf": "2", "b_strategy": "0"}
ENCODINGS = {
    "av1": Encoding("av1"),
    "av1 g=30": Encoding("av1", keyframe_distance=30),
    "h264": Encoding("h264"),
    "h264 B-frames": Encoding("h264", keyframe_distance=8, options=B_FRAMES),
    "hevc": Encoding("hevc"),
    "hevc open GOP": Encoding(
        "hevc", keyframe_distance=5, options={"bf": "3", "x265-params": "open-gop=1:b-adapt=0"}
    ),
}
TICKS = 512  # of one image, at 30 per second


def video(path: Path, count: int, encoding: Encoding, *, first: int = 0, fps: float = 30) -> Path:
    noise = np.random.default_rng(3).integers(0, 60, (48, 64, 3), dtype=np.uint8)
    images = (
        np.roll(noise, 3 * number, axis=1) + np.uint8(7 * number % 180)
        for number in range(first, first + count)
    )
    encode_video(path, images, fps=fps, encoding=encoding)
    return path


def shown(path: Path) -> list[tuple[Fraction, NDArray[Any]]]:
    with av.open(str(path)) as container:
        return [
            (frame.pts * frame.time_base, frame.to_ndarray(format="rgb24"))
            for frame in container.decode(video=0)
        ]


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS.keys())
def test_every_image_of_a_joined_file_is_at_its_start_plus_its_number(encoding, tmp_path):
    lengths = [7, 1, 2, 12]
    paths = [
        video(tmp_path / f"{k}.mp4", count, encoding, first=20 * k)
        for k, count in enumerate(lengths)
    ]
    starts = join_videos(paths, tmp_path / "joined.mp4")
    assert starts == [Fraction(frames, 30) for frames in (0, 7, 8, 10)]
    joined = shown(tmp_path / "joined.mp4")
    assert [time for time, _ in joined] == [Fraction(i, 30) for i in range(22)]
    sources = [image for path in paths for _, image in shown(path)]
    assert all(np.array_equal(a, b) for (_, a), b in zip(joined, sources, strict=True))


def test_a_joined_file_can_be_joined_again(tmp_path):
    encoding = ENCODINGS["h264 B-frames"]
    a = video(tmp_path / "a.mp4", 9, encoding)
    join_videos([a, a], tmp_path / "aa.mp4")
    starts = join_videos([tmp_path / "aa.mp4", a], tmp_path / "aaa.mp4")
    assert starts == [0, Fraction(18, 30)]
    images = [image for _, image in shown(a)]
    joined = [image for _, image in shown(tmp_path / "aaa.mp4")]
    assert np.array_equal(joined, images * 3)


def test_fractional_rates_stay_exact(tmp_path):
    paths = [video(tmp_path / f"{k}.mp4", 5, Encoding("h264"), fps=29.97) for k in range(3)]
    starts = join_videos(paths, tmp_path / "joined.mp4")
    assert starts == [5 * k * Fraction(100, 2997) for k in range(3)]
    times = [time for time, _ in shown(tmp_path / "joined.mp4")]
    assert times == [i * Fraction(100, 2997) for i in range(15)]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"encoding": Encoding("hevc")}, "different codec .h264 and hevc."),
        ({"fps": 25}, "different time base"),
        ({"encoding": Encoding("h264", options=B_FRAMES)}, "different codec header"),
    ],
)
def test_videos_that_differ_are_not_joined(other, message, tmp_path):
    a = video(tmp_path / "a.mp4", 3, Encoding("h264"))
    b = video(tmp_path / "b.mp4", 3, **({"encoding": Encoding("h264")} | other))
    with pytest.raises(EncodingError, match=rf"{message}.*b\.mp4"):
        join_videos([a, b], tmp_path / "joined.mp4")
    assert not (tmp_path / "joined.mp4").exists()


def test_a_video_whose_edit_list_hides_images_is_not_joined(tmp_path):
    source = video(tmp_path / "a.mp4", 6, Encoding("h264", keyframe_distance=6))
    with av.open(str(source)) as read, av.open(str(tmp_path / "b.mp4"), "w") as write:
        stream = write.add_stream_from_template(read.streams.video[0], opaque=True)
        for packet in read.demux(video=0):
            if packet.size:
                packet.pts -= 3 * TICKS
                packet.dts -= 3 * TICKS
                packet.stream = stream
                write.mux(packet)
    assert len(shown(tmp_path / "b.mp4")) == 3
    with pytest.raises(EncodingError, match=r"only some of its packets.*b\.mp4"):
        join_videos([source, tmp_path / "b.mp4"], tmp_path / "joined.mp4")


def test_nothing_cannot_be_joined(tmp_path):
    with pytest.raises(EncodingError, match="no videos to join"):
        join_videos([], tmp_path / "joined.mp4")


def test_a_file_that_is_no_video_is_named(tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"not a video at all" * 10)
    with pytest.raises(CorruptFileError, match=r"a\.mp4"):
        join_videos([tmp_path / "a.mp4"], tmp_path / "joined.mp4")


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS.keys())
@pytest.mark.parametrize("span", [(0, 20), (0, 1), (7, 13), (5, 6), (19, 20)])
def test_a_cut_shows_the_images_of_its_span_at_the_times_it_returns(encoding, span, tmp_path):
    source = video(tmp_path / "a.mp4", 20, encoding)
    start, stop = span
    table = read_packet_table(source)
    part = ImageSpan.of(source, table, start, stop)
    (ticks,) = splice_videos([part], tmp_path / "cut.mp4")
    times = [int(tick) * table.time_base for tick in ticks]
    assert times == [times[0] + Fraction(i, 30) for i in range(stop - start)]
    images = dict(shown(tmp_path / "cut.mp4"))
    wanted = [image for _, image in shown(source)][start:stop]
    assert np.array_equal([images[time] for time in times], wanted)
    assert len(images) <= len(wanted) + 2 * encoding.keyframe_distance


@given(st.lists(st.integers(-100, 100), unique=True, min_size=1))
def test_packets_are_decoded_in_order_and_in_time(ticks):
    decoded = decoding_ticks(np.array(ticks))
    assert (np.diff(decoded) > 0).all()
    assert (decoded <= ticks).all()
    assert (decoded == ticks).any()


@pytest.mark.parametrize("count", [1, 2, 21])
def test_no_image_of_a_fragmented_video_is_hidden_once_it_is_copied(count, tmp_path):
    with VideoWriter(tmp_path / "f.mp4", size=(48, 64), fps=30, fragmented=True) as writer:
        for number in range(count):
            writer.write(np.full((48, 64, 3), 8 * number, np.uint8))
    join_videos([tmp_path / "f.mp4"], tmp_path / "whole.mp4")
    with av.open(str(tmp_path / "whole.mp4")) as whole:
        packets = [packet for packet in whole.demux(video=0) if packet.size]
    assert [packet.is_discard for packet in packets] == [False] * count


def test_what_a_kill_leaves_is_salvaged_up_to_the_last_whole_fragment(tmp_path):
    path, out = tmp_path / "a.mp4", tmp_path / "b.mp4"
    with VideoWriter(path, size=(48, 64), fps=30, encoding=Encoding("h264"), fragmented=True) as w:
        for number in range(8):
            w.write(np.full((48, 64, 3), 20 * number, np.uint8))
    content = path.read_bytes()
    ends = [at + 4 for at in range(len(content)) if content[at : at + 4] == b"moof"][1:]
    for fragments, end in enumerate(ends, start=1):
        for cut in (end - 8, end + 40):  # Right after a fragment, and inside the next one.
            path.write_bytes(content[:cut])
            assert whole_fragments(path, out) == 2 * fragments
    out.unlink()
    path.write_bytes(content[:200] + bytes(100))
    assert whole_fragments(path, out) == 0
    assert not out.exists()
