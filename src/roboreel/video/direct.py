"""Images converted straight into the caller's memory, by the very call that PyAV makes.

PyAV converts into an image of its own, from which the pixels are copied. Here the same function of
the same library gets the same source image, and the caller's memory as its target. PyAV does not
say where FFmpeg's image is, so this relies on how its objects begin: see `_library`.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import av
from av.video import reformatter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Where images and their lines have to begin, so that vector instructions work as in PyAV's own.
_ALIGNMENT = 64
_LINE_ALIGNMENT = 32
# PyAV's versions that convert by `sws_scale_frame`, and whose objects were seen to begin as here.
_KNOWN = range(17, 20)
# Right after Python's header and Cython's table of methods.
_ADDRESS_AT = object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)


class _Image(ctypes.Structure):
    """How FFmpeg's AVFrame begins, unchanged since FFmpeg 2."""

    _fields_ = (
        ("data", ctypes.c_void_p * 8),
        ("line_bytes", ctypes.c_int * 8),
        ("extended_data", ctypes.c_void_p),
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
        ("_samples", ctypes.c_int),
        ("form", ctypes.c_int),
    )


def is_available() -> bool:
    """Return whether images can be converted so in this process."""
    return _library() is not None


class DirectScaler:
    """Converts images into arrays of RGB with one interpolation. For one thread at a time.

    Args:
        flags: swscale's number of the interpolation.
    """

    def __init__(self, flags: int) -> None:
        library = _library()
        assert library is not None
        self._library = library
        self._context, self._target = library.open(flags)
        self._head = _Image.from_address(self._target)
        weakref.finalize(self, library.close, self._context, self._target).atexit = False

    def write(self, image: av.VideoFrame, out: NDArray[np.uint8], *, planar: bool) -> bool:
        """Write an image into an array; return False, if PyAV has to do it.

        Args:
            image: A decoded image.
            out: ``(3, H, W)`` if planar, otherwise ``(H, W, 3)``.
            planar: Which of the two.
        """
        height, width = out.shape[1:] if planar else out.shape[:2]
        line_bytes = width if planar else 3 * width
        if line_bytes % _LINE_ALIGNMENT or not out.flags.c_contiguous:
            return False
        start = ctypes.addressof(ctypes.c_char.from_buffer(out.data))
        size_bytes = height * line_bytes
        if start % _ALIGNMENT or size_bytes % _ALIGNMENT:
            return False
        library, head, source = self._library, self._head, _address_of(image)
        library.prepare(self._target, source)
        if planar:  # FFmpeg's order is green, blue, red.
            head.data[:3] = (start + size_bytes, start + 2 * size_bytes, start)
            head.line_bytes[:3] = (line_bytes, line_bytes, line_bytes)
        else:
            head.data[0], head.line_bytes[0] = start, line_bytes
        head.width, head.height = width, height
        head.form = library.planar if planar else library.packed
        return bool(library.scale(self._context, self._target, source) >= 0)


_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int
# What each function returns and takes. These take less time than to give up Python's lock.
_SHORT: dict[str, tuple[Any, ...]] = {
    "av_get_pix_fmt": (_NUMBER, ctypes.c_char_p),
    "sws_alloc_context": (_POINTER,),
    "av_frame_alloc": (_POINTER,),
    "av_opt_set_int": (_NUMBER, _POINTER, ctypes.c_char_p, ctypes.c_int64, _NUMBER),
    "av_frame_unref": (None, _POINTER),
    "av_frame_copy_props": (_NUMBER, _POINTER, _POINTER),
    "sws_freeContext": (None, _POINTER),
    "av_frame_free": (None, ctypes.POINTER(_POINTER)),
}


class _Library:
    """The functions of FFmpeg that are used."""

    def __init__(self) -> None:
        # The module's own file: what it is linked to is found through it, wherever that lies.
        path = reformatter.__file__
        self._short = ctypes.PyDLL(path)
        for name, (result, *arguments) in _SHORT.items():
            function = getattr(self._short, name)
            function.restype, function.argtypes = result, arguments
        self.scale = ctypes.CDLL(path).sws_scale_frame
        self.scale.argtypes = [_POINTER] * 3
        self.planar = self._short.av_get_pix_fmt(b"gbrp")
        self.packed = self._short.av_get_pix_fmt(b"rgb24")

    def open(self, flags: int) -> tuple[int, int]:
        """Return a context and an image without memory."""
        context, image = self._short.sws_alloc_context(), self._short.av_frame_alloc()
        if not context or not image:
            raise MemoryError("FFmpeg has no memory for a conversion.")
        self._short.av_opt_set_int(context, b"sws_flags", flags, 0)
        self._short.av_opt_set_int(context, b"threads", 1, 0)
        return context, image

    def prepare(self, target: int, source: int) -> None:
        """Give an image all properties of another one, such as its colours, but no memory."""
        self._short.av_frame_unref(target)
        self._short.av_frame_copy_props(target, source)

    def close(self, context: int, image: int) -> None:
        """Free a context and an image."""
        self._short.sws_freeContext(context)
        self._short.av_frame_unref(image)
        self._short.av_frame_free(ctypes.byref(ctypes.c_void_p(image)))


@lru_cache(maxsize=1)
def _library() -> _Library | None:
    """Return the functions; None where they, or FFmpeg's images, are not found as expected."""
    if sys.implementation.name != "cpython" or int(av.__version__.split(".")[0]) not in _KNOWN:
        return None
    image = av.VideoFrame(64, 32, "yuv420p")
    head = _Image.from_address(_address_of(image))
    planes = [(plane.buffer_ptr, plane.line_size) for plane in image.planes]
    if list(zip(head.data[:3], head.line_bytes[:3], strict=True)) != planes:
        return None
    try:
        library = _Library()
    except (OSError, AttributeError):
        return None
    return library if (head.width, head.height) == (64, 32) else None


def _address_of(image: Any) -> int:  # noqa: ANN401  # av.VideoFrame
    return ctypes.c_void_p.from_address(id(image) + _ADDRESS_AT).value or 0
