"""Checks of the video files by their packet tables; nothing is decoded."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from roboreel.check.camera_videos import (
    camera_findings,
    has_other_rate,
    late_indices,
    rate_explains,
    usual_size,
)
from roboreel.check.checks import Check, NotChecked
from roboreel.check.clip_findings import clip_findings, clips_of
from roboreel.check.clip_places import place_clips
from roboreel.check.pointers import pointer_finding
from roboreel.check.still_packets import StillPackets
from roboreel.check.video_survey import read_video, survey
from roboreel.errors import MissingFileError
from roboreel.findings import finding
from roboreel.io.lfs import is_lfs_pointer
from roboreel.words import counted, name_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context
    from roboreel.check.video_survey import VideoFile
    from roboreel.findings import Finding
    from roboreel.schema import Manifest


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
    video = survey(path, file, positions, placed, table)
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


# Videos that look swapped, by their sizes or by the numbers of their images.


def swapped_cameras(
    manifest: Manifest, videos: Mapping[str, Sequence[VideoFile]]
) -> Iterator[Finding]:
    """Yield videos that two cameras have exchanged, which their image sizes tell.

    Args:
        manifest: The dataset.
        videos: The videos of each camera.
    """
    for left, right in combinations([camera for camera in videos if videos[camera]], 2):
        declared = {camera: manifest.features[camera].shape[:2] for camera in (left, right)}
        sizes = {camera: usual_size(videos[camera]) for camera in (left, right)}
        if declared[left] == declared[right]:
            continue
        if (sizes[left], sizes[right]) == (declared[right], declared[left]):
            for camera, other in ((left, right), (right, left)):
                what = f"The videos of {camera!r} have the size that info.json gives {other!r}."
                yield finding("RR410", what, feature=camera)
        elif sizes[left] != sizes[right]:
            yield from _exchanged(manifest, left, right, videos, sizes)


def _exchanged(
    manifest: Manifest,
    left: str,
    right: str,
    videos: Mapping[str, Sequence[VideoFile]],
    sizes: Mapping[str, tuple[int, int]],
) -> Iterator[Finding]:
    """Yield the files of the same episodes in which two cameras have each other's size."""
    others = {
        video.positions.tobytes(): video for video in videos[right] if video.size == sizes[left]
    }
    for video in (video for video in videos[left] if video.size == sizes[right]):
        other = others.get(video.positions.tobytes())
        if other is None:
            continue
        episodes = name_episodes(manifest.episodes.number[video.positions])
        for one, camera, true in ((video, left, right), (other, right, left)):
            what = f"For {episodes}, {camera!r} seems to have the video of {true!r}, by its size."
            yield finding("RR410", what, file=one.file, feature=camera)


def swapped_files(
    manifest: Manifest, camera: str, videos: Sequence[VideoFile]
) -> Iterator[Finding]:
    """Yield videos of a camera that have changed places, which the numbers of their images tell.

    Args:
        manifest: The dataset.
        camera: The camera.
        videos: Its videos.
    """
    wrong = [
        video
        for video in videos
        if video.num_images != video.num_frames and not has_other_rate(video, manifest.fps)
    ]
    places: dict[int, list[int]] = {}
    for place, video in enumerate(wrong):
        places.setdefault(video.num_frames, []).append(place)
    # Where each video belongs, if there is just one such place.
    target = {
        place: places[video.num_images][0]
        for place, video in enumerate(wrong)
        if len(places.get(video.num_images, ())) == 1
    }
    # Videos that changed places form circles: each place that one leaves is taken by another.
    while target.keys() != set(target.values()):
        taken = set(target.values())
        target = {a: b for a, b in target.items() if a in taken and b in target}
    for place, true in target.items():
        video = wrong[place]
        what = (
            f"The video has {video.num_images:,} images where {video.num_frames:,} are needed: it "
            f"seems to be that of {name_episodes(manifest.episodes.number[wrong[true].positions])}, "
            f"{wrong[true].file!r}."
        )
        yield finding("RR410", what, file=video.file, feature=camera)


CHECKS = (Check(_CODES, video_files, applies=_has_videos),)
