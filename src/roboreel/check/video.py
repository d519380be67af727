"""Checks of the video files by their packet tables; nothing is decoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.check.camera_videos import (
    camera_findings,
    late_indices,
    rate_explains,
    swapped_cameras,
    swapped_files,
)
from roboreel.check.checks import Check, NotChecked
from roboreel.check.clip_findings import clip_findings, clips_of
from roboreel.check.clip_places import place_clips, video_fps, wrong_ends
from roboreel.check.still_packets import StillPackets
from roboreel.check.structure import pointer_finding
from roboreel.errors import CorruptFileError, MissingFileError, UnsupportedVideoError
from roboreel.findings import finding
from roboreel.io.lfs import is_lfs_pointer
from roboreel.video.demux import demux_packet_table
from roboreel.video.keyframes import find_keyframes
from roboreel.video.mp4 import read_packet_table
from roboreel.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context
    from roboreel.findings import Finding
    from roboreel.video.packet_table import Coding, PacketTable


_CODES = (
    "RR305",
    *("RR401", "RR402", "RR403", "RR404", "RR405", "RR406"),
    *("RR407", "RR408", "RR409", "RR410", "RR411", "RR412"),
)


def video_files(context: Context) -> Iterator[Outcome]:
    """Yield what the packet tables of all videos tell, each read once.

    Missing files are left to the checks of the metadata.
    """
    manifest = context.manifest
    videos: dict[str, list[VideoFile]] = {camera: [] for camera in manifest.video_files}
    still = {camera: StillPackets(manifest, camera) for camera in videos}
    total = sum(len(files) for files in manifest.video_files.values())
    unread = 0
    for camera, video, findings in _surveyed(context, still, total):
        yield from findings
        if video is not None:
            videos[camera].append(video)
        unread += video is None
    if unread:
        reason = f"{counted(unread, 'video')} of {total:,} cannot be read."
        yield from (NotChecked(code, reason) for code in _CODES if code != "RR401")
    yield from _compared(context, videos)
    for camera in videos:
        yield from still[camera].findings(context)


def _surveyed(
    context: Context, still: dict[str, StillPackets], total: int
) -> Iterator[tuple[str, VideoFile | None, list[Finding]]]:
    """Yield camera, what to keep, and what is wrong, of each video; read now, or by a job before."""
    if context.gathered is not None:
        for part in context.gathered.videos():
            yield from part["videos"]
            for camera, state in part["still"].items():
                still[camera].merge(state)
        return
    for done, (camera, file, positions) in enumerate(context.video_files()):
        context.report_progress("Videos", done, total)
        yield camera, *survey_video(context, camera, file, positions, still[camera])
    context.report_progress("Videos", total, total)


def survey_video(
    context: Context,
    camera: str,
    file: str,
    positions: NDArray[np.int64],
    still: StillPackets,
) -> tuple[VideoFile | None, list[Finding]]:
    """Return what to keep of a file, with the findings about its clips, and what is wrong with it."""
    manifest, path = context.manifest, context.root / file
    if is_lfs_pointer(path):
        return None, [pointer_finding(file)]
    clips = clips_of(manifest, camera, positions)
    try:
        table, findings = read_video(path, file, clips.num_frames)
    except MissingFileError:
        return None, []
    findings = [replace(one, feature=camera) for one in findings]
    if table is None:
        return None, findings
    placed = place_clips(clips, table)
    video = VideoFile(
        file=file,
        positions=positions,
        codec=table.coding.codec,
        size=table.coding.image_size,
        bits=_bits(table.coding),
        num_images=len(table.ticks),
        num_frames=clips.num_frames,
        fps=video_fps(table),
        packets_per_image=float((np.arange(len(table.start)) - table.start).mean()) + 1,
        index_at_end=table.index_at_end,
        wrong_ends=tuple(clips.position[wrong_ends(placed, table)].tolist()),
        false_keyframes=_has_false_keyframes(path, table),
    )
    if not rate_explains(video, manifest.fps):
        own = clip_findings(context, camera, file, placed, table)
        video = replace(video, findings=tuple(own))
    still.add(file, placed, table)
    return video, findings


def _compared(context: Context, videos: dict[str, list[VideoFile]]) -> Iterator[Finding]:
    """Yield the findings of comparing videos, then those left over of each video."""
    manifest = context.manifest
    yield from late_indices([video for files in videos.values() for video in files])
    swapped = list(swapped_cameras(manifest, videos))
    for camera, files in videos.items():
        swapped += swapped_files(manifest, camera, files)
    yield from swapped
    explained = {one.file for one in swapped}
    exchanged = {one.feature for one in swapped if one.file is None}
    for camera, files in videos.items():
        others = [video for video in files if video.file not in explained]
        for video in others:
            yield from video.findings
        if others:
            found = camera_findings(manifest, camera, others)
            yield from (one for one in found if camera not in exchanged or one.code != "RR406")


def _has_videos(context: Context) -> bool:
    return any(len(files) for files in context.manifest.video_files.values())


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


CHECKS = (Check(_CODES, video_files, applies=_has_videos),)
