"""Wild datasets whose videos, or whose tables about them, are unlike LeRobot's."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from tests.clean import CAMERAS, FPS, FRONT, LENGTHS, NUM_ROWS, WRIST, clean_dataset, rows_of, shown
from tests.surgery import LFS_POINTER, Folder, overwrite, rename_box
from tests.video_factory import write_video
from tests.wild_fixture import V2, V3, Truth, hidden, wild

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

V2_VIDEO_PATH = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"


@wild("A1", versions=V3)
def to_timestamp_of_last_frame(root: Path, version: str) -> Truth:
    """Each clip ends at the time of its last image. All values are as in the clean one."""
    return _edit_ends(root, version, lambda start, length: start + (length - 1) / FPS)


@wild("A1", versions=V3)
def to_timestamp_zero(root: Path, version: str) -> Truth:
    """Each clip ends at 0 s. All values are as in the clean one."""
    return _edit_ends(root, version, lambda _start, _length: 0.0)


@wild("A1", versions=V3)
def to_timestamp_null(root: Path, version: str) -> Truth:
    """No clip is said to end. All values are as in the clean one."""
    return _edit_ends(root, version, lambda _start, _length: None)


@wild("A1", versions=V3)
def from_timestamp_null(root: Path, version: str) -> Truth:
    """One episode to a file, and no clip is said to start. All values are as in the clean one."""
    folder = Folder(clean_dataset(root, version, episodes_per_file=1))
    nulls = {f"videos/{camera}/from_timestamp": None for camera in CAMERAS}
    folder.edit_table(folder.episode_table, lambda rows: [{**row, **nulls} for row in rows])
    return Truth()


@wild("A2")
def declared_camera_without_files(root: Path, version: str) -> Truth:
    """A third camera is declared and has no file, nor a column in the episode table.

    Everything else is as in the clean one. Asked for by name, the camera is an error.
    """
    folder = Folder(clean_dataset(root, version))
    features = folder.info["features"]
    folder.edit_info(features={**features, "observation.images.ego": features[FRONT]})
    return Truth()


@wild("A4")
def rows_out_of_order(root: Path, version: str) -> Truth:
    """Two stretches of episode 2 have changed places, with all that belongs to their rows.

    The image of a row is the one of its ``frame_index`` and ``timestamp``: it shows the number that
    ``observation.state[0]`` has, not the row's position.
    """
    folder = Folder(clean_dataset(root, version))
    order = [*range(6, 12), *range(6), *range(12, LENGTHS[2])]
    folder.edit_frames(2, lambda table: table.take(order))
    rows = list(range(NUM_ROWS))
    start = rows_of(2)[0]
    rows[start : start + LENGTHS[2]] = [start + i for i in order]
    images = {camera: tuple(shown(camera, rows)) for camera in CAMERAS}
    return Truth(rows=tuple(rows), images=images)


@wild("A4")
def fps_half_of_the_video(root: Path, version: str) -> Truth:
    """info.json and the timestamps say 15 images a second, the videos 30.

    There are as many images as frames, so that counting them is right: all values are as in the
    clean one. The time of a frame lies beyond the video, or at the image of another frame.
    """
    folder = Folder(clean_dataset(root, version, episodes_per_file=1))
    folder.edit_info(fps=FPS // 2)
    _retime(folder, FPS // 2)
    if folder.is_v3:
        for episode, length in enumerate(LENGTHS):
            ends = {f"videos/{camera}/to_timestamp": 2 * length / FPS for camera in CAMERAS}
            folder.edit_episode(episode, **ends)
    return Truth()


@wild("A4")
def video_of_half_the_images(root: Path, version: str) -> Truth:
    """The videos have every second image, at 15 a second; info.json and the timestamps say 30.

    Every second row has no image of its own, and reading it is an error that names both rates. The
    others may be refused with it.
    """
    folder = Folder(clean_dataset(root, version, episodes_per_file=1))
    for camera in CAMERAS:
        for episode in range(len(LENGTHS)):
            _slow_down(folder, camera, episode)
    odd = [row for episode in range(len(LENGTHS)) for row in rows_of(episode)[1::2]]
    images = {camera: hidden(numbers, odd) for camera, numbers in Truth().images.items()}
    return Truth(images=images, refusable=frozenset(range(NUM_ROWS)), says=("15", "30"))


@wild("A4")
def variable_frame_rate(root: Path, version: str) -> Truth:
    """Episode 3 was filmed with a pause: timestamps and video both jump by half a second.

    Clock and count agree on every image: all values are as in the clean one.
    """
    folder = Folder(clean_dataset(root, version, episodes_per_file=1))
    ticks_per_image = 512
    for camera in CAMERAS:
        path = folder.root / folder.video(camera, 3)
        _pause(path, after=10, ticks=15 * ticks_per_image)
    jump = [i / FPS + (0.5 if i >= 10 else 0) for i in range(LENGTHS[3])]
    folder.edit_column(3, "timestamp", lambda _values: jump)
    if folder.is_v3:
        end = LENGTHS[3] / FPS + 0.5
        folder.edit_episode(3, **{f"videos/{camera}/to_timestamp": end for camera in CAMERAS})
    return Truth()


@wild("A6", versions=V3)
def v3_with_v2_video_paths(root: Path, version: str) -> Truth:
    """Videos are named as in v2.x, one to an episode. All values are as in the clean one."""
    folder = Folder(clean_dataset(root, version, episodes_per_file=1))
    for camera in CAMERAS:
        for episode in range(len(LENGTHS)):
            name = V2_VIDEO_PATH.format(episode_chunk=0, video_key=camera, episode_index=episode)
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(root / folder.video(camera, episode), root / name)
        shutil.rmtree(root / "videos" / camera)
    folder.edit_info(video_path=V2_VIDEO_PATH)
    return Truth()


@wild("A6", versions=V2)
def v2_paths_with_chunk_index(root: Path, version: str) -> Truth:
    """Paths of v2.x whose templates say ``chunk_index``. All values are as in the clean one."""
    folder = Folder(clean_dataset(root, version))
    paths = {key: folder.info[key] for key in ("data_path", "video_path")}
    changed = {key: path.replace("episode_chunk", "chunk_index") for key, path in paths.items()}
    folder.edit_info(**changed)
    return Truth()


@wild("A7")
def rotated_videos(root: Path, version: str) -> Truth:
    """The videos of a camera carry a rotation by 90 degrees, which players apply.

    The images as stored are those of the clean one, and so are their sizes in info.json.
    """
    folder = Folder(clean_dataset(root, version))
    for file in sorted({folder.video(WRIST, episode) for episode in range(len(LENGTHS))}):
        rotate(root / file)
    return Truth()


@wild("A8")
def videos_without_keyframe_table(root: Path, version: str) -> Truth:
    """No ``stss`` box, which means that every image is a keyframe, but half of them are not.

    Decoded from the start, all values are as in the clean one.
    """
    folder = Folder(clean_dataset(root, version))
    for camera in CAMERAS:
        for file in sorted({folder.video(camera, episode) for episode in range(len(LENGTHS))}):
            rename_box(root / file, b"stss")
    return Truth()


@wild("A8")
def lfs_pointer_video(root: Path, version: str) -> Truth:
    """One video of a camera is a Git LFS pointer. All else reads; its images are an error."""
    folder = Folder(clean_dataset(root, version))
    file = folder.video(WRIST, 3)
    lost = [row for episode in folder.episodes_in(file) for row in rows_of(episode)]
    (root / file).write_text(LFS_POINTER)
    images = dict(Truth().images)
    images[WRIST] = hidden(images[WRIST], lost)
    return Truth(images=images, says=("git lfs pull",))


def rotate(path: Path) -> None:
    """Write a rotation by 90 degrees into the header of a video's track, as phones do."""
    content = path.read_bytes()
    header = content.rindex(b"tkhd")
    # The matrix follows version, flags, times, number, duration, layer and volume: 40 bytes.
    one, minus_one = (1 << 16).to_bytes(4, "big"), (-(1 << 16)).to_bytes(4, "big", signed=True)
    zero, unit = bytes(4), (1 << 30).to_bytes(4, "big")
    matrix = (zero, one, zero, minus_one, zero, zero, zero, zero, unit)
    overwrite(path, header + 4 + 40, b"".join(matrix))


def _edit_ends(root: Path, version: str, end_of: Callable[[float, int], float | None]) -> Truth:
    folder = Folder(clean_dataset(root, version))

    def change(row: dict[str, Any]) -> dict[str, Any]:
        ends = {
            f"videos/{camera}/to_timestamp": end_of(
                row[f"videos/{camera}/from_timestamp"], row["length"]
            )
            for camera in CAMERAS
        }
        return {**row, **ends}

    folder.edit_table(folder.episode_table, lambda rows: [change(row) for row in rows])
    return Truth()


def _retime(folder: Folder, fps: float) -> None:
    for episode in range(len(LENGTHS)):
        folder.edit_column(
            episode, "timestamp", lambda values: [i / fps for i in range(len(values))]
        )


def _slow_down(folder: Folder, camera: str, episode: int) -> None:
    from tests.clean import SIZES

    numbers = folder.numbers(camera, episode)[::2]
    path = folder.root / folder.video(camera, episode)
    write_video(path, numbers, gop=2, fps=FPS // 2, size=SIZES[camera])


def _pause(path: Path, *, after: int, ticks: int) -> None:
    """Show all images from a number on later; the one before stays on screen."""
    import av

    copy = path.with_suffix(".copy.mp4")
    with av.open(str(path)) as source, av.open(str(copy), "w") as out:
        video = source.streams.video[0]
        stream = out.add_stream_from_template(video, opaque=True)
        packets = [packet for packet in source.demux(video) if packet.size]
        for number, packet in enumerate(packets):
            later = ticks if number >= after else 0
            packet.pts, packet.dts = packet.pts + later, packet.dts + later
            packet.stream = stream
            out.mux(packet)
    copy.replace(path)
