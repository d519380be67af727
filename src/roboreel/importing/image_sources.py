"""Images of video packets and video files: kept as packets where that is possible, or decoded."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.record.encoded import EncodedPacket
from roboreel.video.bitstream import stream_packer
from roboreel.video.codecs import STREAMED, decoder_name
from roboreel.video.container import open_container
from roboreel.video.demux import DemuxedPackets, demux_packet_table
from roboreel.video.exact_start import begins_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.importing.recording import Recording, Values
    from roboreel.video.packet_table import PacketTable

_PACKETS_AT_ONCE = 32


def remux_problem(
    recording: Recording, episode: int, stream: str, positions: NDArray[np.int64]
) -> str:
    """Return why rows cannot keep the packets of a stream; nothing if they can.

    Args:
        recording: The recording.
        episode: The source episode.
        stream: A stream of packets or a video file.
        positions: The image of each row, ``(R,)``.
    """
    if not len(positions):
        return ""
    if recording.streams[stream].codec not in STREAMED:
        return f"{recording.streams[stream].codec} is not a codec that is kept"
    if (np.diff(positions) != 1).any():
        return "rows repeat or skip packets"
    first = int(positions[0])
    if recording.streams[stream].kind == "packets":
        keyframes = recording.keyframes(episode, stream)
        return "" if keyframes[first] else "the first row is not a keyframe"
    table = _table(recording.video_path(episode, stream))
    if table.coding.reorder:
        return "packets are not in the order of their images"
    if len(table.shown) != len(table.pts):
        return "the file hides some of its packets"
    if not table.keyframe[first]:
        return "the first row is not a keyframe"
    with DemuxedPackets(recording.video_path(episode, stream), table) as packets:
        is_start = begins_at(packets, table, first)
    return "" if is_start else "images after the first row need some before it (gradual refresh)"


def read_packets(
    recording: Recording, episode: int, stream: str, positions: NDArray[np.int64]
) -> list[EncodedPacket]:
    """Return packets in a form that a recorder keeps; `remux_problem` must have found none."""
    codec: Any = recording.streams[stream].codec
    if recording.streams[stream].kind == "packets":
        keyframes = recording.keyframes(episode, stream)
        found = _bytes(recording.read(episode, {stream: positions})[stream])
        return [
            EncodedPacket(data, codec, bool(keyframes[i]))
            for i, data in zip(positions.tolist(), found, strict=True)
        ]
    path = recording.video_path(episode, stream)
    table = _table(path)
    pack = stream_packer(table.coding)
    if pack is None:
        raise SourceError(f"Packets of {table.coding.codec} cannot be kept: {str(path)!r}.")
    start, stop = int(positions[0]), int(positions[-1]) + 1
    with DemuxedPackets(path, table) as packets:
        return [
            EncodedPacket(
                pack(bytes(data), bool(table.keyframe[i])), codec, bool(table.keyframe[i])
            )
            for i, data in packets.read(start, stop)
        ]


class ImageSource:
    """Images of one stream by position, decoded in order; going back starts at a keyframe.

    Args:
        where: What is decoded, for errors.
        start: Yields the number and the decoded image of each position, from this one or earlier.
    """

    def __init__(self, where: str, start: Callable[[int], Iterator[tuple[int, Any]]]) -> None:
        self._where, self._start = where, start
        self._frames: Iterator[tuple[int, Any]] = iter(())
        self._at = -1
        self._held: Any = None

    def read(self, positions: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        """Return images ``uint8 (H, W, 3)`` at positions that ascend; repeats are allowed."""
        images: list[NDArray[np.uint8]] = []
        for position in positions.tolist():
            if images and position == self._at:
                images.append(images[-1])
                continue
            images.append(self._frame(position).to_ndarray(format="rgb24"))
        return images

    def _frame(self, position: int) -> Any:  # noqa: ANN401  # PyAV is untyped to us
        if position == self._at:
            return self._held
        try:
            if position < self._at or self._held is None:
                self._frames = self._start(position)
            for number, frame in self._frames:
                if number == position:
                    self._at, self._held = number, frame
                    return frame
        except av.error.FFmpegError as error:
            raise CorruptFileError(
                f"Images cannot be decoded: {error}, of {self._where}."
            ) from error
        raise CorruptFileError(
            f"Image {position} does not come out of the decoder, of {self._where}."
        )


def open_images(recording: Recording, episode: int, stream: str) -> ImageSource:
    """Return a decoder of a stream of packets or of a video file."""
    if recording.streams[stream].kind == "packets":
        where = f"{stream!r} in {str(recording.path)!r}"
        return ImageSource(where, partial(_packet_images, recording, episode, stream))
    path = recording.video_path(episode, stream)
    return ImageSource(repr(str(path)), lambda _position: _file_images(path))


def _packet_images(
    recording: Recording, episode: int, stream: str, position: int
) -> Iterator[tuple[int, Any]]:
    """Yield images from the keyframe on that a position needs."""
    before = np.flatnonzero(recording.keyframes(episode, stream)[: position + 1])
    if not len(before):
        raise SourceError(
            f"No keyframe comes before packet {position} of {stream!r} in {str(recording.path)!r}."
        )
    first, count = int(before[-1]), recording.count(episode, stream)
    context = av.CodecContext.create(decoder_name(str(recording.streams[stream].codec)), "r")

    def decoded() -> Iterator[Any]:
        for at in range(first, count, _PACKETS_AT_ONCE):
            wanted = np.arange(at, min(at + _PACKETS_AT_ONCE, count))
            for data in _bytes(recording.read(episode, {stream: wanted})[stream]):
                yield from context.decode(av.Packet(data))
        yield from context.decode(None)

    yield from enumerate(decoded(), first)


def _file_images(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield all images of a video file."""
    with open_container(path) as container:
        yield from enumerate(container.decode(video=0))


def _bytes(values: Values) -> list[bytes]:
    """Return values that are bytes, as such."""
    return [value for value in values if isinstance(value, bytes)]


@lru_cache(maxsize=8)
def _table(path: Path) -> PacketTable:
    return demux_packet_table(path)
