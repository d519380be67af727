"""Runs of packets → images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np

from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.video.clip import Run
from roboreel.video.convert import Converter
from roboreel.video.nal import disposable_test, refreshes_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.video.packet_table import Coding, PacketTable
    from roboreel.video.packets import PacketReader

__all__ = ["Decoder", "decoder_bytes"]

# FFmpeg's own AV1 decoder needs hardware support.
_DECODERS = {"av1": "libdav1d"}
# The most that a decoder of any codec was seen to hold: fixed tables, and reference images.
_BASE_BYTES = 1_000_000
_HELD_IMAGES = 10
# How many keyframes to try before giving up on an image.
_LOOK_BACK = 4


class Decoder:
    """Decodes files of one coding, one run after another. For one thread at a time."""

    def __init__(self, coding: Coding) -> None:
        self.coding = coding
        self.converter = Converter()
        self._contexts: dict[bool, av.VideoCodecContext] = {}
        self._is_disposable = disposable_test(coding)
        self._image_bytes = 0

    @property
    def nbytes(self) -> int:
        """Estimate of the memory that the decoder holds."""
        return len(self._contexts) * (_BASE_BYTES + _HELD_IMAGES * self._image_bytes)

    def decode(
        self, reader: PacketReader, table: PacketTable, run: Run
    ) -> Iterator[tuple[int, av.VideoFrame]]:
        """Yield the number of each wanted packet of a run with its image, mostly in order of time.

        With gradual refresh, decoders hold back the images after a keyframe until the whole picture
        is right. Those are decoded again from an earlier keyframe, and come last.

        Raises:
            CorruptFileError: The decoder reports damage, or returns no image for a packet.
        """
        missing = set(run.wanted)
        for _ in range(_LOOK_BACK):
            for image in self._images(reader, table, run):
                number = image.pts
                if number in missing:
                    missing.remove(number)
                    self._image_bytes = self._image_bytes or _image_bytes(image)
                    yield number, image
                    if not missing:
                        return
            if run.start == 0:
                break
            start = int(np.flatnonzero(table.keyframe[: run.start])[-1])
            run = Run(start, max(missing) + 1, tuple(sorted(missing)))
        raise CorruptFileError(f"Packet {min(missing)} of the video decodes to no image.")

    def _images(
        self, reader: PacketReader, table: PacketTable, run: Run
    ) -> Iterator[av.VideoFrame]:
        """Yield all images of a run. The pts of each is the number of its packet."""
        wanted = frozenset(run.wanted)
        context = None
        for number, data in reader.read(run.start, run.stop):
            if context is None:
                context = self._fresh_context(strict=refreshes_all(data, self.coding))
            elif self._is_disposable and number not in wanted and self._is_disposable(data):
                continue
            if len(data):  # An empty packet would end the stream.
                packet = av.Packet(len(data))  # A copy, with the padding that decoders read into.
                packet.update(data)
                packet.pts = number
                yield from _feed(context, packet, number, table, run)
        if context is not None:
            yield from _feed(context, None, run.stop - 1, table, run)

    def _fresh_context(self, *, strict: bool) -> av.VideoCodecContext:
        """Return a context that has seen no packet yet."""
        context = self._contexts.get(strict)
        if context is None:
            context = self._contexts[strict] = _open_context(self.coding, strict=strict)
        else:
            context.flush_buffers()
        return context


def decoder_bytes(coding: Coding) -> int:
    """Return the memory that a decoder is expected to take before it has decoded anything."""
    height, width = coding.image_size
    return _BASE_BYTES + _HELD_IMAGES * height * width * 3 // 2


def _feed(
    context: av.VideoCodecContext,
    packet: av.Packet | None,
    number: int,
    table: PacketTable,
    run: Run,
) -> list[av.VideoFrame]:
    """Return the images that come out after a packet, or after the end of the run if None."""
    try:
        images: list[av.VideoFrame] = context.decode(packet)
    except av.FFmpegError as error:
        # Images shown before the keyframe depend on packets that were not decoded.
        if table.pts[number] >= table.pts[run.start]:
            raise CorruptFileError(f"Packet {number} is damaged: {error}.") from error
        return []
    for image in images:
        # Later images depend on a damaged one, so it spoils the run even if it is not wanted.
        # An image without a pts belongs to no packet: the decoder made it up.
        is_damaged = image.is_corrupt and image.pts is not None
        if is_damaged and table.pts[image.pts] >= table.pts[run.start]:
            raise CorruptFileError(f"Packet {image.pts} is damaged and was only partly decoded.")
    return images


def _open_context(coding: Coding, *, strict: bool) -> av.VideoCodecContext:
    try:
        context = av.CodecContext.create(_DECODERS.get(coding.codec, coding.codec), "r")
    except ValueError as error:
        raise UnsupportedVideoError(f"FFmpeg has no decoder for {coding.codec!r}.") from error
    # One thread each: a batch is decoded in parallel anyway, and a fork loses no decoder thread.
    context.thread_count = 1
    if coding.extradata:
        context.extradata = coding.extradata
    if coding.colour is not None:
        context.color_primaries = coding.colour.primaries
        context.color_trc = coding.colour.transfer
        context.colorspace = coding.colour.matrix
        context.color_range = 2 if coding.colour.full_range else 1
    # Report damage rather than conceal it.
    options = {"err_detect": "explode"} if strict else {}
    # H.264 may not say how far images are reordered; the decoder's guess loses some at the start.
    if hasattr(context, "reorder_depth"):
        context.reorder_depth = coding.reorder
    else:  # Before PyAV 16. The decoder then always waits for the maximum.
        options["strict"] = "1"
    context.options = options
    return context


def _image_bytes(image: av.VideoFrame) -> int:
    return sum(plane.buffer_size for plane in image.planes)
