"""Packets of a bare stream → a video file, with every image decoded on the way as a proof."""

from __future__ import annotations

import io
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av

from roboreel.errors import CorruptFileError, EncodingError
from roboreel.video.bitstream import TEMPORAL_DELIMITER
from roboreel.video.codecs import FACTS, decoder_name
from roboreel.video.encode import FRAGMENTED
from roboreel.video.encoding import frame_rate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.video.codecs import Codec


class ShownImage:
    """An image that a decoder gave out, turned into pixels only when asked for."""

    __slots__ = ("_frame",)

    def __init__(self, frame: av.VideoFrame) -> None:
        self._frame = frame

    @property
    def size(self) -> tuple[int, int]:
        """``(height, width)``."""
        return self._frame.height, self._frame.width

    def decode(self) -> NDArray[Any]:
        """Return the pixels, ``uint8 (H, W, 3)``."""
        pixels: NDArray[Any] = self._frame.to_ndarray(format="rgb24")
        return pixels


class PacketWriter:
    """A fragmented MP4 file of packets that are shown in their order, one image each.

    Args:
        path: Where to write.
        codec: What the packets are.
        size: ``(height, width)`` of every image.
        fps: Images per second.
    """

    def __init__(self, path: Path, *, codec: Codec, size: tuple[int, int], fps: float) -> None:
        self.path = path
        self.images = 0
        """How many images came out of the decoder."""
        self._codec, self._size, self._fps = codec, size, frame_rate(fps)
        self._packets = 0
        self._decoder = av.CodecContext.create(decoder_name(codec), "r")
        self._target: Any = None
        self._stream: Any = None

    def write(self, data: bytes, *, keyframe: bool) -> Iterator[ShownImage]:
        """Store a packet, and yield the images that are known by now.

        Raises:
            EncodingError: The first packet is not a keyframe, or an image has another size.
            CorruptFileError: A packet cannot be decoded.
        """
        if self._target is None:
            if not keyframe:
                raise EncodingError("The first packet of an episode is not a keyframe.")
            self._open(data)
        packet = av.Packet(data)
        packet.stream, packet.time_base = self._stream, 1 / self._fps
        packet.pts = packet.dts = self._packets
        packet.duration, packet.is_keyframe = 1, keyframe
        self._target.mux(packet)
        self._packets += 1
        return self._decode(av.Packet(data))

    def finish(self) -> Iterator[ShownImage]:
        """Close the file, and yield the last images.

        Raises:
            CorruptFileError: There are not as many images as packets.
        """
        if self._target is None:
            return
        yield from self._decode(None)
        self.close()
        if self.images != self._packets:
            raise CorruptFileError(f"{self._packets} packets show {self.images} images.")

    def close(self) -> None:
        """Close the file as it is."""
        target, self._target = self._target, None
        if target is not None:
            with suppress(av.error.FFmpegError):
                target.close()

    def _open(self, data: bytes) -> None:
        """Open the file, with the parameters that stand before the first keyframe."""
        # FFmpeg finds the sequence header of AV1 only behind a delimiter, which not all senders keep.
        if self._codec == "av1" and not data.startswith(TEMPORAL_DELIMITER):
            data = TEMPORAL_DELIMITER + data
        try:
            source = av.open(io.BytesIO(data), format=FACTS[self._codec].stream_format)
        except av.error.FFmpegError as error:
            raise CorruptFileError(f"The first packet is not {self._codec}: {error}.") from error
        with source:
            if not source.streams.video:
                raise CorruptFileError(f"The first packet has no video of {self._codec}.")
            template = source.streams.video[0]
            self._target = av.open(str(self.path), "w", format="mp4", options=FRAGMENTED)
            self._stream = self._target.add_stream_from_template(template, opaque=True)
        self._stream.time_base = Fraction(1) / self._fps
        if tag := FACTS[self._codec].tag:
            self._stream.codec_context.codec_tag = tag

    def _decode(self, packet: av.Packet | None) -> Iterator[ShownImage]:
        try:
            frames = self._decoder.decode(packet)
        except av.error.FFmpegError as error:
            raise CorruptFileError(f"Packet {self._packets} cannot be decoded: {error}.") from error
        for frame in frames:
            image = ShownImage(frame)
            if image.size != self._size:
                raise EncodingError(
                    f"A packet shows {image.size[0]}x{image.size[1]} pixels: "
                    f"{self._size[0]}x{self._size[1]} are declared."
                )
            self.images += 1
            yield image
