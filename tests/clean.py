"""Clean datasets of every version, to corrupt: each row and each image tells its number.

``observation.state[0]`` is the row's number, and `number_of` reads the same number from the images
of the row, plus `FIRST` of the camera. Two cameras of different sizes, episodes of different
lengths, several files, random numbers, a pose of 4x4 with constant elements, a constant feature,
and an episode whose task changes half-way.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import imagecodecs
import numpy as np
import pyarrow.parquet as pq

from roboreel.format import write_manifest
from roboreel.format.counters import COUNTERS, counter_columns
from roboreel.format.places import NewFiles, new_files
from roboreel.format.video_info import with_video_info
from roboreel.format.write_data import write_data_file
from roboreel.schema import ClipTable, EpisodeTable, Feature, Manifest
from roboreel.stats import Accumulator, ImageAccumulator
from roboreel.video.encode import Encoding, encode_video
from tests.video_factory import decode_all, join_videos, numbered_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Store = Literal["video", "image"]

VERSIONS = ("v2.0", "v2.1", "v3.0")
FPS = 30
LENGTHS = (20, 12, 17, 25, 9, 14)
STARTS = tuple(int(start) for start in np.cumsum((0, *LENGTHS[:-1])))
NUM_ROWS = sum(LENGTHS)
TASKS = ("pick the cube", "open the drawer", "wipe the table")
CHANGING_EPISODE = 3
"""The first half of this episode has task 0, the second half task 1."""

FRONT, WRIST = "observation.images.front", "observation.images.wrist"
CAMERAS = (FRONT, WRIST)
SIZES = {FRONT: (48, 64), WRIST: (48, 96)}
FIRST = {FRONT: 0, WRIST: 2048}
"""What the image of row 0 shows; the image of row ``r`` shows this plus ``r``."""

ENCODING = Encoding("h264")


def clean_dataset(
    root: Path, version: str = "v3.0", *, store: Store = "video", episodes_per_file: int = 2
) -> Path:
    """Write a clean dataset to a folder that does not exist yet, and return the folder.

    Each kind is made once per process and copied from then on.

    Args:
        root: Where to write it.
        version: One of `VERSIONS`.
        store: Whether the images are videos, or PNG inside of the data files.
        episodes_per_file: In v3.0, for data and videos alike. In v2.x it is always 1.
    """
    per_file = episodes_per_file if version == "v3.0" else 1
    shutil.copytree(_template(version, store, per_file), root)
    return root


def task_of(row: int) -> str:
    """Return the task of a row of the clean dataset."""
    return TASKS[_task_numbers(episode_of(row))[row - STARTS[episode_of(row)]]]


def episode_of(row: int) -> int:
    """Return the episode of a row of the clean dataset."""
    return int(np.searchsorted(STARTS, row, side="right")) - 1


def rows_of(episode: int) -> range:
    """Return the rows of an episode of the clean dataset."""
    return range(STARTS[episode], STARTS[episode] + LENGTHS[episode])


def shown(camera: str, rows: Iterable[int]) -> list[int]:
    """Return the numbers that a camera's images of some rows show."""
    return [FIRST[camera] + row for row in rows]


def film(
    path: Path, camera: str, numbers: Iterable[int], size: tuple[int, int] | None = None
) -> None:
    """Write a video of numbered images, encoded as the clean ones are."""
    height, width = size or SIZES[camera]
    film_images(path, (numbered_image(number, height, width) for number in numbers))


def film_images(
    path: Path, images: Iterable[NDArray[np.uint8]], encoding: Encoding = ENCODING
) -> None:
    """Write a video of images."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encode_video(path, images, fps=FPS, encoding=encoding)


def features(store: Store = "video") -> dict[str, Feature]:
    """Return the features of the clean dataset."""
    cameras = {}
    for camera, size in SIZES.items():
        feature = Feature(store, (*size, 3), ("height", "width", "channels"))
        cameras[camera] = with_video_info(feature, ENCODING, FPS) if store == "video" else feature
    joints = tuple(f"joint_{i}" for i in range(6))
    return {
        "observation.state": Feature("float32", (6,), joints),
        "action": Feature("float32", (6,), joints),
        "observation.pose": Feature("float64", (4, 4)),
        "observation.temperature": Feature("float32", (1,)),
        "next.done": Feature("bool", (1,)),
        **cameras,
        **COUNTERS,
    }


@cache
def _template(version: str, store: Store, per_file: int) -> Path:
    root = _keep() / f"{version}-{store}-{per_file}"
    files = new_files(
        version,
        len(LENGTHS),
        cameras=CAMERAS if store == "video" else (),
        episodes_per_file=per_file,
    )
    clips = {camera: _write_videos(root, files, camera) for camera in files.videos}
    _write_data(root, files, store)
    if version != "v3.0":
        for path in (root / "data").rglob("*.parquet"):
            _describe_as_lerobot_0_3(path)
    totals, episode_stats = _statistics(store)
    manifest = _manifest(root, version, store, files, clips)
    write_manifest(manifest, stats=totals, episode_stats=episode_stats)
    return root


@cache
def _keep() -> Path:
    """Return a folder that stays until the process ends."""
    _KEPT.append(tempfile.TemporaryDirectory(prefix="roboreel-clean-"))
    return Path(_KEPT[0].name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@cache
def _clip(camera: str, episode: int) -> Path:
    """Return the video of one episode, which the videos of all versions are made from."""
    path = _keep() / f"{camera}-{episode}.mp4"
    film(path, camera, shown(camera, rows_of(episode)))
    return path


@cache
def _columns(episode: int) -> dict[str, Any]:
    rows = rows_of(episode)
    rng = np.random.default_rng(episode)
    state = rng.normal(size=(len(rows), 6))
    state[:, 0] = rows
    pose = np.tile(np.eye(4), (len(rows), 1, 1))
    pose[:, :3] += rng.normal(size=(len(rows), 3, 4))
    counters = counter_columns(
        len(rows), episode=episode, start=rows[0], tasks=_task_numbers(episode), fps=FPS
    )
    return {
        "observation.state": state.astype(np.float32),
        "action": rng.normal(size=(len(rows), 6)).astype(np.float32),
        "observation.pose": pose,
        "observation.temperature": np.full(len(rows), 36.5, np.float32),
        "next.done": np.arange(len(rows)) == len(rows) - 1,
        **counters,
    }


def _task_numbers(episode: int) -> NDArray[np.int64]:
    numbers = np.full(LENGTHS[episode], episode % len(TASKS), dtype=np.int64)
    if episode == CHANGING_EPISODE:
        numbers[len(numbers) // 2 :] = 1
    return numbers


def _pictures(camera: str, episode: int) -> list[bytes]:
    return [
        bytes(imagecodecs.png_encode(numbered_image(number, *SIZES[camera])))
        for number in shown(camera, rows_of(episode))
    ]


def _write_data(root: Path, files: NewFiles, store: Store) -> None:
    stored = CAMERAS if store == "image" else ()
    for file in range(len(files.data)):
        tables = [
            _columns(episode) | {camera: _pictures(camera, episode) for camera in stored}
            for episode in np.flatnonzero(files.file == file).tolist()
        ]
        write_data_file(root / files.data[file], tables, features(store), sync=False)


def _describe_as_lerobot_0_3(path: Path) -> None:
    """Describe lists in the words of ``datasets`` 3, which cannot read files of ``datasets`` 4."""
    table = pq.read_table(path)
    words = table.schema.metadata[b"huggingface"].replace(b'"List"', b'"Sequence"')
    pq.write_table(table.replace_schema_metadata({b"huggingface": words}), path)


def _write_videos(root: Path, files: NewFiles, camera: str) -> list[float]:
    """Write the video files of a camera, and return when each episode starts in its file."""
    starts: list[float] = []
    for file in range(len(files.data)):
        path = root / files.videos[camera][file]
        path.parent.mkdir(parents=True, exist_ok=True)
        clips = [_clip(camera, episode) for episode in np.flatnonzero(files.file == file).tolist()]
        starts += join_videos(path, clips, FPS)
    return starts


@cache
def _statistics(store: Store) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the statistics of the dataset and of each episode, images as they are decoded."""
    totals: dict[str, Any] = {}
    episodes: list[dict[str, Any]] = []
    for episode in range(len(LENGTHS)):
        counted: dict[str, Any] = {}
        for name, feature in features(store).items():
            part: Any = ImageAccumulator(3) if feature.is_camera else Accumulator(feature.shape)
            part.update(
                _images(name, episode, store) if feature.is_camera else _columns(episode)[name]
            )
            counted[name] = part.finish()
            if name in totals:
                totals[name].merge(part)
            else:
                totals[name] = part
        episodes.append(counted)
    return {name: total.finish() for name, total in totals.items()}, episodes


def _images(camera: str, episode: int, store: Store) -> NDArray[np.uint8]:
    if store == "video":
        images = decode_all(_clip(camera, episode))
    else:
        numbers = shown(camera, rows_of(episode))
        images = np.stack([numbered_image(number, *SIZES[camera]) for number in numbers])
    return images.transpose(0, 3, 1, 2)


def _manifest(
    root: Path, version: str, store: Store, files: NewFiles, clips: Mapping[str, Sequence[float]]
) -> Manifest:
    count = len(LENGTHS)
    length, start = np.asarray(LENGTHS, np.int64), np.asarray(STARTS, np.int64)
    tasks = [sorted({int(i) for i in _task_numbers(episode)}) for episode in range(count)]
    return Manifest(
        root=root,
        version=version,
        fps=FPS,
        features=features(store),
        tasks=dict(enumerate(TASKS)),
        episodes=EpisodeTable(
            number=np.arange(count, dtype=np.int64),
            start=start,
            length=length,
            data_file=files.file,
            data_row=start - start[np.searchsorted(files.file, files.file)],
            clips={
                camera: ClipTable(files.file, np.array(starts), np.array(starts) + length / FPS)
                for camera, starts in clips.items()
            },
            task_bounds=np.cumsum([0, *map(len, tasks)]).astype(np.int64),
            task_codes=np.concatenate(tasks).astype(np.int64),
            task_texts=TASKS,
        ),
        data_files=files.data,
        video_files=files.videos,
        robot_type="test_arm",
        splits={"train": f"0:{count}"},
    )
