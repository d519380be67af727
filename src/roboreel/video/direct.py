"""Images converted straight into the caller's memory, by the swscale that PyAV brings along.

PyAV converts into a new image, from which the pixels are copied. That copy and its hand-overs of
Python's lock cost as much as the conversion itself: see docs/design/2026-11-many-cores.md. Here the
same library is called with the caller's addresses. Each kind of conversion is first compared with
PyAV's on noise; where the two differ, or the library is not found, it is not used.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Conversion", "DirectConverter", "agrees", "conversion_of"]

# Vector instructions write whole blocks: lines of other lengths would run into the next one.
_BLOCK = 32
_FORM = "yuv420p"
_MOST_PLANES = 4
_Pointers = ctypes.c_void_p * _MOST_PLANES
_Strides = ctypes.c_int * _MOST_PLANES
# AVColorSpace of unspecified colours; swscale's number for BT.601, which they are taken for.
_UNSPECIFIED, _BT601 = 2, 5
_FULL_RANGE = 2
_ONE = 1 << 16


@dataclass(frozen=True, slots=True)
class Conversion:
    """A kind of conversion of images in YUV 4:2:0 to RGB."""

    source: tuple[int, int]
    """Height and width."""
    target: tuple[int, int]
    is_planar: bool
    """Whether each colour has a plane of its own; otherwise they alternate."""
    flags: int
    """swscale's number of the interpolation."""
    colours: int
    """The image's AVColorSpace."""
    range: int
    """The image's AVColorRange."""


def conversion_of(
    image: av.VideoFrame, out: NDArray[Any], *, is_planar: bool, flags: int
) -> Conversion | None:
    """Return how an image can be converted straight into an array; None if it cannot.

    Args:
        image: A decoded image.
        out: ``(3, H, W)`` uint8 if planar, otherwise ``(H, W, 3)``.
        is_planar: Which of the two.
        flags: swscale's number of the interpolation.
    """
    if image.format.name != _FORM:
        return None
    height, width = out.shape[1:] if is_planar else out.shape[:2]
    if width % _BLOCK or not out.flags.c_contiguous or _address(out) % _BLOCK:
        return None
    stored, colours = (image.height, image.width), int(image.colorspace)
    asked = Conversion(stored, (height, width), is_planar, flags, colours, int(image.color_range))
    return asked if _library() is not None else None


class DirectConverter:
    """Carries out one kind of conversion. For one thread at a time."""

    def __init__(self, conversion: Conversion) -> None:
        library = _library()
        assert library is not None
        self._scale = library.scale
        self._height = conversion.source[0]
        self._is_planar = conversion.is_planar
        self._context = library.open(conversion)
        weakref.finalize(self, library.close, self._context).atexit = False

    def write(self, image: av.VideoFrame, out: NDArray[np.uint8]) -> None:
        """Write an image into an array for which `conversion_of` gave this conversion."""
        planes = image.planes
        lines = _Strides(*[plane.line_size for plane in planes])
        addresses = _Pointers(*[plane.buffer_ptr for plane in planes])
        start = _address(out)
        if self._is_planar:
            step, line = out.strides[:2]
            # FFmpeg's order of the planes is green, blue, red.
            to = _Pointers(start + step, start + 2 * step, start)
            to_lines = _Strides(line, line, line)
        else:
            to, to_lines = _Pointers(start), _Strides(out.strides[0])
        self._scale(self._context, addresses, lines, 0, self._height, to, to_lines)


def agrees(conversion: Conversion, plain: Callable[[av.VideoFrame, NDArray[Any]], None]) -> bool:
    """Whether a conversion gives the pixels of a plain one, by trying both on noise."""
    height, width = conversion.source
    noise = np.random.default_rng(0).integers(0, 256, (height * 3 // 2, width), dtype=np.uint8)
    image = av.VideoFrame.from_ndarray(noise, format=_FORM)
    image.colorspace, image.color_range = conversion.colours, conversion.range
    height, width = conversion.target
    shape = (3, height, width) if conversion.is_planar else (height, width, 3)
    expected, got = np.zeros(shape, np.uint8), _aligned(shape)
    plain(image, expected)
    DirectConverter(conversion).write(image, got)
    return np.array_equal(expected, got)


def _aligned(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    size = int(np.prod(shape))
    memory = np.zeros(size + _BLOCK, np.uint8)
    start = -_address(memory) % _BLOCK
    return memory[start : start + size].reshape(shape)


def _address(array: NDArray[Any]) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # A third of `array.ctypes`.


class _Library:
    """The functions of swscale that are used, which have been the same since FFmpeg 2."""

    def __init__(self, swscale: ctypes.CDLL, avutil: ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self._form_of = avutil.av_get_pix_fmt
        self._form_of.argtypes = [ctypes.c_char_p]
        self._open = swscale.sws_getContext
        self._open.restype = pointer
        self._open.argtypes = [number] * 7 + [pointer] * 3
        self._matrix = swscale.sws_getCoefficients
        self._matrix.restype = pointer
        self._set_colours = swscale.sws_setColorspaceDetails
        self._set_colours.argtypes = [pointer, pointer, number, pointer, *[number] * 4]
        self.scale = swscale.sws_scale
        places, lengths = ctypes.POINTER(pointer), ctypes.POINTER(number)
        self.scale.argtypes = [pointer, places, lengths, number, number, places, lengths]
        self.close = swscale.sws_freeContext
        self.close.argtypes = [pointer]
        self.close.restype = None

    def open(self, conversion: Conversion) -> int:
        """Return a context for a conversion."""
        height, width = conversion.source
        to_height, to_width = conversion.target
        form = self._form_of(_FORM.encode())
        to_form = self._form_of(b"gbrp" if conversion.is_planar else b"rgb24")
        context = self._open(
            width, height, form, to_width, to_height, to_form, conversion.flags, None, None, None
        )
        if not context:
            raise MemoryError(f"swscale has no context for {conversion}.")
        colours = _BT601 if conversion.colours == _UNSPECIFIED else conversion.colours
        matrix, is_full = self._matrix(colours), int(conversion.range == _FULL_RANGE)
        self._set_colours(context, matrix, is_full, self._matrix(_BT601), 0, 0, _ONE, _ONE)
        return int(context)


@lru_cache(maxsize=1)
def _library() -> _Library | None:
    """Return the libraries of PyAV's wheel, which it has loaded; None if it comes otherwise."""
    package = Path(av.__file__).parent
    for folder in (package.parent / "av.libs", package / ".dylibs"):
        found = [
            next(iter(sorted(folder.glob(f"*{name}*"))), None) for name in ("swscale", "avutil")
        ]
        if all(found):
            try:
                return _Library(*(ctypes.CDLL(str(path)) for path in found))
            except (OSError, AttributeError):
                return None
    return None
