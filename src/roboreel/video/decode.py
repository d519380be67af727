"""Runs of packets → images."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import av
import numpy as np

from roboreel.errors import CorruptFileError, DatasetError, UnsupportedVideoError
from roboreel.video.clip import Run
from roboreel.video.codecs import decoder_name
from roboreel.video.convert import Converter
from roboreel.video.exact_start import ExactStarts, begins_with
from roboreel.video.nal import disposable_test, refreshes_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.video.packet_table import Coding, PacketTable
    from roboreel.video.packets import PacketReader

# The most that a decoder of any codec was seen to hold: fixed tables, and reference images, of
# which there are no more than it was fed, and a few in the making.
_BASE_BYTES = 600_000
_HELD_IMAGES, _IN_THE_MAKING = 10, 2
# How many keyframes to try before giving up on an image.
_LOOK_BACK = 4
MOST_HELD_BACK = 17
"""At most how many packets follow an image before decoders hand it out."""
KEPT_BEHIND = 4
"""Two threads that read in order may change places: so many images before the last are kept."""


class _InexactStartError(Exception):
    """Decoding was to begin at a keyframe after which images are not what they are in the video."""

    def __init__(self, keyframe: int) -> None:
        super().__init__(keyframe)
        self.keyframe = keyframe


@dataclass(slots=True, eq=False)
class _Position:
    """Where a decoder stands: what it was fed since a keyframe, and what came out."""

    serial: int
    """Of the packet table."""
    begun: int
    """The keyframe that was fed first."""
    start: int
    """The keyframe of the last image that was wanted."""
    next: int
    """The packet to feed next."""
    context: av.VideoCodecContext | None = None
    """None until the first packet is fed."""
    waiting: set[int] = field(default_factory=set)
    """Packets that were fed and whose images have not come out."""
    kept: dict[int, av.VideoFrame] = field(default_factory=dict)
    """Images that came out, by packet, in order of time."""
    ended: bool = False
    """Whether the decoder was told that no packet follows."""

    def leads_to(self, table: PacketTable, run: Run) -> bool:
        """Return whether all wanted images of a run are kept or still come out."""
        if self.serial != table.serial or run.start not in (self.begun, self.start):
            return False
        if self.ended:
            return self.kept.keys() >= set(run.wanted)
        return all(
            number >= self.next or number in self.waiting or number in self.kept
            for number in run.wanted
        )


class Decoder:
    """Decodes files of one coding, one run after another. For one thread at a time.

    It goes on where it stands if the next run lies ahead in the same GOP. What comes out is what a
    decode from the keyframe returns, to the bit, since the decoder sees the same packets.
    """

    def __init__(self, coding: Coding) -> None:
        self.coding = coding
        self.converter = Converter()
        self._contexts: dict[bool, av.VideoCodecContext] = {}
        self._is_disposable = disposable_test(coding)
        self._image_bytes = self._most_fed = 0
        self._position: _Position | None = None
        self._exact_starts = ExactStarts()

    @property
    def nbytes(self) -> int:
        """Estimate of the memory that the decoder holds."""
        kept = 0 if self._position is None else len(self._position.kept)
        held = min(_HELD_IMAGES, self._most_fed + _IN_THE_MAKING)
        in_contexts = len(self._contexts) * (_BASE_BYTES + held * self._image_bytes)
        return in_contexts + kept * self._image_bytes

    def decode(
        self, reader: PacketReader, table: PacketTable, run: Run, *, keep_bytes: int = 0
    ) -> Iterator[tuple[int, av.VideoFrame]]:
        """Yield the number of each wanted packet of a run with its image, mostly in order of time.

        With gradual refresh, the images after a keyframe are not right at once: decoding begins at
        an earlier one. Images that a decoder holds back even so are decoded again from further
        back, and come last.

        Args:
            reader: Reads the packets of the file.
            table: They.
            run: What to decode.
            keep_bytes: If later runs are expected to go on in the same GOP, the most memory for
                images that they may ask for again.

        Raises:
            CorruptFileError: The decoder reports damage, or returns no image for a packet.
        """
        missing = set(run.wanted)
        if self._exact_starts:
            run = Run(self._exact_starts.get(table, run.start), run.stop, run.wanted)
        while missing:
            try:
                yield from self._decode_from(reader, table, run, missing, keep_bytes)
            except _InexactStartError as error:  # noqa: PERF203  # Once for a keyframe.
                start = self._exact_starts.find(reader, table, error.keyframe)
                run = Run(start, run.stop, tuple(sorted(missing)))

    def _decode_from(
        self,
        reader: PacketReader,
        table: PacketTable,
        run: Run,
        missing: set[int],
        keep_bytes: int,
    ) -> Iterator[tuple[int, av.VideoFrame]]:
        if keep_bytes or (self._position is not None and self._position.leads_to(table, run)):
            try:
                yield from self._go_on(reader, table, run, missing, keep_bytes)
            except CorruptFileError:
                # Packets after the run may be damaged. Only a decode of itself says so rightly.
                self._position = None
        if missing:
            yield from self._decode_anew(reader, table, run, missing)

    def _decode_anew(
        self, reader: PacketReader, table: PacketTable, run: Run, missing: set[int]
    ) -> Iterator[tuple[int, av.VideoFrame]]:
        for attempt in range(_LOOK_BACK):
            position = _Position(table.serial, run.start, run.start, run.start)
            yield from self._images(reader, table, run, position, missing)
            if not missing:
                self._note_start(table, run)
                if attempt:  # What follows is decoded from its own keyframe.
                    self._position = None
                return
            if run.start == 0:
                break
            start = int(np.flatnonzero(table.keyframe[: run.start])[-1])
            run = Run(start, max(missing) + 1, tuple(sorted(missing)))
        raise CorruptFileError(f"Packet {min(missing)} of the video decodes to no image.")

    def _go_on(
        self,
        reader: PacketReader,
        table: PacketTable,
        run: Run,
        missing: set[int],
        keep_bytes: int,
    ) -> Iterator[tuple[int, av.VideoFrame]]:
        position = self._position
        if position is None or not position.leads_to(table, run):
            position = _Position(table.serial, run.start, run.start, run.start)
        for number in run.wanted:
            image = position.kept.get(number)
            if image is not None:
                missing.remove(number)
                yield number, image
        if missing and not position.ended:
            yield from self._images(reader, table, run, position, missing, keep_bytes)
        self._note_start(table, run)
        self._drop_passed(table, run)

    def _images(
        self,
        reader: PacketReader,
        table: PacketTable,
        run: Run,
        position: _Position,
        missing: set[int],
        keep_bytes: int = 0,
    ) -> Iterator[tuple[int, av.VideoFrame]]:
        """Feed the packets of a run; yield the images that are missing, until none is.

        All in one loop: what it calls for each packet limits how many cores a process can use.
        """
        skips = None if keep_bytes else self._is_disposable
        context = position.context
        for number, data in _packets_ahead(reader, table, run, position.next, bool(keep_bytes)):
            position.next = number + 1
            if context is None:
                strict = refreshes_all(data, self.coding)
                is_sure = number == 0 or (strict and table.lists_keyframes)
                if not is_sure and not begins_with(data, table):
                    raise _InexactStartError(number)
                context = position.context = self._fresh_context(strict=strict)
                self._position = position  # Where the decoder stood until now is lost.
            elif skips and number not in missing and skips(data):
                continue
            if not len(data):  # An empty packet would end the stream.
                continue
            packet = av.Packet(len(data))  # A copy, with the padding that decoders read into.
            packet.update(data)
            packet.pts = number
            # Without this mark, FFmpeg's PNG decoder adds an image to the one before.
            packet.is_keyframe = bool(table.keyframe[number])
            position.waiting.add(number)
            images = _feed(context, packet, number, table, run)
            yield from self._found(images, position, missing, keep_bytes)
            if not missing:
                return
        if context is not None:
            position.ended = True
            images = _feed(context, None, run.stop - 1, table, run)
            yield from self._found(images, position, missing, keep_bytes)

    def _found(
        self,
        images: list[av.VideoFrame],
        position: _Position,
        missing: set[int],
        keep_bytes: int,
    ) -> list[tuple[int, av.VideoFrame]]:
        """Note images that came out; return those that were missing, with their numbers."""
        found = []
        for image in images:
            number = image.pts
            if number is None:  # The decoder made it up.
                continue
            self._image_bytes = self._image_bytes or sum(p.buffer_size for p in image.planes)
            position.waiting.discard(number)
            if keep_bytes:
                position.kept[number] = image
            if number in missing:
                missing.remove(number)
                found.append((number, image))
        if keep_bytes:
            most = max(1, keep_bytes // max(1, self._image_bytes))
            while len(position.kept) > most:
                del position.kept[next(iter(position.kept))]
        return found

    def _note_start(self, table: PacketTable, run: Run) -> None:
        """Note the keyframe of the last image: a run may go through several GOPs."""
        assert self._position is not None
        self._most_fed = max(self._most_fed, self._position.next - run.start)
        self._position.start = int(table.start[run.wanted[-1]])

    def _drop_passed(self, table: PacketTable, run: Run) -> None:
        """Drop images before the first one that was wanted, except for the last few of all."""
        assert self._position is not None
        kept = self._position.kept
        oldest = min(table.pts[list(run.wanted)].tolist())
        for number in list(kept)[:-KEPT_BEHIND]:
            if table.pts[number] < oldest:
                del kept[number]

    def _fresh_context(self, *, strict: bool) -> av.VideoCodecContext:
        """Return a context that has seen no packet yet."""
        context = self._contexts.get(strict)
        if context is None:
            context = self._contexts[strict] = _open_context(self.coding, strict=strict)
        else:
            context.flush_buffers()
        return context


def _packets_ahead(
    reader: PacketReader, table: PacketTable, run: Run, start: int, goes_on: bool
) -> Iterator[tuple[int, memoryview]]:
    """Return the packets up to the end of a run; some of those after it too, if decoding goes on.

    Decoders hold images back until they know that none is shown before them. The packets after a
    run push them out, as far as they belong to the same GOP.
    """
    packets: Iterator[tuple[int, memoryview]] = iter(())
    if start < run.stop:
        packets = reader.read(start, run.stop)
        start = run.stop
    return chain(packets, _packets_behind(reader, table, run, start)) if goes_on else packets


def _packets_behind(
    reader: PacketReader, table: PacketTable, run: Run, start: int
) -> Iterator[tuple[int, memoryview]]:
    following = table.keyframe[start : run.stop + MOST_HELD_BACK]
    limit = start + int(np.argmax(following)) if following.any() else start + len(following)
    # Nobody asked for them: if they cannot be read, the decoder is made to give what it holds.
    with suppress(DatasetError, OSError):
        for first in range(start, limit, table.coding.reorder + 1):
            yield from reader.read(first, min(limit, first + table.coding.reorder + 1))


def decoder_bytes(coding: Coding, packets: int) -> int:
    """Return the memory that a decoder is expected to take for a run of this many packets."""
    height, width = coding.image_size
    images = min(_HELD_IMAGES, packets + _IN_THE_MAKING)
    return _BASE_BYTES + images * height * width * 3 // 2


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
        context = av.CodecContext.create(decoder_name(coding.codec), "r")
    except ValueError as error:
        raise UnsupportedVideoError(f"FFmpeg has no decoder for {coding.codec!r}.") from error
    # One thread each: a batch is decoded in parallel anyway, and a fork loses no decoder thread.
    context.thread_count = 1
    # Some codecs store no size. H.264 is cut to the container's where it says nothing of its own.
    context.width, context.height = coding.width, coding.height
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
