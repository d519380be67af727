"""Converting straight into an array gives PyAV's pixels, and touches nothing else."""

import av
import numpy as np
import pytest

from roboreel.io.batch_buffers import aligned_empty
from roboreel.video import convert, direct
from roboreel.video.convert import Converter
from roboreel.video.direct import DirectScaler
from tests.factory import SHARED, needs_shared
from tests.video_factory import write_video

pytestmark = pytest.mark.skipif(not direct.is_available(), reason="not with this PyAV")

SIZES = [(96, 128), (48, 64), (100, 160), (224, 224), (32, 96), (256, 320)]


def noise(height=96, width=128, *, colours=2, full=False):
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (height * 3 // 2, width), dtype=np.uint8)
    image = av.VideoFrame.from_ndarray(pixels, format="yuv420p")
    image.colorspace, image.color_range = colours, 2 if full else 0
    return image


def fenced(shape, start=64):
    """Return an array at a multiple of 64 bytes, and all of the memory around it."""
    size = int(np.prod(shape))
    memory = np.full(size + 256, 0xAA, np.uint8)
    start += -memory.ctypes.data % 64
    return memory[start : start + size].reshape(shape), memory, (start, start + size)


def by_pyav(monkeypatch, image, shape, layout):
    with monkeypatch.context() as patch:
        patch.setattr(convert, "is_available", lambda: False)
        out = np.empty(shape, np.uint8)
        Converter().write(image, out, layout, None)
        return out


def shape_of(size, layout):
    return (3, *size) if layout == "chw" else (*size, 3)


@pytest.mark.parametrize("colours", [1, 2, 5, 6, 9])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_pixels_are_those_of_pyav_and_nothing_else_is_written(
    monkeypatch, layout, size, full, colours
):
    image = noise(colours=colours, full=full)
    shape = shape_of(size, layout)
    out, memory, (start, stop) = fenced(shape)
    Converter().write(image, out, layout, None)
    assert (memory[:start] == 0xAA).all()
    assert (memory[stop:] == 0xAA).all()
    np.testing.assert_array_equal(out, by_pyav(monkeypatch, image, shape, layout))


def compare_decoded(monkeypatch, path, count):
    """Convert the first images of a file both ways, each by one converter, as readers do."""
    monkeypatch.setattr(convert, "_agrees", {})
    converter = Converter()
    with av.open(str(path)) as container:
        for number, image in enumerate(container.decode(video=0)):
            if number == count:
                break
            for size in [(image.height, image.width), (224, 224), (128, 96)]:
                for layout in ("chw", "hwc"):
                    shape = shape_of(size, layout)
                    out = aligned_empty(shape, np.uint8)
                    converter.write(image, out, layout, None)
                    np.testing.assert_array_equal(
                        out, by_pyav(monkeypatch, image, shape, layout), f"{number} {size} {layout}"
                    )
    assert converter._scalers
    assert all(convert._agrees.values())


@pytest.mark.parametrize(
    "tags",
    [
        "chromaloc=0",
        "chromaloc=2",
        "chromaloc=5",
        "colorprim=bt709:transfer=bt709:colormatrix=bt709",
        "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:chromaloc=2",
        "colorprim=smpte170m:transfer=smpte170m:colormatrix=smpte170m:fullrange=on",
    ],
)
def test_images_of_every_colour_and_chroma_location_are_those_of_pyav(monkeypatch, tmp_path, tags):
    path = write_video(tmp_path / "v.mp4", range(6), options={"x264-params": tags}, size=(96, 128))
    compare_decoded(monkeypatch, path, 6)


@pytest.mark.parametrize("codec", ["libsvtav1", "libx265", "libvpx-vp9"])
def test_images_of_every_codec_are_those_of_pyav(monkeypatch, tmp_path, codec):
    path = write_video(tmp_path / "v.mp4", range(6), codec, size=(96, 128))
    compare_decoded(monkeypatch, path, 6)


@needs_shared
@pytest.mark.parametrize("name", ["unitree_g1_v21", "lerobot_v30_video"])
def test_images_of_real_footage_are_those_of_pyav(monkeypatch, name):
    for path in sorted((SHARED / name).rglob("*.mp4")):
        compare_decoded(monkeypatch, path, 8)


def test_what_vector_instructions_could_overrun_is_left_to_pyav():
    image, scaler = noise(), DirectScaler(0x20)
    good, _, _ = fenced((3, 96, 128))
    assert scaler.write(image, good, planar=True)
    narrow, _, _ = fenced((3, 96, 120))
    shifted, _, _ = fenced((3, 96, 128), start=65)
    inside = fenced((3, 96, 160))[0][:, :, :128]
    for out in (narrow, shifted, inside):
        assert not scaler.write(image, out, planar=True)


def test_a_conversion_that_differs_from_pyav_s_is_not_used(monkeypatch):
    def wrong(self, image, out, *, planar):
        out[...] = 7
        return True

    expected = by_pyav(monkeypatch, noise(), (3, 96, 128), "chw")
    monkeypatch.setattr(DirectScaler, "write", wrong)
    monkeypatch.setattr(convert, "_agrees", {})
    out, _, _ = fenced((3, 96, 128))
    Converter().write(noise(), out, "chw", None)
    np.testing.assert_array_equal(out, expected)


def test_an_image_that_swscale_refuses_is_left_to_pyav(monkeypatch):
    expected = by_pyav(monkeypatch, noise(), (3, 48, 64), "chw")
    converter, out = Converter(), aligned_empty((3, 48, 64), np.uint8)
    converter.write(noise(), out, "chw", None)
    monkeypatch.setattr(converter._scalers[0x20]._library, "scale", lambda *_: -95)
    converter.write(noise(), out, "chw", None)
    np.testing.assert_array_equal(out, expected)
