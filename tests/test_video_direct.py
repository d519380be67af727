"""Converting straight into an array gives PyAV's pixels, and touches nothing else."""

import av
import numpy as np
import pytest

from roboreel.video import convert, direct
from roboreel.video.convert import Converter
from roboreel.video.direct import conversion_of

pytestmark = pytest.mark.skipif(
    direct._library() is None, reason="PyAV does not come as a wheel with its libraries"
)


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


@pytest.mark.parametrize("colours", [1, 2, 5, 6, 9])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("size", [(96, 128), (48, 64), (100, 160), (224, 224), (31, 96)])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_pixels_are_those_of_pyav_and_nothing_else_is_written(
    monkeypatch, layout, size, full, colours
):
    image = noise(colours=colours, full=full)
    shape = (3, *size) if layout == "chw" else (*size, 3)
    out, memory, (start, stop) = fenced(shape)
    Converter().write(image, out, layout, None)
    assert (memory[:start] == 0xAA).all()
    assert (memory[stop:] == 0xAA).all()
    monkeypatch.setattr(convert, "conversion_of", lambda *_, **__: None)
    expected = np.empty(shape, np.uint8)
    Converter().write(image, expected, layout, None)
    np.testing.assert_array_equal(out, expected)


def test_what_vector_instructions_could_overrun_is_converted_by_pyav():
    image, flags = noise(), 2
    good, _, _ = fenced((3, 96, 128))
    assert conversion_of(image, good, is_planar=True, flags=flags) is not None
    narrow, _, _ = fenced((3, 96, 120))
    shifted, _, _ = fenced((3, 96, 128), start=65)
    inside = fenced((3, 96, 160))[0][:, :, :128]
    for out in (narrow, shifted, inside):
        assert conversion_of(image, out, is_planar=True, flags=flags) is None
    other = image.reformat(format="yuv444p")
    assert conversion_of(other, good, is_planar=True, flags=flags) is None


def test_a_conversion_that_differs_from_pyav_s_is_not_used(monkeypatch):
    convert._is_trusted.cache_clear()
    monkeypatch.setattr(direct, "_BT601", 1)  # The wrong matrix.
    out, _, _ = fenced((3, 96, 128))
    conversion = conversion_of(noise(), out, is_planar=True, flags=2)
    assert conversion is not None
    assert not convert._is_trusted(conversion)
    Converter().write(noise(), out, "chw", None)
    monkeypatch.undo()
    convert._is_trusted.cache_clear()
    expected, _, _ = fenced((3, 96, 128))
    Converter().write(noise(), expected, "chw", None)
    np.testing.assert_array_equal(out, expected)
