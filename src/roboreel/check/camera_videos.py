"""Findings about the videos of one camera: their rate, size and codec, and how they can be read."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

from roboreel.findings import finding
from roboreel.format.paths import INFO_PATH
from roboreel.format.video_info import declared_codec
from roboreel.words import counted, name_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roboreel.check.video import VideoFile
    from roboreel.findings import Finding
    from roboreel.schema import Feature, Manifest

# Above, a rate is another one: 29.97 counts as 30.
_RATE_TOLERANCE = 0.02
# More packets than this for one image is slow. LeRobot makes every other image a keyframe.
_MANY_PACKETS = 40
_DEPTH_BITS = 12
_VIEWER_CODECS = ("av1", "h264", "hevc", "vp9")


def camera_findings(
    manifest: Manifest, camera: str, videos: Sequence[VideoFile]
) -> Iterator[Finding]:
    """Yield what is wrong with the videos of a camera together, or with single ones among them.

    Args:
        manifest: The dataset.
        camera: The camera.
        videos: Its video files, at least one.
    """
    yield from _rates(camera, videos, manifest.fps)
    yield from _wrong_ends(manifest, camera, videos)
    yield from _differences_from_info(camera, manifest.features[camera], videos)
    yield from _mixtures(camera, videos)
    yield from _keyframes(camera, videos)
    yield from _codecs_without_viewer(camera, videos)


def late_indices(videos: Sequence[VideoFile]) -> Iterator[Finding]:
    """Yield, in one finding, that videos have their index at the end, as most writers leave it."""
    late = [video for video in videos if video.index_at_end]
    if late:
        what = (
            f"{_of(late, videos)}: the index is at the end, so opening one over a network "
            "takes another request."
        )
        yield finding("RR411", what, file=_only(late))


def has_other_rate(video: VideoFile, fps: float) -> bool:
    """Return whether a video has another frame rate than the dataset."""
    return video.fps is not None and abs(video.fps / fps - 1) > _RATE_TOLERANCE


def rate_explains(video: VideoFile, fps: float) -> bool:
    """Return whether a video's rate is wrong, and its images and times are not."""
    if video.fps is None or not has_other_rate(video, fps):
        return False
    expected = video.num_frames * video.fps / fps
    close = abs(video.num_images - expected) <= max(2, _RATE_TOLERANCE * expected)
    return close or video.num_images == video.num_frames


def usual_size(videos: Sequence[VideoFile]) -> tuple[int, int]:
    """Return the height and width that most videos have."""
    return Counter(video.size for video in videos).most_common(1)[0][0]


def _rates(camera: str, videos: Sequence[VideoFile], fps: float) -> Iterator[Finding]:
    others = [video for video in videos if has_other_rate(video, fps)]
    rates = {f"{video.fps:.4g}" for video in others}
    if len(rates) == 1 and 2 * len(others) > len(videos):
        what = (
            f"info.json says {fps:.4g} frames per second, the videos of {camera!r} have "
            f"{rates.pop()}."
        )
        yield finding("RR305", what + _counts(others[0]), file=INFO_PATH, feature=camera)
        return
    for video in others:
        what = f"The video has {video.fps:.4g} images per second, info.json says {fps:.4g}."
        yield finding("RR305", what + _counts(video), file=video.file, feature=camera)


def _counts(video: VideoFile) -> str:
    if video.num_images == video.num_frames:
        return " There is an image for each frame, but readers that go by time find wrong ones."
    return f" In {video.file!r}, {video.num_images:,} images for {video.num_frames:,} frames."


def _wrong_ends(manifest: Manifest, camera: str, videos: Sequence[VideoFile]) -> Iterator[Finding]:
    """Yield, in one finding, that the ends of clips are stored wrongly. Few readers look at them."""
    positions = [
        p for video in videos if not has_other_rate(video, manifest.fps) for p in video.wrong_ends
    ]
    if not positions:
        return
    first, episodes = positions[0], manifest.episodes
    clips = episodes.clips[camera]
    end_s = clips.start_s[first] + episodes.length[first] / manifest.fps
    what = (
        f"The stored end of {counted(len(positions), 'clip')} of {camera!r} is not start + length / "
        f"fps: for episode {episodes.number[first]} it is {clips.stop_s[first]:.3f} s instead of "
        f"{end_s:.3f} s."
    )
    is_v3 = manifest.version.startswith("v3")
    yield finding("RR404", what, severity="note", feature=camera, fixable=is_v3)


def _differences_from_info(
    camera: str, feature: Feature, videos: Sequence[VideoFile]
) -> Iterator[Finding]:
    """Yield where most videos differ from info.json; single ones are a mixture."""
    height, width, channels = feature.shape
    size = usual_size(videos)
    if size != (height, width):
        what = (
            f"info.json says {_size((height, width))}, the videos of {camera!r} are {_size(size)}."
        )
        yield finding("RR406", what, file=INFO_PATH, feature=camera)
    expected = 3 if feature.depth is None else 1
    if channels != expected:
        what = (
            f"info.json says {counted(channels, 'channel')}, the videos of {camera!r} decode to "
            f"{expected}."
        )
        yield finding("RR406", what, file=INFO_PATH, feature=camera)
    bits = Counter(video.bits for video in videos).most_common(1)[0][0]
    if feature.depth is not None and bits not in (None, _DEPTH_BITS):
        what = (
            f"info.json says that {camera!r} is depth, which takes {_DEPTH_BITS} bits; its videos "
            f"have {bits}."
        )
        yield finding("RR406", what, file=INFO_PATH, feature=camera, fixable=False)
    declared, codec = declared_codec(feature), _usual_codec(videos)
    if declared not in (None, codec):
        what = f"info.json says the codec {declared}, the videos of {camera!r} are {codec}."
        yield finding("RR406", what, severity="warning", file=INFO_PATH, feature=camera)


def _mixtures(camera: str, videos: Sequence[VideoFile]) -> Iterator[Finding]:
    size, codec = usual_size(videos), _usual_codec(videos)
    for video in videos:
        if video.size != size:
            what = (
                f"The images of this video are {_size(video.size)}, those of most others "
                f"{_size(size)}: a batch cannot hold both."
            )
            yield finding("RR407", what, severity="error", file=video.file, feature=camera)
        if video.codec != codec:
            what = f"This video is {video.codec}, most others are {codec}."
            yield finding("RR407", what, file=video.file, feature=camera)


def _keyframes(camera: str, videos: Sequence[VideoFile]) -> Iterator[Finding]:
    for video in (video for video in videos if video.false_keyframes):
        what = (
            "The video has no keyframe table, as if decoding could start at every image. It cannot: "
            "random access is slow or fails."
        )
        yield finding("RR408", what, file=video.file, feature=camera)
    slow = [video for video in videos if video.packets_per_image > _MANY_PACKETS]
    if slow:
        worst = max(slow, key=lambda video: video.packets_per_image)
        what = (
            f"{_of(slow, videos)} of {camera!r}: there are few keyframes, and a random image takes "
            f"up to {worst.packets_per_image:.0f} packets to decode on average."
        )
        yield finding(
            "RR408",
            what,
            severity="note",
            file=_only(slow),
            feature=camera,
            fixable=False,
        )


def _codecs_without_viewer(camera: str, videos: Sequence[VideoFile]) -> Iterator[Finding]:
    unseen = [video for video in videos if video.codec not in _VIEWER_CODECS]
    if unseen:
        codecs = ", ".join(sorted({video.codec for video in unseen}))
        what = f"{_of(unseen, videos)} of {camera!r}: Rerun cannot show the codec {codecs}."
        yield finding("RR412", what, file=_only(unseen) or unseen[0].file, feature=camera)


def _usual_codec(videos: Sequence[VideoFile]) -> str:
    return Counter(video.codec for video in videos).most_common(1)[0][0]


def _size(size: tuple[int, int]) -> str:
    return f"{size[1]}x{size[0]}"


def _of(some: Sequence[VideoFile], videos: Sequence[VideoFile]) -> str:
    if len(some) == len(videos):
        return "The only video" if len(videos) == 1 else f"All {len(videos):,} videos"
    return f"{len(some):,} of {len(videos):,} videos"


def _only(videos: Sequence[VideoFile]) -> str | None:
    return videos[0].file if len(videos) == 1 else None


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
