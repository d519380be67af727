"""Images as a video file, written one by one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from roboreel.errors import EncodingError
from roboreel.video.depth import quantise_depth
from roboreel.video.encoding import ENCODERS, Encoding, frame_rate

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction
    from types import TracebackType

    from numpy.typing import NDArray

__all__ = ["Encoding", "VideoWriter", "check_encoding", "encode_video"]

# SVT-AV1 prints a page for every file, past FFmpeg's log; it listens to this variable alone.
# 1 lets only errors through. Whoever has set it keeps their choice.
os.environ.setdefault("SVT_LOG", "1")

# A fragment per keyframe, given to the system at once, after a table of contents without contents.
_FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "flush_packets": "1"}


class VideoWriter:
    """A video file that grows by one image at a time.

    The file is whole only after `close`: write to a temporary name and move it into place, if
    others might look. Leaving a ``with`` block by an error removes the file. To be used by one
    thread at a time; the encoder has threads of its own.

    Args:
        path: Where to write; an MP4 file, whatever its name. Its folder must exist.
        size: ``(height, width)`` of every image.
        fps: Images per second.
        encoding: How images become video.
        fragmented: Whether what is written so far can be read at any moment, even after a kill, up
            to the last keyframe; such a file is to be copied with `join_videos` before use.

    Raises:
        EncodingError: The encoder is missing, or does not take this size, rate or option.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size: tuple[int, int],
        fps: float | Fraction,
        encoding: Encoding | None = None,
        fragmented: bool = False,
    ) -> None:
        self.path = Path(path)
        self.size = size
        self.fps = frame_rate(fps)
        self.encoding = encoding or Encoding()
        self._images = 0
        self._packets = 0
        _check_encoder(self.encoding.encoder)
        _check_size(size, self.encoding)
        options = _FRAGMENTED if fragmented else {}
        self._container = av.open(str(self.path), "w", format="mp4", options=options)
        try:
            self._stream = self._open_stream()
        except BaseException:
            self.abort()
            raise

    @property
    def images(self) -> int:
        """How many images were written."""
        return self._images

    def info(self) -> dict[str, Any]:
        """Return what LeRobot's metadata says of this video."""
        return self.encoding.info(self.size, self.fps)

    def write(self, image: NDArray[Any]) -> None:
        """Encode the next image; the array may be reused afterwards.

        Args:
            image: Colour: ``uint8 (height, width, 3)``. Depth: ``(height, width)`` or
                ``(height, width, 1)``, floating point in metres or ``uint16`` in millimetres.

        Raises:
            EncodingError: The image has another shape or dtype; the video is as it was before.
        """
        if self._container is None:
            raise EncodingError(f"No image can follow: the video is closed, {str(self.path)!r}.")
        frame = self._depth_frame(image) if self.encoding.depth else self._colour_frame(image)
        frame.pts = self._images
        frame.time_base = 1 / self.fps
        self._images += 1
        self._mux(frame)

    def close(self) -> None:
        """Finish the file; nothing happens if that is done already.

        Raises:
            EncodingError: No image was written, or the encoder gave back another number of
                packets than it was given images. The file is then removed.
        """
        if self._container is None:
            return
        try:
            if self._images == 0:
                raise EncodingError(f"A video needs an image at least: {str(self.path)!r}.")
            self._mux(None)
            self._container.close()
            if self._packets != self._images:
                raise EncodingError(
                    f"{self._images} images went into the encoder {self.encoding.encoder}, "
                    f"{self._packets} packets came out: the video {str(self.path)!r} was removed."
                )
        except BaseException:
            self.abort()
            raise
        self._container = None

    def abort(self) -> None:
        """Remove the file, finished or not."""
        container, self._container = self._container, None
        if container is not None:
            # FFmpeg minds a file that ends without its first packet; it goes away anyhow.
            with suppress(av.error.FFmpegError):
                container.close()
        with suppress(FileNotFoundError):
            self.path.unlink()

    def __enter__(self) -> VideoWriter:  # noqa: PYI034  # typing.Self is younger than 3.10
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error_type is None:
            self.close()
        else:
            self.abort()

    def _open_stream(self) -> Any:  # noqa: ANN401  # PyAV is untyped to us
        encoding, (height, width) = self.encoding, self.size
        stream = self._container.add_stream(
            encoding.encoder, rate=self.fps, options=encoding.encoder_options()
        )
        stream.height, stream.width, stream.pix_fmt = height, width, encoding.pix_fmt
        stream.codec_context.thread_count = encoding.threads
        if encoding.codec == "hevc":
            # Players of Apple know only this of the two names for HEVC.
            stream.codec_context.codec_tag = "hvc1"
        try:
            stream.codec_context.open()
        except av.error.FFmpegError as error:
            raise EncodingError(
                f"The encoder {encoding.encoder} does not take {height}x{width} images at "
                f"{float(self.fps):g} per second with {encoding.encoder_options()}: "
                f"{error.strerror}. Change one of them for {str(self.path)!r}."
            ) from error
        return stream

    def _colour_frame(self, image: NDArray[Any]) -> Any:  # noqa: ANN401  # PyAV is untyped to us
        if image.shape != (*self.size, 3) or image.dtype != np.uint8:
            raise self._wrong_image(image, f"uint8 {(*self.size, 3)}")
        return av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")

    def _depth_frame(self, image: NDArray[Any]) -> Any:  # noqa: ANN401  # PyAV is untyped to us
        flat = image[..., 0] if image.shape == (*self.size, 1) else image
        metric = image.dtype.kind == "f" or image.dtype == np.uint16
        if flat.shape != self.size or not metric or self.encoding.depth is None:
            raise self._wrong_image(image, f"float32 or uint16 {self.size}")
        frame = av.VideoFrame(self.size[1], self.size[0], self.encoding.pix_fmt)
        plane = frame.planes[0]
        # Lines are padded in memory, and little-endian on every machine.
        lines = np.frombuffer(plane, dtype="<u2").reshape(self.size[0], plane.line_size // 2)
        lines[:, : self.size[1]] = quantise_depth(flat, self.encoding.depth)
        return frame

    def _wrong_image(self, image: NDArray[Any], wanted: str) -> EncodingError:
        return EncodingError(
            f"Image {self._images} is {image.dtype} {image.shape}, but the video holds "
            f"{wanted}: {str(self.path)!r}."
        )

    def _mux(self, frame: Any) -> None:  # noqa: ANN401  # PyAV is untyped to us
        for packet in self._stream.encode(frame):
            self._container.mux(packet)
            self._packets += 1


def encode_video(
    path: str | os.PathLike[str],
    images: Iterable[NDArray[Any]],
    *,
    fps: float | Fraction,
    encoding: Encoding | None = None,
) -> int:
    """Write images to a video file, and return how many there were.

    Args:
        path: Where to write; removed again if anything fails.
        images: All of one size, at least one; see `VideoWriter.write`.
        fps: Images per second.
        encoding: How images become video.
    """
    rest = iter(images)
    first = next(rest, None)
    if first is None:
        raise EncodingError(f"A video needs an image at least: {str(path)!r}.")
    size = (first.shape[0], first.shape[1])
    with VideoWriter(path, size=size, fps=fps, encoding=encoding) as writer:
        writer.write(first)
        for image in rest:
            writer.write(image)
    return writer.images


def check_encoding(encoding: Encoding, *, size: tuple[int, int], fps: float | Fraction) -> None:
    """Raise if images of a size and rate cannot be encoded so.

    Raises:
        EncodingError: The encoder is missing, or does not take this size, rate or option.
    """
    with tempfile.TemporaryDirectory() as folder:
        VideoWriter(Path(folder, "trial.mp4"), size=size, fps=fps, encoding=encoding).abort()


def _check_encoder(name: str) -> None:
    if not _has_encoder(name):
        known = [encoder for encoder in ENCODERS if _has_encoder(encoder)]
        raise EncodingError(
            f"This build of PyAV has no encoder {name}; it has {', '.join(known) or 'none we use'}."
            " Choose another codec, or install PyAV from its wheels: pip install av"
        )


def _has_encoder(name: str) -> bool:
    try:
        av.codec.Codec(name, "w")
    except ValueError:
        return False
    return True


def _check_size(size: tuple[int, int], encoding: Encoding) -> None:
    if min(size) < 1:
        raise EncodingError(f"Images of {size[0]}x{size[1]} pixels cannot be encoded.")
    # AV1 pads odd sizes by itself; H.264 and HEVC would have to crop.
    halved = av.VideoFormat(encoding.pix_fmt).chroma_width(2) == 1
    if encoding.codec != "av1" and halved and (size[0] % 2 or size[1] % 2):
        raise EncodingError(
            f"{encoding.codec} in {encoding.pix_fmt} needs an even height and width, not "
            f"{size[0]}x{size[1]}: crop or pad the images by a pixel, or use "
            "Encoding('av1') or pix_fmt='yuv444p'."
        )
