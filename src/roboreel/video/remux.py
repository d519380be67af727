"""Videos joined and cut by copying packets, without decoding them.

A file is complete only when the function that writes it returns: if others may read it, write to a
temporary name and move it into place.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from roboreel.errors import CorruptFileError, EncodingError
from roboreel.video.probe import open_video

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "coding_key",
    "cut_video",
    "decoding_ticks",
    "image_ticks",
    "join_videos",
    "packets_of_span",
]


def join_videos(paths: Sequence[Path], out: Path) -> list[Fraction]:
    """Write several videos into one file, and return when each starts in it, in seconds.

    Image ``i`` of a video is then at its start plus ``i / fps``, exactly on a tick.

    Args:
        paths: What to join, in order. All must have the same encoding, size and time base.
        out: Where to write. Removed if anything fails.

    Raises:
        EncodingError: The videos differ, or one hides some of its images.
        CorruptFileError: A file has no video.
    """
    tracks = [_read_track(path) for path in paths]
    if not tracks:
        raise EncodingError(f"There are no videos to join into {str(out)!r}.")
    for track in tracks:
        _check_joinable(tracks[0], track)
    lengths = [track.length for track in tracks]
    starts = np.cumsum([0, *lengths[:-1]])
    # Relative to the first image of each file, since not every file starts at 0.
    shifts = [start - track.ticks.min() for start, track in zip(starts, tracks, strict=True)]
    ticks = [track.ticks + shift for track, shift in zip(tracks, shifts, strict=True)]
    everything = [np.ones(len(track.ticks), dtype=np.bool_) for track in tracks]
    _copy(tracks, everything, np.concatenate(ticks), out)
    return [int(start) * tracks[0].time_base for start in starts]


def cut_video(path: Path, start: int, stop: int, out: Path) -> list[Fraction]:
    """Write the images of a span to a new file, and return when each is shown in it, in seconds.

    The file starts at the keyframe that the first image needs and ends with the last packet that
    any image needs. It also has every image in between.

    Args:
        path: The video to cut.
        start: First tick of the span.
        stop: Tick right after its end.
        out: Where to write. Removed if anything fails.

    Raises:
        EncodingError: There is no image in the span, or no keyframe before it.
        CorruptFileError: The file has no video.
    """
    track = _read_track(path)
    kept = packets_of_span(track.ticks, track.keyframes, start, stop)
    if kept is None:
        raise EncodingError(
            f"No image can be cut from ticks {start} to {stop}: there are images from "
            f"{track.ticks.min()} to {track.ticks.max()}, in {str(path)!r}."
        )
    ticks = track.ticks[kept]
    first = int(ticks.min())
    _copy([track], [kept], ticks - first, out)
    shown = np.sort(ticks[(ticks >= start) & (ticks < stop)]) - first
    return [int(tick) * track.time_base for tick in shown]


def image_ticks(path: Path) -> NDArray[np.int64]:
    """Return the tick of each image of a video file, ascending.

    Raises:
        CorruptFileError: The file has no video.
    """
    return np.sort(_read_track(path).ticks)


def coding_key(path: Path) -> tuple[Any, ...]:
    """Return a key that is equal for video files that can be joined. Reads headers only."""
    with open_video(path) as (_, stream):
        return tuple(_coding(stream).values())


def packets_of_span(
    ticks: NDArray[np.int64], keyframes: NDArray[np.bool_], start: int, stop: int
) -> NDArray[np.bool_] | None:
    """Return which packets are needed to show the images of a span.

    Args:
        ticks: Presentation tick of every packet, ``(P,)``, in decoding order.
        keyframes: Whether decoding can start at each packet, ``(P,)``.
        start: Tick where the span starts.
        stop: Tick right after its end.

    Returns:
        A mask ``(P,)``; None if the span has no image or there is no keyframe before it.
    """
    wanted = np.flatnonzero((ticks >= start) & (ticks < stop))
    if not wanted.size:
        return None
    before = np.flatnonzero(keyframes & (ticks <= ticks[wanted].min()))
    if not before.size:
        return None
    first = before[-1]
    packets = np.arange(len(ticks))
    # The keyframe of an open GOP is followed by images that are shown before it. They depend on
    # packets that are not copied, and no wanted image depends on them.
    kept: NDArray[np.bool_] = (packets >= first) & (packets <= wanted[-1]) & (ticks >= ticks[first])
    return kept


def decoding_ticks(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the decoding tick of each packet: ascending, and never after its presentation.

    Calculated rather than copied, since encoders differ in how early they start.

    Args:
        ticks: Presentation tick of every packet, ``(P,)``, distinct, in decoding order.

    Examples:
        >>> decoding_ticks(np.array([0, 3, 1, 2])).tolist()
        [-1, 0, 1, 2]
    """
    shown = np.sort(ticks)
    early = int((shown - ticks).max())
    return shown - early


@dataclass(frozen=True, slots=True, eq=False)
class _Track:
    """The packets of a video file, in decoding order."""

    path: Path
    coding: Mapping[str, Any]
    """Everything that must be equal for packets to share a file."""
    ticks: NDArray[np.int64]
    keyframes: NDArray[np.bool_]
    hidden: bool
    """Whether an edit list hides some packets."""
    length: int
    """Ticks from the first image to the end of the last one."""

    @property
    def time_base(self) -> Fraction:
        """Seconds per tick."""
        return Fraction(self.coding["time base"])


def _read_track(path: Path) -> _Track:
    with open_video(path) as (container, stream):
        packets = [
            (packet.pts, packet.duration or 0, packet.is_keyframe, packet.is_discard)
            for packet in container.demux(stream)
            if packet.size
        ]
        coding = _coding(stream)
    ticks = np.array([packet[0] for packet in packets], dtype=np.int64)
    if not len(np.unique(ticks)) == len(ticks) > 0:
        raise CorruptFileError(f"The video has no images, or several at one time: {str(path)!r}.")
    return _Track(
        path,
        coding,
        ticks,
        keyframes=np.array([packet[2] for packet in packets], dtype=np.bool_),
        hidden=any(packet[3] for packet in packets),
        length=_length(ticks, last_duration=packets[int(ticks.argmax())][1]),
    )


def _coding(stream: Any) -> dict[str, Any]:  # noqa: ANN401  # PyAV is untyped to us
    context = stream.codec_context
    return {
        "codec": context.name,
        "size": (context.height, context.width),
        "pixel format": context.pix_fmt,
        "time base": Fraction(stream.time_base),
        "codec header": bytes(context.extradata or b""),
    }


def _length(ticks: NDArray[np.int64], last_duration: int) -> int:
    gaps = np.diff(np.sort(ticks))
    # At a steady rate the last image lasts as long as the others, whatever the file says.
    steady = gaps.size and (gaps == gaps[0]).all()
    return int(ticks.max() - ticks.min()) + (int(gaps[0]) if steady else max(last_duration, 1))


def _check_joinable(first: _Track, other: _Track) -> None:
    if other.hidden:
        raise EncodingError(
            "A video that shows only some of its packets cannot be joined without decoding. "
            f"Encode {str(other.path)!r} again."
        )
    for name, ours in first.coding.items():
        theirs = other.coding[name]
        if ours != theirs:
            shown = "" if name == "codec header" else f" ({ours} and {theirs})"
            raise EncodingError(
                f"Videos with a different {name}{shown} cannot share a file: "
                f"{str(first.path)!r} and {str(other.path)!r}."
            )


def _copy(
    tracks: Sequence[_Track],
    kept: Sequence[NDArray[np.bool_]],
    ticks: NDArray[np.int64],
    out: Path,
) -> None:
    """Copy the kept packets of all tracks to a file, to be shown at ``ticks``."""
    clock = str(tracks[0].time_base.denominator)
    # The clock of the sources, for images and for the movie as a whole.
    options = {"video_track_timescale": clock, "movie_timescale": clock}
    lasting = int(np.diff(np.sort(ticks)).min()) if len(ticks) > 1 else tracks[0].length
    times = zip(ticks.tolist(), decoding_ticks(ticks).tolist(), strict=True)
    try:
        with av.open(str(out), "w", format="mp4", options=options) as target:
            stream = None
            for packet in _packets(tracks, kept):
                if stream is None:
                    stream = target.add_stream_from_template(packet.stream, opaque=True)
                packet.pts, packet.dts = next(times)
                # FFmpeg 7 gives the packets of fragments none, and would hide the last image.
                packet.duration = packet.duration or lasting
                packet.stream = stream
                target.mux(packet)
    except BaseException:
        out.unlink(missing_ok=True)
        raise


def _packets(tracks: Sequence[_Track], kept: Sequence[NDArray[np.bool_]]) -> Iterator[Any]:
    for track, mask in zip(tracks, kept, strict=True):
        with open_video(track.path) as (container, stream):
            packets = (packet for packet in container.demux(stream) if packet.size)
            for packet, wanted in zip(packets, mask.tolist(), strict=True):
                if wanted:
                    yield packet
