"""Videos that look swapped, by their sizes or by the numbers of their images."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from roboreel.check.camera_videos import has_other_rate, usual_size
from roboreel.findings import finding
from roboreel.words import name_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roboreel.check.video_survey import VideoFile
    from roboreel.findings import Finding
    from roboreel.schema import Manifest

__all__ = ["swapped_cameras", "swapped_files"]


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
            what = (
                f"For {episodes}, {camera!r} seems to have the video of {true!r}: its size tells."
            )
            yield _finding(manifest, one, camera, what)


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
        yield _finding(manifest, video, camera, what)


def _finding(manifest: Manifest, video: VideoFile, camera: str, message: str) -> Finding:
    numbers = manifest.episodes.number[video.positions]
    episode = int(numbers[0]) if len(numbers) == 1 else None
    return finding("RR410", message, file=video.file, episode=episode, feature=camera)
