import struct
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.image import Layout
from roboreel.schema import Depth
from roboreel.video.clip import plan_runs, split_runs
from roboreel.video.convert import Converter, _warn_of_coarse_depth
from roboreel.video.decode import Decoder
from roboreel.video.depth import metres_of_codes
from roboreel.video.mp4 import read_packet_table
from roboreel.video.nal import disposable_test
from roboreel.video.packets import FilePackets
from tests.video_factory import HEIGHT, WIDTH, decode_all, number_of, write_video

COUNT = 40

CODINGS: dict[str, dict[str, Any]] = {
    "AV1": {"codec": "libsvtav1"},
    "H.264": {"codec": "libx264"},
    "H.264 with B": {"codec": "libx264", "bframes": 3, "options": {"refs": "4"}},
    "H.264 with B, open": {
        "codec": "libx264",
        "bframes": 3,
        "options": {"x264-params": "open-gop=1:b-pyramid=normal", "refs": "4"},
    },
    "HEVC": {"codec": "libx265", "options": {"x265-params": "open-gop=0"}},
    "HEVC with B": {"codec": "libx265", "bframes": 3, "options": {"x265-params": "open-gop=0"}},
    "HEVC with B, open": {
        "codec": "libx265",
        "bframes": 3,
        "options": {"x265-params": "open-gop=1:ref=4:b-pyramid=1"},
    },
    "VP9": {
        "codec": "libvpx-vp9",
        "options": {"auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "good"},
    },
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "video.mp4"


def decode(
    path: Path, images: Any, decoder: Decoder | None = None, target: int = 10**6
) -> tuple[NDArray[np.uint8], Decoder]:
    """Return images (N, H, W, 3) by their numbers, and what decoded them."""
    table = read_packet_table(path)
    decoder = decoder or Decoder(table.coding)
    packets = table.shown[images].astype(np.int64)
    height, width = table.coding.height, table.coding.width
    out = np.zeros((len(images), height, width, 3), np.uint8)
    runs = plan_runs(packets, table.start)
    with FilePackets(path, table) as reader:
        for run in (run for part in split_runs(runs, target) for run in part):
            for packet, image in decoder.decode(reader, table, run):
                for slot in np.flatnonzero(packets == packet):
                    decoder.converter.write(image, out[slot], "hwc", None)
    return out, decoder


@pytest.mark.parametrize("gop", [1, 2, 30, 250])
@pytest.mark.parametrize("name", CODINGS)
def test_every_image_is_that_of_a_plain_decode(name, gop, path):
    write_video(path, range(COUNT), gop=gop, **CODINGS[name])
    expected = decode_all(path)
    assert [number_of(image) for image in expected] == list(range(COUNT))
    decoder = None
    for image in range(COUNT):
        found, decoder = decode(path, [image], decoder)
        assert np.array_equal(found[0], expected[image]), image
    rng = np.random.default_rng(gop)
    for _ in range(8):
        images = rng.integers(0, COUNT, rng.integers(1, 20))
        found, decoder = decode(path, images, decoder, target=int(rng.integers(1, 30)))
        assert np.array_equal(found, expected[images])


def test_images_that_no_other_leans_on_are_not_decoded(path):
    for codec in ("libx264", "libx265"):
        write_video(path, range(COUNT), codec, gop=COUNT, bframes=3)
        table = read_packet_table(path)
        is_disposable = disposable_test(table.coding)
        assert is_disposable is not None
        with FilePackets(path, table) as reader:
            skipped = [packet for packet, data in reader.read(0, COUNT) if is_disposable(data)]
        assert COUNT // 3 < len(skipped) < COUNT
        assert not table.keyframe[skipped].any()


def test_images_after_a_keyframe_that_is_refreshed_little_by_little_are_found(path):
    options = {"x264-params": "intra-refresh=1:keyint=10"}
    write_video(path, range(COUNT), gop=10, options=options)
    assert read_packet_table(path).keyframe.sum() > 1
    expected = decode_all(path)
    for image in range(COUNT):
        assert np.array_equal(decode(path, [image])[0][0], expected[image]), image


def test_an_h264_image_that_states_no_cut_is_cut_to_the_size_in_the_file(path):
    write_video(path, range(4))
    data = bytearray(path.read_bytes())
    size = data.index(b"avc1", data.index(b"stsd")) + 28
    data[size : size + 4] = struct.pack(">HH", WIDTH - 4, HEIGHT - 2)
    path.write_bytes(data)
    expected = decode_all(path)
    assert expected.shape[1:3] == (HEIGHT - 2, WIDTH - 4)
    assert np.array_equal(decode(path, [3, 1])[0], expected[[3, 1]])


@pytest.mark.parametrize("block_bytes", [1, 64, 10**6])
def test_packets_are_read_whole_wherever_they_lie(block_bytes, path, monkeypatch):
    monkeypatch.setattr("roboreel.video.packets._BLOCK_BYTES", block_bytes)
    write_video(path, range(2))
    rng = np.random.default_rng(0)
    size = rng.integers(1, 40, 200).astype(np.int32)
    offset = np.cumsum(size) - size
    offset[50:] += 1000  # Sound in between,
    offset[120:150] = offset[120:150][::-1]  # and some in another order.
    table = replace(read_packet_table(path), offset=offset, size=size)
    content = rng.bytes(int(offset.max()) + 100)
    path.write_bytes(content)
    with FilePackets(path, table) as reader:
        for packet, data in reader.read(3, 190):
            assert bytes(data) == content[offset[packet] : offset[packet] + size[packet]]
        assert [packet for packet, _ in reader.read(3, 190)] == list(range(3, 190))


@pytest.mark.parametrize("name", ["AV1", "H.264", "HEVC", "VP9"])
def test_a_damaged_packet_is_an_error_for_all_that_lean_on_it_and_for_no_other(name, path):
    write_video(path, range(COUNT), gop=20, **CODINGS[name])
    expected = decode_all(path)
    table = read_packet_table(path)
    content = bytearray(path.read_bytes())
    start, size = int(table.offset[25]), int(table.size[25])
    content[start : start + size] = b"\xff" * size
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"damaged|decodes to no image"):
        decode(path, [30])
    assert np.array_equal(decode(path, [3, 24])[0], expected[[3, 24]])


def test_a_file_that_was_cut_off_is_an_error(path):
    write_video(path, range(COUNT), gop=1, container_options={"movflags": "faststart"})
    table = read_packet_table(path)
    with path.open("rb+") as file:
        file.truncate(int(table.offset[20]) + 3)
    with (
        FilePackets(path, table) as reader,
        pytest.raises(CorruptFileError, match="video file ends at byte"),
    ):
        list(reader.read(18, 22))


def test_a_codec_without_decoder_is_refused(path):
    write_video(path, range(2))
    coding = replace(read_packet_table(path).coding, codec="h9000")
    with pytest.raises(UnsupportedVideoError, match="no decoder for 'h9000'"):
        decode(path, [0], Decoder(coding))


# --- Colour, size, depth.


def convert(
    image: av.VideoFrame, size: tuple[int, int] | None = None, layout: Layout = "chw"
) -> NDArray[np.uint8]:
    height, width = size or (image.height, image.width)
    shape = (3, height, width) if layout == "chw" else (height, width, 3)
    out = np.zeros(shape, np.uint8)
    Converter().write(image, out, layout, None)
    return out


def noise(form: str, height: int = HEIGHT, width: int = WIDTH) -> av.VideoFrame:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=form)


def packed_rgb(image: av.VideoFrame) -> Any:
    """Return FFmpeg's own conversion; before PyAV 17 an image's colours had to be named for it."""
    if int(av.__version__.split(".")[0]) >= 17:
        return image.to_ndarray(format="rgb24")
    named: dict[str, Any] = {
        "src_colorspace": Colorspace.ITU709 if image.colorspace == 1 else Colorspace.ITU601,
        "src_color_range": ColorRange.JPEG if image.color_range == 2 else ColorRange.MPEG,
        "dst_colorspace": Colorspace.ITU601,
        "dst_color_range": ColorRange.MPEG,
    }
    return image.reformat(format="rgb24", **named).to_ndarray()


@pytest.mark.parametrize("size", [(48, 64), (480, 640), (48, 70), (46, 66), (50, 130), (47, 64)])
@pytest.mark.parametrize("form", ["yuv420p", "yuvj420p", "yuv420p10le", "yuv444p", "gray"])
@pytest.mark.parametrize(("matrix", "colour_range"), [(1, 1), (1, 2), (5, 1), (5, 2), (2, 0)])
def test_pixels_are_those_of_ffmpegs_packed_rgb(form, size, matrix, colour_range):
    image = noise(form, *size)
    image.colorspace, image.color_range = matrix, colour_range
    expected = packed_rgb(image)
    assert np.array_equal(convert(image), expected.transpose(2, 0, 1))
    assert np.array_equal(convert(image, layout="hwc"), expected)


@pytest.mark.parametrize(("matrix", "red"), [(1, (63, 102, 240)), (5, (81, 90, 240))])
def test_the_colour_matrix_is_the_one_that_the_image_declares(matrix, red):
    planes = np.concatenate(
        [
            np.full(64 * 48 // share, level, np.uint8)
            for level, share in zip(red, (1, 4, 4), strict=True)
        ]
    )
    image = av.VideoFrame.from_ndarray(planes.reshape(72, 64), format="yuv420p")
    image.colorspace, image.color_range = matrix, 1
    assert np.abs(convert(image)[:, 0, 0].astype(int) - (255, 0, 0)).max() <= 3


def test_resizing_averages_and_is_the_same_in_both_layouts():
    image = noise("yuv444p")
    small = convert(image, (24, 32))
    assert np.array_equal(convert(image, (24, 32), "hwc").transpose(2, 0, 1), small)
    pixels = convert(image).reshape(3, 24, 2, 32, 2).mean((2, 4))
    assert np.abs(small - pixels).max() <= 3


@pytest.mark.parametrize("log", [True, False])
def test_depth_comes_back_in_metres(log, path):
    depth = Depth(min_m=0.2, max_m=8.0, shift=2.0, log=log)
    metres = np.linspace(0.2, 8.0, HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
    share = (metres - 0.2) / 7.8
    if log:
        share = np.log((metres + 2.0) / 2.2) / np.log(10.0 / 2.2)
    codes = np.rint(4095 * share).astype(np.uint16)
    with av.open(str(path), "w") as container:
        options = {"x265-params": "lossless=1:bframes=0:log-level=none:pools=none"}
        stream = container.add_stream("libx265", rate=30, options=options)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "gray12le"
        frame = av.VideoFrame(WIDTH, HEIGHT, "gray12le")
        plane = np.frombuffer(frame.planes[0], np.uint16).reshape(HEIGHT, -1)
        plane[:, :WIDTH] = codes
        frame.pts, frame.time_base = 0, Fraction(1, 30)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    table = read_packet_table(path)
    decoder = Decoder(table.coding)
    out = np.zeros((1, HEIGHT, WIDTH), np.float32)
    half = np.zeros((HEIGHT // 2, WIDTH // 2, 1), np.float32)
    with FilePackets(path, table) as reader:
        (run,) = plan_runs(np.array([0]), table.start)
        for _, image in decoder.decode(reader, table, run):
            decoder.converter.write(image, out, "chw", depth)
            decoder.converter.write(image, half, "hwc", depth)
    assert np.array_equal(out[0], metres_of_codes(depth)[codes])
    assert np.abs(out[0] - metres).max() < 0.003
    assert np.isin(half, out).all()


@pytest.mark.parametrize("size", [(48, 64), (24, 32)])
def test_depth_from_a_video_of_eight_bits_is_what_lerobot_reads_and_is_warned_of(size):
    _warn_of_coarse_depth.cache_clear()
    image, depth = noise("yuv420p"), Depth()
    out = np.zeros((1, *size), np.float32)
    with pytest.warns(RuntimeWarning, match="12 bits per pixel, and this one is 'yuv420p'"):
        Converter().write(image, out, "chw", depth)
    Converter().write(image, out, "chw", depth)  # It is said once.
    # LeRobot's conversion, which is of PyAV: its codes are then turned into distances.
    expected = metres_of_codes(depth)[image.to_ndarray(format="gray12le")]
    assert np.isin(out, expected).all()
    assert size != (48, 64) or np.array_equal(out[0], expected)
