"""What a check keeps of a video file, from its packet table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.check.clip_places import video_fps
from roboreel.check.clip_times import wrong_ends
from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.findings import finding
from roboreel.video.demux import demux_packet_table
from roboreel.video.keyframes import find_keyframes
from roboreel.video.mp4 import read_packet_table

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.check.clip_places import PlacedClips
    from roboreel.findings import Finding
    from roboreel.video.packet_table import Coding, PacketTable

# So many packets tell whether a file without a keyframe table has keyframes only.
_PACKETS_LOOKED_AT = 64


@dataclass(frozen=True, slots=True, eq=False)
class VideoFile:
    """What is known of a video file without decoding it, in a few bytes."""

    file: str
    """Path below the dataset's folder."""
    positions: NDArray[np.int64]
    """Positions of its episodes."""
    codec: str
    size: tuple[int, int]
    """Height and width."""
    bits: int | None
    """Bits per value of a pixel; None if the headers do not say."""
    num_images: int
    num_frames: int
    """Frames of its episodes together."""
    fps: float | None
    """Rate of its images; None if there is only one."""
    packets_per_image: float
    """How many packets must be decoded for a random image, on average."""
    index_at_end: bool
    false_keyframes: bool
    """Whether it has no keyframe table, which makes all images keyframes, and some are not."""
    wrong_ends: tuple[int, ...]
    """Positions of the episodes whose clips end elsewhere than the metadata says."""
    findings: tuple[Finding, ...] = ()
    """What is wrong with its clips."""


def read_video(path: Path, file: str, num_frames: int) -> tuple[PacketTable | None, list[Finding]]:
    """Return the packet table of a video file, and what is wrong with reading it.

    Args:
        path: The file.
        file: Its path below the dataset's folder.
        num_frames: How many images are needed.
    """
    try:
        table = read_packet_table(path)
        if len(table.ticks):
            return table, []
        return None, [
            finding("RR401", "The video shows no image: its edit list hides all.", file=file)
        ]
    except (CorruptFileError, UnsupportedVideoError) as error:
        refusal = error
    try:
        table = demux_packet_table(path)
    except (CorruptFileError, UnsupportedVideoError):
        return None, [finding("RR401", f"The video cannot be read. {_cause(refusal)}", file=file)]
    if isinstance(refusal, UnsupportedVideoError):
        return table, []
    if len(table.ticks) < num_frames:
        message = (
            f"The video is damaged. {_cause(refusal)} {len(table.ticks):,} of {num_frames:,} images "
            "are left."
        )
        return None, [finding("RR401", message, file=file)]
    message = f"The video's index is damaged. {_cause(refusal)} FFmpeg still finds all images."
    return table, [finding("RR401", message, severity="warning", file=file)]


def _cause(error: Exception) -> str:
    """Return what an error says, without the path, which the finding has."""
    return str(error).split(" Video file: ")[0]


def survey(
    path: Path, file: str, positions: NDArray[np.int64], placed: PlacedClips, table: PacketTable
) -> VideoFile:
    """Return what to keep of a file.

    Args:
        path: The file.
        file: Its path below the dataset's folder.
        positions: Positions of its episodes.
        placed: Where its clips lie.
        table: Its packets.
    """
    distance = np.arange(len(table.start)) - table.start
    return VideoFile(
        file=file,
        positions=positions,
        codec=table.coding.codec,
        size=table.coding.image_size,
        bits=_bits(table.coding),
        num_images=len(table.ticks),
        num_frames=placed.clips.num_frames,
        fps=video_fps(table),
        packets_per_image=float(distance.mean()) + 1,
        index_at_end=table.index_at_end,
        wrong_ends=tuple(placed.clips.position[wrong_ends(placed, table)].tolist()),
        false_keyframes=_has_false_keyframes(path, table),
    )


def _has_false_keyframes(path: Path, table: PacketTable) -> bool:
    if table.lists_keyframes or table.via != "mp4":
        return False
    true = find_keyframes(path, table, _PACKETS_LOOKED_AT)
    return true is not None and not true.all()


def _bits(coding: Coding) -> int | None:
    """Return the bits per value that a codec's configuration record declares."""
    record = coding.extradata
    if coding.codec == "hevc" and len(record) > 17 and record[0] == 1:
        return (record[17] & 7) + 8
    if coding.codec == "av1" and len(record) > 2:
        return {0: 8, 2: 10, 3: 12}.get(record[2] >> 5 & 3)
    return None
