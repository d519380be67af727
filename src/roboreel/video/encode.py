"""Images → a video file, one by one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from roboreel.errors import EncodingError
from roboreel.video.codecs import FACTS
from roboreel.video.depth import quantise_depth
from roboreel.video.encoding import ENCODERS, Encoding, frame_rate
from roboreel.video.instructions import repeatable
from roboreel.video.priorities import kept_priorities
from roboreel.video.salvage import count_images

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from numpy.typing import NDArray

__all__ = ["Encoding", "VideoWriter", "check_encoding", "check_size", "encode_video"]

# SVT-AV1 prints a page for every file, bypassing FFmpeg's log, and only this variable stops it.
# 1 means errors only. A value that the user has set stays.
os.environ.setdefault("SVT_LOG", "1")

# SVT-AV1 3.0 in PyAV 15 ends the process on narrower images, and 3.1 in PyAV 16 never returns.
_NARROWEST_AV1 = 32 if int(av.__version__.split(".")[0]) < 17 else 1
# x265 counts decoding times from the time of its second or third image: without one, from whatever
# is in memory.
_SHORTEST_REORDERED = 3
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "flush_packets": "1"}
"""An empty moov box, then a fragment per keyframe, each flushed at once."""


class VideoWriter:
    """A video file that is written one image at a time.

    The file is complete only after `close`: if others may read it, write to a temporary name and
    move it into place. An error in a ``with`` block removes the file. For one thread at a time;
    the encoder has its own threads.

    Args:
        path: Where to write. Always an MP4 file, whatever its name. Its folder must exist.
        size: ``(height, width)`` of every image.
        fps: Images per second.
        encoding: How to encode. Default: ``Encoding()``.
        fragmented: Whether the file can be read at any time up to its last keyframe, even after the
            process was killed. Copy such a file with `join_videos` before use.

    Raises:
        EncodingError: The encoder is missing, or rejects this size, rate or option.
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
        self.images = 0
        """How many images have been written."""
        self._packets = 0
        self._fragmented = fragmented
        _check_encoder(self.encoding.encoder)
        check_size(size, self.encoding)
        options = FRAGMENTED if fragmented else {}
        self._container = av.open(str(self.path), "w", format="mp4", options=options)
        try:
            self._stream = self._open_stream()
        except BaseException:
            self.abort()
            raise

    def write(self, image: NDArray[Any]) -> None:
        """Encode the next image. The array can be reused afterwards.

        Args:
            image: Colour: ``uint8 (height, width, 3)``. Depth: ``(height, width)`` or
                ``(height, width, 1)``, floating point in metres or ``uint16`` in millimetres.

        Raises:
            EncodingError: The image has another shape or dtype. The video is unchanged.
        """
        if self._container is None:
            raise EncodingError(f"Cannot write to a closed video: {str(self.path)!r}.")
        frame = self._depth_frame(image) if self.encoding.depth else self._colour_frame(image)
        frame.pts = self.images
        frame.time_base = 1 / self.fps
        self.images += 1
        self._mux(frame)

    def close(self) -> None:
        """Finish the file. Does nothing if it is closed already.

        Raises:
            EncodingError: No image was written, the encoder did not return one packet per image, or
                not all of them are in the file. The file is removed, unless it is fragmented.
        """
        if self._container is None:
            return
        try:
            if self.images == 0:
                raise EncodingError(f"A video needs at least one image: {str(self.path)!r}.")
            self._mux(None)
            self._container.close()
            self._check_complete()
        except BaseException:
            if self._fragmented:
                self._drop_container()  # What is in the file can be read.
            else:
                self.abort()
            raise
        self._container = None

    def abort(self) -> None:
        """Remove the file, finished or not."""
        self._drop_container()
        with suppress(FileNotFoundError):
            self.path.unlink()

    def _drop_container(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            # FFmpeg complains about a file without packets, or on a disk that is full.
            with suppress(av.error.FFmpegError):
                container.close()

    def _check_complete(self) -> None:
        if self._packets != self.images:
            raise EncodingError(
                f"The encoder {self.encoding.encoder} returned {self._packets} packets for "
                f"{self.images} images: {str(self.path)!r}."
            )
        # FFmpeg does not tell when the last fragment cannot be written.
        if self._fragmented and (stored := count_images(self.path)) != self.images:
            raise EncodingError(
                f"{self.images} images were encoded, but {stored} are in the file: the disk is full, "
                f"or fails: {str(self.path)!r}."
            )

    def __enter__(self) -> VideoWriter:  # noqa: PYI034  # typing.Self is younger than 3.10
        return self

    def __exit__(self, error_type: object, *error: object) -> None:
        if error_type is None:
            self.close()
        else:
            self.abort()

    def _open_stream(self) -> Any:  # noqa: ANN401  # PyAV is untyped to us
        encoding, (height, width) = self.encoding, self.size
        options = repeatable(encoding.encoder, encoding.encoder_options())
        stream = self._container.add_stream(encoding.encoder, rate=self.fps, options=options)
        stream.height, stream.width, stream.pix_fmt = height, width, encoding.pix_fmt
        stream.codec_context.thread_count = encoding.threads
        if tag := FACTS[encoding.codec].tag:
            stream.codec_context.codec_tag = tag
        try:
            with kept_priorities():
                stream.codec_context.open()
        except av.error.FFmpegError as error:
            raise EncodingError(
                f"The encoder {encoding.encoder} rejects {height}x{width} images at "
                f"{float(self.fps):g} per second with {encoding.encoder_options()}: "
                f"{error.strerror}. Change one of these for {str(self.path)!r}."
            ) from error
        # FFmpeg hands back the options that it did not take.
        ignored = [name for name in encoding.options if name in stream.codec_context.options]
        if ignored:
            raise EncodingError(
                f"The encoder {encoding.encoder} has no option {ignored[0]!r}. Correct or remove it "
                f"for {str(self.path)!r}."
            )
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
        # Lines are padded, and little-endian on every machine.
        lines = np.frombuffer(plane, dtype="<u2").reshape(self.size[0], plane.line_size // 2)
        lines[:, : self.size[1]] = quantise_depth(flat, self.encoding.depth)
        return frame

    def _wrong_image(self, image: NDArray[Any], wanted: str) -> EncodingError:
        return EncodingError(
            f"Image {self.images} is {image.dtype} {image.shape}, but the video holds "
            f"{wanted}: {str(self.path)!r}."
        )

    def _mux(self, frame: Any) -> None:  # noqa: ANN401  # PyAV is untyped to us
        for packet in self._stream.encode(frame):
            if self.encoding.codec == "av1":
                # Each packet of AV1 shows one image, in order. SVT-AV1 rarely gives the time of a
                # later image, since it reads the time from a buffer that is already in use again.
                packet.pts = packet.dts = self._packets
                packet.time_base = 1 / self.fps
            elif frame is None and self.images < _SHORTEST_REORDERED:
                packet.dts = packet.pts  # One or two images are never reordered.
            try:
                self._container.mux(packet)
            except av.error.FFmpegError:
                self._drop_container()  # On a full disk, FFmpeg crashes if it is used again.
                raise
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
        path: Where to write. Removed if anything fails.
        images: At least one, all of one size: see `VideoWriter.write`.
        fps: Images per second.
        encoding: How to encode. Default: ``Encoding()``.
    """
    rest = iter(images)
    first = next(rest, None)
    if first is None:
        raise EncodingError(f"A video needs at least one image: {str(path)!r}.")
    size = (first.shape[0], first.shape[1])
    with VideoWriter(path, size=size, fps=fps, encoding=encoding) as writer:
        writer.write(first)
        for image in rest:
            writer.write(image)
    return writer.images


def check_encoding(encoding: Encoding, *, size: tuple[int, int], fps: float | Fraction) -> None:
    """Raise an error if images of a size and rate cannot be encoded this way.

    Raises:
        EncodingError: The encoder is missing, or rejects this size, rate or option.
    """
    with tempfile.TemporaryDirectory() as folder:
        VideoWriter(Path(folder, "trial.mp4"), size=size, fps=fps, encoding=encoding).abort()


def _check_encoder(name: str) -> None:
    if not _has_encoder(name):
        known = [encoder for encoder in ENCODERS if _has_encoder(encoder)]
        raise EncodingError(
            f"This build of PyAV has no encoder {name}; of those used here it has "
            f"{', '.join(known) or 'none'}. Choose another codec, or install PyAV from its wheels: "
            "pip install av"
        )


def _has_encoder(name: str) -> bool:
    try:
        av.codec.Codec(name, "w")
    except ValueError:
        return False
    return True


def _pixel_format(name: str) -> Any:  # noqa: ANN401  # PyAV is untyped to us
    try:
        return av.VideoFormat(name)
    except (TypeError, ValueError) as error:
        raise EncodingError(
            f"No pixel format {name!r}: FFmpeg has names such as 'yuv420p'."
        ) from error


def check_size(size: tuple[int, int], encoding: Encoding) -> None:
    """Raise if images of a height and width cannot be encoded so.

    Raises:
        EncodingError: They cannot.
    """
    if min(size) < 1:
        raise EncodingError(f"Images of {size[0]}x{size[1]} pixels cannot be encoded.")
    if encoding.codec == "av1" and size[1] < _NARROWEST_AV1:
        raise EncodingError(
            f"AV1 images have to be {_NARROWEST_AV1} pixels wide with PyAV {av.__version__}, and "
            f"these are {size[0]}x{size[1]}. Use Encoding('h264'), or PyAV 17 or newer."
        )
    # AV1 pads odd sizes; H.264 and HEVC would have to crop.
    halved = _pixel_format(encoding.pix_fmt).chroma_width(2) == 1
    if encoding.codec != "av1" and halved and (size[0] % 2 or size[1] % 2):
        raise EncodingError(
            f"{encoding.codec} in {encoding.pix_fmt} needs an even height and width, not "
            f"{size[0]}x{size[1]}. Crop or pad the images by a pixel, or use Encoding('av1') or "
            "pix_fmt='yuv444p'."
        )
