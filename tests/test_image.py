"""Pictures decoded and encoded, compared with Pillow."""

import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from roboreel.errors import CorruptFileError
from roboreel.image import (
    decode_image,
    decode_images,
    encode_jpeg,
    encode_png,
    image_size,
)
from roboreel.threads import ThreadPool
from tests.tiff import encode_tiff

Image = pytest.importorskip("PIL.Image")


def colour(height: int = 24, width: int = 37) -> NDArray[np.uint8]:
    noise = np.random.default_rng(0).integers(0, 12, (height, width, 3))
    slope = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[..., None]
    pixels: NDArray[np.uint8] = (slope + noise).astype(np.uint8)
    return pixels


DEPTH = np.arange(24 * 37, dtype=np.uint16).reshape(24, 37) * 70
METRES = np.random.default_rng(1).random((24, 37), np.float32)


def pillow(pixels: NDArray[Any], mode: str | None, file_format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(buffer, file_format, **options)
    return buffer.getvalue()


PICTURES = {
    "png": pillow(colour(), "RGB", "PNG"),
    "png grey": pillow(colour(), "L", "PNG"),
    "png palette": pillow(colour(), "P", "PNG"),
    "png alpha": pillow(colour(), "RGBA", "PNG"),
    "png grey alpha": pillow(colour(), "LA", "PNG"),
    "png one bit": pillow(colour(), "1", "PNG"),
    "png depth": pillow(DEPTH, None, "PNG"),
    "jpeg": pillow(colour(), "RGB", "JPEG", quality=90),
    "jpeg progressive": pillow(colour(), "RGB", "JPEG", progressive=True),
    "jpeg 4:4:4": pillow(colour(), "RGB", "JPEG", subsampling=0),
    "jpeg grey": pillow(colour(), "L", "JPEG"),
    "jpeg cmyk": pillow(colour(), "CMYK", "JPEG"),
    "tiff": pillow(colour(), "RGB", "TIFF"),
    "tiff lzw": pillow(colour(), "RGB", "TIFF", compression="tiff_lzw"),
    "tiff palette": pillow(colour(), "P", "TIFF"),
    "tiff one bit": pillow(colour(), "1", "TIFF"),
    "tiff depth": pillow(DEPTH, None, "TIFF"),
    "tiff integers": pillow(DEPTH.astype(np.int32), None, "TIFF"),
    "tiff metres": pillow(METRES, None, "TIFF"),
    "webp": pillow(colour(), "RGB", "WEBP"),
    "webp lossless": pillow(colour(), "RGB", "WEBP", lossless=True),
    "gif": pillow(colour(), "P", "GIF"),
    "bmp": pillow(colour(), "RGB", "BMP"),
    "bmp grey": pillow(colour(), "L", "BMP"),
    "bmp palette": pillow(colour(), "P", "BMP"),
    "bmp one bit": pillow(colour(), "1", "BMP"),
}


def as_pillow(data: bytes) -> NDArray[Any]:
    image = Image.open(io.BytesIO(data))
    target = {"1": "L", "LA": "L", "P": "RGB", "RGBA": "RGB", "CMYK": "RGB"}.get(image.mode)
    pixels = np.asarray(image.convert(target) if target else image)
    return pixels[..., None] if pixels.ndim == 2 else pixels


@pytest.mark.parametrize("name", PICTURES)
def test_pixels_are_those_that_pillow_gives(name):
    expected = as_pillow(PICTURES[name])
    pixels = decode_image(PICTURES[name])
    assert pixels.dtype == expected.dtype
    np.testing.assert_array_equal(pixels, expected)


@pytest.mark.parametrize("name", PICTURES)
def test_the_header_tells_the_shape(name):
    assert image_size(PICTURES[name]) == as_pillow(PICTURES[name]).shape
    assert image_size(memoryview(PICTURES[name])) == decode_image(memoryview(PICTURES[name])).shape


def test_a_rotation_in_exif_is_left_alone():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = pillow(colour(), "RGB", "JPEG", exif=exif)
    np.testing.assert_array_equal(decode_image(data), as_pillow(data))


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("threads", [0, 3])
def test_a_batch_holds_each_picture_at_its_place(layout, threads):
    pictures = [np.full((5, 7, 3), row, np.uint8) + colour(5, 7) for row in range(9)]
    items = [encode_png(picture) for picture in pictures]
    expected = np.stack(pictures)
    if layout == "chw":
        expected = expected.transpose(0, 3, 1, 2)
    out = np.zeros(expected.shape, np.uint8)
    if threads:
        with ThreadPool(threads) as pool:
            decode_images(items, out, layout=layout, pool=pool)
    else:
        decode_images(items, out, layout=layout)
    np.testing.assert_array_equal(out, expected)


def test_a_picture_of_another_size_is_named_by_its_place():
    items = [encode_png(colour(5, 7)), encode_png(colour(5, 8))]
    with pytest.raises(CorruptFileError, match=r"Picture 1 .*\(5, 8, 3\).*\(5, 7, 3\)"):
        decode_images(items, np.zeros((2, 3, 5, 7), np.uint8), layout="chw")


def test_a_corrupt_picture_in_a_batch_is_named_by_its_place():
    items = [encode_png(colour(5, 7)), b"nothing"]
    with ThreadPool(2) as pool, pytest.raises(CorruptFileError, match="Picture 1"):
        decode_images(items, np.zeros((2, 3, 5, 7), np.uint8), layout="chw", pool=pool)


@pytest.mark.parametrize("pixels", [colour(), colour()[..., :1], colour()[..., 0], DEPTH])
def test_png_keeps_every_pixel(pixels):
    decoded = decode_image(encode_png(pixels))
    np.testing.assert_array_equal(decoded, pixels.reshape(*pixels.shape[:2], -1))
    assert decoded.dtype == pixels.dtype


@pytest.mark.parametrize("pixels", [DEPTH, METRES, colour()])
def test_tiff_keeps_every_pixel(pixels):
    decoded = decode_image(encode_tiff(pixels))
    np.testing.assert_array_equal(decoded, pixels.reshape(*pixels.shape[:2], -1))
    np.testing.assert_array_equal(decoded, as_pillow(encode_tiff(pixels)))


def test_jpeg_comes_close_to_every_pixel():
    smooth = np.repeat(np.add.outer(np.arange(64), np.arange(64))[..., None], 3, 2).astype(np.uint8)
    decoded = decode_image(encode_jpeg(smooth, quality=95))
    assert np.abs(decoded.astype(int) - smooth).max() < 8
    assert len(encode_jpeg(smooth, quality=30)) < len(encode_jpeg(smooth, quality=95))


def test_only_pictures_can_be_encoded():
    with pytest.raises(ValueError, match="shape"):
        encode_png(np.zeros((3, 24, 37), np.uint8))


def test_a_png_that_claims_a_huge_size_is_refused_before_decoding():
    data = bytearray(PICTURES["png"])
    data[16:24] = struct.pack(">II", 100_000, 100_000)
    with pytest.raises(CorruptFileError, match="claims 100000 x 100000"):
        decode_image(bytes(data))


def test_a_jpeg_that_claims_a_huge_size_is_refused_before_decoding():
    data = bytearray(PICTURES["jpeg"])
    start = data.index(b"\xff\xc0") + 5
    data[start : start + 4] = struct.pack(">HH", 65_000, 65_000)
    with pytest.raises(CorruptFileError, match="claims 65000 x 65000"):
        decode_image(bytes(data))


def test_what_is_no_picture_says_how_it_begins():
    with pytest.raises(CorruptFileError, match="begin with 6e 6f"):
        decode_image(b"no picture")
    with pytest.raises(CorruptFileError, match="begin with nothing"):
        decode_image(b"")


# The last twelve bytes of a PNG and the padding of a one-bit TIFF hold no pixels.
@pytest.mark.parametrize("name", [name for name in PICTURES if name != "tiff one bit"])
def test_a_picture_cut_off_anywhere_says_so(name):
    data = PICTURES[name]
    for length in range(len(data) - 12 if name.startswith("png") else len(data)):
        with pytest.raises(CorruptFileError):
            decode_image(data[:length])


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(PICTURES)),
    edits=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_corrupt_bytes_give_pixels_or_a_clear_error(name, edits):
    data = bytearray(PICTURES[name])
    for place, byte in edits:
        data[int(place * len(data))] = byte
    try:
        pixels = decode_image(bytes(data))
    except CorruptFileError:
        return
    assert pixels.ndim == 3
    assert pixels.shape[2] in (1, 3)


@pytest.mark.parametrize(("header", "channels"), [(40, 3), (108, 4)])
def test_the_fourth_byte_of_a_bmp_is_opacity_if_the_header_says_so(header, channels):
    pixels = np.arange(48, dtype=np.uint8)
    masks = struct.pack("<4I", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    head = struct.pack("<IiiHHIIiiII", header, 4, 3, 1, 32, 3, 48, 0, 0, 0, 0)
    head += masks[:12] if header == 40 else masks + bytes(52)
    start = struct.pack("<IHHI", 14 + len(head) + 48, 0, 0, 14 + len(head))
    picture = decode_image(b"BM" + start + head + pixels.tobytes(), alpha=None)
    expected = pixels.reshape(3, 4, 4)[::-1, :, [2, 1, 0, 3]]
    assert np.array_equal(picture, expected[..., :channels])
