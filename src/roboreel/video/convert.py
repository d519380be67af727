"""Decoded images → arrays: colour, size, and depth in metres."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from roboreel.io.batch_buffers import aligned_empty
from roboreel.video.depth import metres_of_codes
from roboreel.video.direct import DirectScaler, is_available

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.image import Layout
    from roboreel.schema import Depth

# FFmpeg stores the planes of an RGB image in the order G, B, R; these are their places in RGB.
_GBR = (1, 2, 0)
# PyAV 17 and later follow the colour space that an image declares, and use several threads by
# default. Before, each call had to name the colour space, in swscale's own numbers.
_FOLLOWS_COLOURS = int(av.__version__.split(".")[0]) >= 17
_SWSCALE_MATRICES = {1: 1, 4: 4, 7: 7, 9: 9, 10: 9}
_BT601, _LIMITED = 5, 1
# swscale's numbers of the interpolations: PyAV's default, and averaging areas.
_BILINEAR, _AREA = 0x02, 0x20
# Whether images of a kind, in this process, get PyAV's pixels without PyAV.
_agrees: dict[tuple[object, ...], bool] = {}


class Converter:
    """Writes decoded images into arrays. For one thread at a time.

    At the video's own size, pixels are those of FFmpeg's default conversion to packed RGB, which is
    what LeRobot and torchcodec return. Images are shrunk by averaging areas and enlarged by linear
    interpolation. Depth takes the nearest pixel instead, since the mean of two distances is a place
    where there is nothing.
    """

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()
        self._scalers: dict[int, DirectScaler] = {}

    def write(
        self, image: av.VideoFrame, out: NDArray[Any], layout: Layout, depth: Depth | None
    ) -> None:
        """Write an image into an array.

        Args:
            image: A decoded image.
            out: ``(3, H, W)`` or ``(H, W, 3)`` uint8; for depth ``(1, H, W)`` or ``(H, W, 1)``
                float32, in metres.
            layout: Which of the two.
            depth: How a depth camera's codes become metres.
        """
        planes = out if layout == "chw" else out.transpose(2, 0, 1)
        if depth is not None:
            codes = self._depth_codes(image, *planes.shape[1:])
            np.take(metres_of_codes(depth), codes, out=planes[0], mode="clip")
            return
        height, width = planes.shape[1:]
        stored, form = (image.height, image.width), image.format.name
        resized = (height, width) != stored
        planar = resized or (layout == "chw" and _is_planar_exact(form, height, width))
        if planar == (layout == "chw") and is_available():
            kind = (stored, form, height, width, planar)
            if kind not in _agrees:
                _agrees[kind] = self._compare(image, out.shape, resized, planar)
            if _agrees[kind] and self._write_directly(image, out, resized, planar):
                return
        self._write_copied(image, planes, resized=resized, planar=planar)

    def _write_directly(
        self, image: av.VideoFrame, out: NDArray[Any], resized: bool, planar: bool
    ) -> bool:
        flags = _AREA if resized else _BILINEAR
        if flags not in self._scalers:
            self._scalers[flags] = DirectScaler(flags)
        return self._scalers[flags].write(image, out, planar=planar)

    def _compare(
        self, image: av.VideoFrame, shape: tuple[int, ...], resized: bool, planar: bool
    ) -> bool:
        """Return whether an image, the first of its kind, gets the same pixels both ways."""
        got, expected = aligned_empty(shape, np.uint8), np.empty(shape, np.uint8)
        planes = expected if planar else expected.transpose(2, 0, 1)
        self._write_copied(image, planes, resized=resized, planar=planar)
        written = self._write_directly(image, got, resized, planar)
        return written and np.array_equal(got, expected)

    def _write_copied(
        self, image: av.VideoFrame, planes: NDArray[Any], *, resized: bool, planar: bool
    ) -> None:
        """Have PyAV convert an image, and copy its pixels."""
        height, width = planes.shape[1:]
        if planar:
            converted = self._convert(image, "gbrp", height, width, "AREA" if resized else None)
            for plane, colour in zip(converted.planes, _GBR, strict=True):
                planes[colour] = _pixels(plane, np.uint8, height, width)
        else:
            packed = self._convert(image, "rgb24", height, width).planes[0]
            pixels = _pixels(packed, np.uint8, height, width * 3).reshape(height, width, 3)
            planes[...] = pixels.transpose(2, 0, 1)

    def _depth_codes(self, image: av.VideoFrame, height: int, width: int) -> NDArray[np.uint16]:
        if image.format.components[0].bits != 12 or image.format.is_big_endian:
            _warn_of_coarse_depth(image.format.name)
            image = self._reformatter.reformat(image, format="gray12le")
        # The codes are in the first plane. They are data: no colour range or matrix applies.
        if (height, width) != (image.height, image.width):
            image = self._convert(image, image.format.name, height, width, "POINT")
        return _pixels(image.planes[0], np.uint16, height, width)

    def _convert(
        self,
        image: av.VideoFrame,
        form: str,
        height: int,
        width: int,
        interpolation: str | None = None,
    ) -> av.VideoFrame:
        return self._reformatter.reformat(
            image, width, height, form, interpolation=interpolation, **_settings(image)
        )


def _settings(image: av.VideoFrame) -> dict[str, int]:
    if _FOLLOWS_COLOURS:
        return {"threads": 1}
    return {
        "src_colorspace": _SWSCALE_MATRICES.get(int(image.colorspace), _BT601),
        "dst_colorspace": _BT601,
        "src_color_range": int(image.color_range) or _LIMITED,
        "dst_color_range": _LIMITED,
    }


@lru_cache(maxsize=16)  # so that it is said once
def _warn_of_coarse_depth(form: str) -> None:
    warnings.warn(
        f"Depth takes video with 12 bits per pixel, and this one is {form!r}: its distances are "
        "what LeRobot reads from it, and coarse at best. `roboreel check` names such cameras.",
        RuntimeWarning,
        stacklevel=2,
    )


def _pixels(plane: Any, dtype: type, height: int, width: int) -> NDArray[Any]:  # noqa: ANN401
    """Return a plane's pixels without the padding at the end of each line."""
    stride = plane.line_size // np.dtype(dtype).itemsize
    return np.frombuffer(plane, dtype=dtype).reshape(-1, stride)[:height, :width]


def _is_planar_exact(form: str, height: int, width: int) -> bool:
    """Return whether planar output, which is twice as fast, has the same pixels as packed output.

    FFmpeg's fast path leaves the last columns unwritten if the width is not a multiple of 16. Other
    sizes and formats take another path, with slightly different chroma.
    """
    return form == "yuv420p" and width % 16 == 0 and height % 2 == 0 and _planar_equals_packed()


@lru_cache(maxsize=1)
def _planar_equals_packed() -> bool:
    """Return whether this build of FFmpeg has the fast path, by trying it."""
    colours = np.random.default_rng(0).integers(0, 256, (72, 64), dtype=np.uint8)
    image = av.VideoFrame.from_ndarray(colours, format="yuv420p")
    planar = VideoReformatter().reformat(image, 64, 48, "gbrp", **_settings(image))
    packed = VideoReformatter().reformat(image, 64, 48, "rgb24", **_settings(image)).planes[0]
    expected = _pixels(packed, np.uint8, 48, 64 * 3).reshape(48, 64, 3)
    return all(
        np.array_equal(_pixels(plane, np.uint8, 48, 64), expected[..., colour])
        for plane, colour in zip(planar.planes, _GBR, strict=True)
    )
