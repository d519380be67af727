"""Corruptions of videos, and of what the metadata says about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
import numpy as np

from roboreel.video.encode import Encoding
from tests.clean import FRONT, LENGTHS, SIZES, WRIST, film_images, rows_of, shown
from tests.corruption import Place, corruption
from tests.surgery import Folder, copy_packets, cut, overwrite, rename_box
from tests.video_factory import numbered_image, write_video

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

V2 = ("v2.0", "v2.1")
V3 = ("v3.0",)
IMAGE_STATISTICS = ("RR501", "RR506")


@corruption("RR401")
def video_cut_in_half(folder: Folder) -> Place:
    """Its index, at the end of the file, is lost."""
    file = folder.video(WRIST, 3)
    path = folder.root / file
    cut(path, path.stat().st_size // 2)
    return Place((file,), (3,), WRIST)


@corruption("RR401")
def video_cut_behind_its_index(folder: Folder) -> Place:
    """The index, at the start of the file, lists images that are cut off."""
    file = folder.video(WRIST, 3)
    path = folder.root / file
    copy_packets(path, options={"movflags": "+faststart"})
    cut(path, path.stat().st_size * 3 // 4)
    return Place((file,), (3,), WRIST)


@corruption("RR401")
def zero_byte_video(folder: Folder) -> Place:
    file = folder.video(WRIST, 3)
    (folder.root / file).write_bytes(b"")
    return Place((file,), (3,), WRIST)


@corruption("RR402")
def video_short(folder: Folder) -> Place:
    """The last 8 images of the file are missing."""
    file = folder.video(WRIST, 3)
    count = len(folder.numbers(WRIST, 3))
    copy_packets(folder.root / file, keep=lambda number: number < count - 8)
    return Place((file,), (3,), WRIST)


@corruption("RR402")
def video_one_image_short(folder: Folder) -> Place:
    """One image is missing, so that the last row has none, or the next episode's."""
    file = folder.video(WRIST, 3)
    count = len(folder.numbers(WRIST, 3))
    copy_packets(folder.root / file, keep=lambda number: number < count - 1)
    return Place((file,), (3,), WRIST)


@corruption("RR403")
def video_long(folder: Folder) -> Place:
    """Behind the last clip there are images of nothing, as a discarded take leaves them."""
    file = folder.refilm(WRIST, 3, lambda numbers: [*numbers, 4000, 4001, 4002])
    return Place((file,), (3,), WRIST)


@corruption("RR404", versions=V3, restores="values", also=("RR402", "RR405"))
def clip_starts_half_a_second_late(folder: Folder) -> Place:
    return _shifted(folder, 15)


@corruption("RR404", versions=V3, restores="values", also=("RR405",))
def clip_starts_one_frame_late(folder: Folder) -> Place:
    return _shifted(folder, 1)


@corruption("RR404", versions=V2, also=("RR402",))
def video_starts_half_a_second_late(folder: Folder) -> Place:
    """The first image of the file is shown at 0.5 s."""
    return _shifted(folder, 15)


@corruption("RR404", versions=V2, also=("RR402",))
def video_starts_one_frame_late(folder: Folder) -> Place:
    """The first image of the file is shown when the second one is due."""
    return _shifted(folder, 1)


@corruption("RR405", versions=V3, restores="values", also=("RR403", "RR404"))
def clips_overlap(folder: Folder) -> Place:
    """Episode 3 starts ten images too early, inside of episode 2."""
    folder.shift_clip(WRIST, 3, -10)
    return Place((folder.episode_table, folder.video(WRIST, 3)), (2, 3), WRIST)


@corruption("RR406", restores="bytes")
def size_differs_from_info(folder: Folder) -> Place:
    info = {**folder.info["features"][FRONT]["info"], "video.height": 96, "video.width": 128}
    folder.edit_feature(FRONT, shape=[96, 128, 3], info=info)
    return Place(("meta/info.json", folder.video(FRONT, 0)), feature=FRONT)


@corruption("RR407", also=("RR406", *IMAGE_STATISTICS))
def mixed_sizes(folder: Folder) -> Place:
    file = folder.refilm(FRONT, 3, lambda numbers: numbers, size=(64, 96))
    return Place((file,), (3,), FRONT)


@corruption("RR407", also=("RR406", *IMAGE_STATISTICS))
def mixed_codecs(folder: Folder) -> Place:
    file = folder.video(FRONT, 3)
    images = [numbered_image(n, *SIZES[FRONT]) for n in folder.numbers(FRONT, 3)]
    film_images(folder.root / file, images, Encoding("av1"))
    return Place((file,), (3,), FRONT)


@corruption("RR408", restores="values")
def no_keyframe_table(folder: Folder) -> Place:
    """By the standard every image is a keyframe then, but half of them are not."""
    file = folder.video(WRIST, 3)
    rename_box(folder.root / file, b"stss")
    return Place((file,), (3,), WRIST)


@corruption("RR409", also=("RR611", *IMAGE_STATISTICS))
def frozen_feed(folder: Folder) -> Place:
    """A camera shows the same image through a whole episode, which packet sizes tell."""
    file = folder.refilm(WRIST, 3, lambda numbers: [numbers[0]] * len(numbers))
    return Place((file,), (3,), WRIST)


@corruption("RR611", also=("RR409", *IMAGE_STATISTICS))
def frozen_camera(folder: Folder) -> Place:
    """From image 8 on, a camera shows the same image."""
    file = folder.refilm(
        WRIST, 3, lambda numbers: [numbers[min(i, 8)] for i in range(len(numbers))]
    )
    return Place((file,), (3,), WRIST)


@corruption("RR410", also=("RR406", "RR407", *IMAGE_STATISTICS))
def swapped_cameras(folder: Folder) -> Place:
    """Two cameras have each other's video; their sizes tell."""
    files = (folder.video(FRONT, 3), folder.video(WRIST, 3))
    _swap(folder, *files)
    return Place(files, (3,))


@corruption("RR410", also=("RR402", "RR403", "RR404", *IMAGE_STATISTICS))
def swapped_videos(folder: Folder) -> Place:
    """Two files of a camera have changed places; the numbers of their images tell."""
    files = (folder.video(FRONT, 1), folder.video(FRONT, 3))
    _swap(folder, *files)
    return Place(files, (0, 1, 2, 3), FRONT)


@corruption("RR412", also=IMAGE_STATISTICS)
def codec_that_rerun_cannot_show(folder: Folder) -> Place:
    files = {folder.video(FRONT, episode): episode for episode in range(len(LENGTHS))}
    for file, episode in files.items():
        write_video(
            folder.root / file, folder.numbers(FRONT, episode), "mpeg4", gop=2, size=SIZES[FRONT]
        )
    info = {**folder.info["features"][FRONT]["info"], "video.codec": "mpeg4"}
    folder.edit_feature(FRONT, info=info)
    return Place(("meta/info.json", *files), feature=FRONT)


@corruption("RR610")
def undecodable_images(folder: Folder) -> Place:
    """Some packets of an episode are zeros; the tables of the file are right."""
    file = folder.video(WRIST, 3)
    path = folder.root / file
    damaged = len(folder.numbers(WRIST, 3)) - 7
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        places = [(packet.pos, packet.size) for packet in packets]
    for offset, size in places[damaged : damaged + 3]:
        overwrite(path, offset, bytes(size))
    return Place((file,), (3,), WRIST)


@corruption("RR612", also=("RR409", "RR611", *IMAGE_STATISTICS))
def black_images(folder: Folder) -> Place:
    return _refilm_images(folder, 3, np.zeros_like)


@corruption("RR613", also=IMAGE_STATISTICS)
def blurred_images(folder: Folder) -> Place:
    """Each image is a smooth ramp, a little brighter than the one before."""

    def blur(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        ramp = np.linspace(0, 60, image.shape[1])[None, :, None] + image.mean()
        return np.broadcast_to(ramp, image.shape).clip(0, 255).astype(np.uint8)

    return _refilm_images(folder, 3, blur)


def _shifted(folder: Folder, frames: float) -> Place:
    """Shift the first clip of a file, which has another one behind it in v3.0."""
    folder.shift_clip(WRIST, 2, frames)
    file = folder.video(WRIST, 2)
    return Place((file, folder.episode_table) if folder.is_v3 else (file,), (2,), WRIST)


def _swap(folder: Folder, first: str, second: str) -> None:
    content = (folder.root / first).read_bytes()
    (folder.root / first).write_bytes((folder.root / second).read_bytes())
    (folder.root / second).write_bytes(content)


def _refilm_images(folder: Folder, episode: int, change: Callable[[Any], Any]) -> Place:
    file = folder.video(WRIST, episode)
    images: list[Any] = []
    for e in folder.episodes_in(file):
        clip = [numbered_image(number, *SIZES[WRIST]) for number in shown(WRIST, rows_of(e))]
        images += [change(image) for image in clip] if e == episode else clip
    film_images(folder.root / file, images)
    return Place((file,), (episode,), WRIST)
