"""Packet tables and packets from FFmpeg's demuxer, for files that our own parser refuses."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.video.bitstream import parameter_sets
from roboreel.video.codecs import codec_name
from roboreel.video.container import open_container
from roboreel.video.packet_table import Coding, Colour, PacketTable, reorder_depth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from av.container import InputContainer

# If the wanted packet is not among this many after a seek, reading starts from the beginning.
_MAX_STRAY_PACKETS = 32
# FFmpeg's name of a configuration record that holds from a packet on.
_NEW_SETTINGS: Any = "new_extradata"


def demux_packet_table(path: Path) -> PacketTable:
    """Return the packet table of any video file that FFmpeg can read.

    Reads the whole file.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: FFmpeg cannot read the file.
        UnsupportedVideoError: The file has no video, or images without a timestamp.
    """
    with closing(_open(path)) as container:
        stream = container.streams.video[0]
        packets, new_settings = [], {}
        for number, packet in enumerate(_packets(container, path)):
            if packet.has_sidedata(_NEW_SETTINGS):
                new_settings[number] = bytes(packet.get_sidedata(_NEW_SETTINGS))
            packets.append(
                (packet.pts, packet.dts, packet.size, packet.is_keyframe, not packet.is_discard)
            )
        coding = _coding(stream.codec_context)
        is_mp4 = "mp4" in container.format.name
        rate: Any = stream.time_base  # Since PyAV 19 this is not a Fraction, but has its parts.
        time_base = Fraction(rate.numerator, rate.denominator)
    if not packets:
        raise CorruptFileError(f"The video has no images: {str(path)!r}.")
    times, decoding, sizes, keys, visible = zip(*packets, strict=True)
    if None in times:
        raise UnsupportedVideoError(f"The video has images without a timestamp: {str(path)!r}.")
    pts = np.array(times, dtype=np.int64)
    dts = np.array([time if time is not None else 0 for time in decoding], dtype=np.int64)
    keyframe = np.array(keys, dtype=np.bool_)
    keyframe[0] = True
    order = np.argsort(pts, kind="stable")
    shown = order[np.array(visible, dtype=np.bool_)[order]]
    return PacketTable(
        coding=replace(coding, reorder=reorder_depth(pts)),
        time_base=time_base,
        offset=np.empty(0, dtype=np.int64),
        size=np.array(sizes, dtype=np.int32),
        dts=dts,
        pts=pts,
        keyframe=keyframe,
        shown=shown.astype(np.int32),
        ticks=pts[shown],
        via="ffmpeg",
        # Of an MP4 file that lists none, FFmpeg says that all packets are keyframes.
        lists_keyframes=not (is_mp4 and keyframe.all()),
        new_settings=new_settings,
    )


class DemuxedPackets:
    """Reads packets by seeking in FFmpeg's demuxer. For one thread."""

    def __init__(self, path: Path, table: PacketTable) -> None:
        self._path = path
        self._table = table
        self._container = _open(path)

    def __enter__(self) -> DemuxedPackets:  # noqa: PYI034  # Self is in Python 3.11
        return self

    def __exit__(self, *error: object) -> None:
        self._container.close()

    def read(self, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        """Yield number and bytes of the packets ``[start, stop)``.

        In a file with several configuration records, keyframes bring the parameter sets of theirs.
        """
        for number, packet in enumerate(self._packets_from(start), start):
            if number >= stop:
                return
            sets = b""
            if self._table.new_settings and self._table.keyframe[number]:
                sets = parameter_sets(self._settings_at(number))
            yield number, memoryview(sets + bytes(packet))

    def _settings_at(self, number: int) -> Coding:
        """Return the coding with the configuration record that holds at a packet."""
        coding, changes = self._table.coding, self._table.new_settings
        last = max((first for first in changes if first <= number), default=None)
        return coding if last is None else replace(coding, extradata=changes[last])

    def _packets_from(self, start: int) -> Iterator[av.Packet]:
        packets = self._sought(start)
        if packets is None:
            # Without an index, a seek may land anywhere: count from the beginning instead.
            self._container.close()
            self._container = _open(self._path)
            packets = islice(_packets(self._container, self._path), start, None)
        return packets

    def _sought(self, start: int) -> Iterator[av.Packet] | None:
        """Return the packets from a number on, found by pts and size; None if not found."""
        wanted = (int(self._table.pts[start]), int(self._table.size[start]))
        try:
            self._container.seek(wanted[0], stream=self._container.streams.video[0])
        except av.FFmpegError:
            return None
        packets = _packets(self._container, self._path)
        for packet in islice(packets, _MAX_STRAY_PACKETS):
            if (packet.pts, packet.size) == wanted:
                return chain([packet], packets)
        return None


def _open(path: Path) -> InputContainer:
    container = open_container(path)
    if not container.streams.video or container.streams.video[0].codec_context is None:
        container.close()
        raise UnsupportedVideoError(f"FFmpeg finds no video that it can decode: {str(path)!r}.")
    return container


def _packets(container: InputContainer, path: Path) -> Iterator[av.Packet]:
    """Yield the packets of the video from the current position on, in decoding order."""
    try:
        for packet in container.demux(container.streams.video[0]):
            if packet.size:
                yield packet
    except av.FFmpegError as error:
        raise CorruptFileError(f"FFmpeg cannot read {str(path)!r}: {error}.") from error


def _coding(context: av.VideoCodecContext) -> Coding:
    """Return what a decoder must be told, except for `Coding.reorder`."""
    colour = Colour(
        int(context.color_primaries),
        int(context.color_trc),
        int(context.colorspace),
        full_range=int(context.color_range) == 2,
    )
    return Coding(
        codec=codec_name(context.name),
        extradata=context.extradata or b"",
        width=context.width,
        height=context.height,
        colour=colour,
    )
