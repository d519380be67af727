"""Images become video files that decode to as many images, in the same order."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roboreel.errors import EncodingError
from roboreel.schema import Depth
from roboreel.video import encode, instructions
from roboreel.video.codecs import Codec
from roboreel.video.depth import quantise_depth
from roboreel.video.encode import Encoding, VideoWriter, encode_video
from roboreel.video.encoding import frame_rate
from roboreel.video.instructions import repeatable
from roboreel.video.salvage import whole_fragments

if sys.platform != "win32":
    import resource

Image = NDArray[Any]
CODECS: list[Codec] = ["av1", "h264", "hevc"]


def numbered_images(count: int, size: tuple[int, int] = (48, 64)) -> list[Image]:
    """Images whose number is seen in their brightness."""
    height, width = size
    ramp = np.linspace(0, 40, width, dtype=np.uint8)[None, :, None]
    return [np.broadcast_to(ramp + 8 * number, (height, width, 3)) for number in range(count)]


def decode(path: Path, pixels: str = "rgb24") -> list[Image]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format=pixels) for frame in container.decode(video=0)]


def packets(path: Path) -> list[Any]:
    with av.open(str(path)) as container:
        return [packet for packet in container.demux(video=0) if packet.size]


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_decoded_is_what_was_written(codec, tmp_path):
    images = numbered_images(9)
    assert encode_video(tmp_path / "a.mp4", images, fps=30, encoding=Encoding(codec)) == 9
    decoded = decode(tmp_path / "a.mp4")
    assert len(decoded) == 9
    for written, read in zip(images, decoded, strict=True):
        assert np.abs(written.astype(int) - read).mean() < 3


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_starts_at_zero_with_a_keyframe_and_has_one_every_other_image(codec, tmp_path):
    encode_video(tmp_path / "a.mp4", numbered_images(6), fps=30, encoding=Encoding(codec))
    found = packets(tmp_path / "a.mp4")
    assert [packet.is_keyframe for packet in found] == [True, False] * 3
    assert [packet.pts for packet in found] == [packet.dts for packet in found]
    assert [packet.pts * packet.time_base for packet in found] == [
        Fraction(i, 30) for i in range(6)
    ]


class LateClock:
    """SVT-AV1 as it is on a busy machine, now and then: a packet has the time of a later image."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def encode(self, frame: Any) -> Iterator[Any]:
        for packet in self.stream.encode(frame):
            if packet.pts == 3:
                packet.pts = packet.dts = 13
            yield packet


def test_a_packet_with_the_time_of_a_later_image_is_stored_in_its_place(tmp_path):
    images = numbered_images(9)
    with VideoWriter(tmp_path / "a.mp4", size=(48, 64), fps=30) as writer:
        writer._stream = LateClock(writer._stream)
        for image in images:
            writer.write(image)
    encode_video(tmp_path / "b.mp4", images, fps=30)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


@pytest.mark.parametrize("codec", CODECS)
def test_the_same_images_give_the_same_bytes(codec, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        encode_video(tmp_path / name, numbered_images(5), fps=30, encoding=Encoding(codec))
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_images_that_come_and_go_give_the_same_bytes_every_time(tmp_path):
    """With AVX-512, one of a hundred H.264 videos of this size differed."""
    rng = np.random.default_rng(0)
    block = rng.integers(0, 256, (6, 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    written = set()
    for _ in range(150):
        path = tmp_path / "video.mp4"
        moving = (np.roll(block, 2 * step, axis=1) for step in range(20))
        encode_video(path, moving, fps=30, encoding=Encoding("h264", keyframe_distance=5))
        written.add(path.read_bytes())
        path.unlink()
    assert len(written) == 1


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_images_than_are_reordered_have_decoding_times_of_their_own(codec, count, tmp_path):
    """x265 left the times of one or two images to what was in memory: some could not be written."""
    encoding = Encoding(codec, keyframe_distance=8, options={"bf": "3"})
    written = set()
    for _ in range(20):
        path = tmp_path / "video.mp4"
        encode_video(path, numbered_images(count), fps=30, encoding=encoding)
        written.add(path.read_bytes())
        with av.open(str(path)) as container:
            packets = [packet for packet in container.demux(video=0) if packet.size]
            assert sorted(packet.pts * packet.time_base for packet in packets) == [
                Fraction(number, 30) for number in range(count)
            ]
    assert len(written) == 1


def test_instructions_of_the_caller_win(monkeypatch):
    monkeypatch.setattr(instructions, "_has_avx512", lambda: True)
    assert repeatable("libx264", {"crf": "23"}) == {"crf": "23", "x264-params": "asm=AVX2"}
    assert repeatable("libx264", {"x264-params": "asm=0"}) == {"x264-params": "asm=AVX2:asm=0"}
    assert repeatable("libsvtav1", {"crf": "30"}) == {"crf": "30"}


@pytest.mark.parametrize("fps", [0.5, 12.5, 29.97, Fraction(30000, 1001), 50])
def test_every_image_falls_on_an_exact_tick_at_fractional_rates(fps, tmp_path):
    encode_video(tmp_path / "a.mp4", numbered_images(5), fps=fps, encoding=Encoding("h264"))
    rate = frame_rate(fps)
    times = [packet.pts * packet.time_base for packet in packets(tmp_path / "a.mp4")]
    assert times == [i / rate for i in range(5)]


def test_options_win_over_the_fields():
    options = Encoding("h264", crf=20, options={"crf": "18", "bf": "2"}).encoder_options()
    assert (options["crf"], options["bf"]) == ("18", "2")
    hevc = Encoding("hevc", threads=1, options={"x265-params": "pools=3"}).encoder_options()
    assert hevc["x265-params"].endswith("pools=1:frame-threads=1:pools=3")


def test_av1_images_that_an_old_encoder_crashes_on_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("roboreel.video.encode._NARROWEST_AV1", 32)
    with pytest.raises(EncodingError, match=r"32 pixels wide.*these are 16x24"):
        VideoWriter(tmp_path / "v.mp4", size=(16, 24), fps=30)
    assert not (tmp_path / "v.mp4").exists()


def test_av1_takes_odd_sizes(tmp_path):
    encode_video(tmp_path / "a.mp4", numbered_images(3, (33, 65)), fps=30)
    assert [image.shape for image in decode(tmp_path / "a.mp4")] == [(33, 65, 3)] * 3


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_an_odd_size_is_refused_where_it_cannot_be_stored(codec, tmp_path):
    with pytest.raises(EncodingError, match=r"even height and width, not 33x65"):
        encode_video(
            tmp_path / "a.mp4", numbered_images(1, (33, 65)), fps=30, encoding=Encoding(codec)
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"codec": "vp9"}, "No codec 'vp9': choose one of 'av1', 'h264', 'hevc'"),
        ({"keyframe_distance": 0}, "keyframe_distance is 0: give a whole number, at least 1"),
        ({"keyframe_distance": 2.5}, r"keyframe_distance is 2\.5: give a whole number"),
        ({"threads": "two"}, "threads is 'two': give a whole number"),
        ({"crf": "low"}, "crf is 'low': give a number"),
        ({"crf": float("nan")}, "crf is nan: give a number"),
        ({"preset": 1.5}, r"preset is 1\.5: give a name or a number"),
        ({"options": {"tune": 1}}, r"options is \{'tune': 1\}: give texts by name"),
        ({"options": 5}, "options is 5: give texts by name"),
        ({"depth": Depth()}, "use codec='hevc'"),
    ],
)
def test_an_encoding_checks_itself(fields, message):
    with pytest.raises(EncodingError, match=message):
        Encoding(**fields)


def test_an_image_of_another_shape_is_refused_and_the_video_goes_on(tmp_path):
    image = numbered_images(1)[0]
    with VideoWriter(tmp_path / "a.mp4", size=(48, 64), fps=30) as writer:
        writer.write(image)
        with pytest.raises(EncodingError, match=r"Image 1 is uint8 \(64, 48, 3\)"):
            writer.write(image.transpose(1, 0, 2))
        with pytest.raises(EncodingError, match=r"Image 1 is float64"):
            writer.write(image.astype(float))
        writer.write(image)
    assert len(decode(tmp_path / "a.mp4")) == 2


def test_an_error_in_the_block_leaves_no_file(tmp_path):
    def camera() -> Iterator[Image]:
        yield from numbered_images(3)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        encode_video(tmp_path / "a.mp4", camera(), fps=30)
    assert not list(tmp_path.iterdir())


def test_a_video_without_images_is_refused(tmp_path):
    with (
        pytest.raises(EncodingError, match="at least one image"),
        VideoWriter(tmp_path / "a.mp4", size=(48, 64), fps=30),
    ):
        pass
    with pytest.raises(EncodingError, match="at least one image"):
        encode_video(tmp_path / "b.mp4", [], fps=30)
    assert not list(tmp_path.iterdir())


def test_a_closed_video_takes_no_more_images(tmp_path):
    with VideoWriter(tmp_path / "a.mp4", size=(48, 64), fps=30) as writer:
        writer.write(numbered_images(1)[0])
    writer.close()
    with pytest.raises(EncodingError, match="Cannot write to a closed video"):
        writer.write(numbered_images(1)[0])


def test_settings_the_encoder_refuses_are_named(tmp_path):
    with pytest.raises(EncodingError, match=r"libx264 rejects 48x64 .*'preset': 'hasty'"):
        VideoWriter(
            tmp_path / "a.mp4", size=(48, 64), fps=30, encoding=Encoding("h264", preset="hasty")
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": {"tuen": "film"}}, "libx264 has no option 'tuen'"),
        ({"pix_fmt": "yuv"}, "No pixel format 'yuv'"),
    ],
)
def test_an_option_or_format_that_ffmpeg_does_not_know_is_refused(fields, message, tmp_path):
    with pytest.raises(EncodingError, match=message):
        VideoWriter(tmp_path / "a.mp4", size=(48, 64), fps=30, encoding=Encoding("h264", **fields))
    assert not list(tmp_path.iterdir())


def test_a_missing_encoder_says_what_there_is():
    with pytest.raises(EncodingError, match=r"no encoder libnothing; .* it has libsvtav1, libx264"):
        encode._check_encoder("libnothing")


def test_the_encoders_print_nothing(tmp_path, capfd):
    for codec in CODECS:
        encode_video(tmp_path / "a.mp4", numbered_images(2), fps=30, encoding=Encoding(codec))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("unit", ["m", "mm"])
def test_depth_comes_back_within_a_millimetre_or_so(unit, tmp_path):
    depth = Depth()
    metres = np.linspace(0.3, 3.0, 48 * 64, dtype=np.float32).reshape(48, 64)
    image = metres if unit == "m" else np.rint(metres * 1000).astype(np.uint16)[..., None]
    encoding = Encoding("hevc", depth=depth)
    encode_video(tmp_path / "a.mp4", [image] * 4, fps=30, encoding=encoding)
    codes = decode(tmp_path / "a.mp4", "gray12le")
    low, high = np.log(depth.min_m + depth.shift), np.log(depth.max_m + depth.shift)
    read = np.exp(np.array(codes) / 4095 * (high - low) + low) - depth.shift
    assert read.shape == (4, 48, 64)
    assert np.abs(read - metres).max() < 0.002


@given(st.floats(0, 20, width=32), st.booleans())
def test_a_depth_code_is_the_formula_of_the_format(metres, log):
    depth = Depth(log=log)
    within = min(max(metres, depth.min_m), depth.max_m)
    if log:
        low, high = np.log(depth.min_m + depth.shift), np.log(depth.max_m + depth.shift)
        expected = np.rint(4095 * (np.log(within + depth.shift) - low) / (high - low))
    else:
        expected = np.rint(4095 * (within - depth.min_m) / (depth.max_m - depth.min_m))
    assert quantise_depth(np.array(metres, dtype=np.float32), depth) == expected


def test_depth_that_is_no_number_is_code_zero():
    image = np.array([np.nan, -np.inf, 0, np.inf], dtype=np.float32)
    assert quantise_depth(image, Depth()).tolist() == [0, 0, 0, 4095]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the policies")
def test_no_thread_becomes_real_time(tmp_path):
    """As root, SVT-AV1 asks for it, also for the thread that opens it."""
    own, before = os.sched_getscheduler(0), set(Path("/proc/self/task").iterdir())
    with VideoWriter(tmp_path / "v.mp4", size=(48, 64), fps=30, encoding=Encoding("av1")) as writer:
        writer.write(np.zeros((48, 64, 3), np.uint8))
        threads = set(Path("/proc/self/task").iterdir()) - before
        assert len(threads) > 5  # those of the encoder
        assert {os.sched_getscheduler(int(thread.name)) for thread in threads} == {own}
    assert os.sched_getscheduler(0) == own


@contextmanager
def files_no_larger_than(size_bytes: int) -> Iterator[None]:
    """Let every write beyond a size fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for the size of files")
def test_a_last_fragment_that_cannot_be_written_is_an_error_and_the_others_stay(tmp_path):
    def write(path: Path) -> None:
        given: Any = {"size": (48, 64), "fps": 30, "encoding": Encoding("h264")}
        writer = VideoWriter(path, fragmented=True, **given)
        for image in numbered_images(5):
            writer.write(image)
        writer.close()

    write(tmp_path / "a.mp4")
    last_fragment = (tmp_path / "a.mp4").read_bytes().rindex(b"moof") - 4
    with (
        files_no_larger_than(last_fragment + 40),
        pytest.raises(EncodingError, match=r"5 images were encoded, but 4 are in the file"),
    ):
        write(tmp_path / "b.mp4")
    assert whole_fragments(tmp_path / "b.mp4", tmp_path / "whole.mp4") == 4
    assert len(decode(tmp_path / "whole.mp4")) == 4
