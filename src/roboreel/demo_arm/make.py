"""A dataset of the simulated arm, made from nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.demo_arm.arm import TASKS, simulate_episode
from roboreel.demo_arm.render import render
from roboreel.demo_arm.spec import DemoSpec
from roboreel.files import atomic_folder
from roboreel.format import write_manifest
from roboreel.format.counters import counter_columns
from roboreel.format.places import new_files
from roboreel.format.tables import rows_within_files
from roboreel.format.write_data import write_data_file
from roboreel.image import encode_png
from roboreel.record.folders import check_absent
from roboreel.schema import ClipTable, EpisodeTable, Manifest
from roboreel.stats import Accumulator, ImageAccumulator
from roboreel.video.encode import Encoding, VideoWriter
from roboreel.video.splice import join_videos

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from roboreel.demo_arm.arm import SimulatedEpisode
    from roboreel.stats import FeatureStats

__all__ = ["make_demo_dataset"]

_EPISODES_PER_FILE = 20
_PICTURES_FOR_STATISTICS = 10


def make_demo_dataset(
    path: str | os.PathLike[str],
    spec: DemoSpec | None = None,
    *,
    on_episode: Callable[[int], object] = lambda _: None,
) -> Path:
    """Make a dataset; it appears whole or not at all, and equal specs give equal Parquet files.

    Args:
        path: A folder that does not exist yet, or is empty.
        spec: What the dataset is like.
        on_episode: Called after each episode, with how many are done.

    Returns:
        The dataset's folder.

    Raises:
        RecordingError: The path already exists, and is not an empty folder.
    """
    root = Path(path).expanduser()
    check_absent(root)
    with atomic_folder(root) as workshop:
        _Maker(workshop, spec or DemoSpec()).run(on_episode)
    return root


class _Maker:
    """Makes one dataset, episode by episode; holds the episodes of one file in memory."""

    def __init__(self, root: Path, spec: DemoSpec) -> None:
        self.root = root
        self.spec = spec
        self.features = spec.features
        self.cameras = [name for name, f in self.features.items() if f.is_camera]
        self.version = f"v{spec.version}"
        self.files = new_files(
            self.version,
            spec.episodes,
            cameras=self.cameras if spec.store == "video" else (),
            episodes_per_file=_EPISODES_PER_FILE,
        )
        self.lengths: list[int] = []
        self.clips: dict[str, list[float]] = {camera: [] for camera in self.cameras}
        self.episode_stats: list[dict[str, FeatureStats]] = []
        self.totals = {
            name: ImageAccumulator(3) if f.is_camera else Accumulator(f.value_shape)
            for name, f in self.features.items()
        }

    def run(self, on_episode: Callable[[int], object]) -> None:
        count = self.spec.episodes
        with ThreadPoolExecutor() as pool:
            for file in range(len(self.files.data)):
                numbers = np.flatnonzero(self.files.file == file).tolist()
                self._make_file(file, numbers, pool, on_episode)
        manifest = self._manifest()
        stats = {name: total.finish() for name, total in self.totals.items()} if count else {}
        write_manifest(manifest, stats=stats, episode_stats=self.episode_stats)

    def _make_file(
        self,
        file: int,
        numbers: Sequence[int],
        pool: ThreadPoolExecutor,
        on_episode: Callable[[int], object],
    ) -> None:
        tables, parts = [], []
        for number in numbers:
            run = simulate_episode(self.spec.seed, number, self.spec.frames, self.spec.fps)
            columns = self._columns(run, number)
            shot = [pool.submit(self._shoot, run, camera, number) for camera in self.cameras]
            for camera, result in zip(self.cameras, shot, strict=True):
                columns[camera], picture_stats = result.result()
                self._count(number, camera, picture_stats)
            self._count_numbers(number, columns)
            self.lengths.append(len(run))
            tables.append(columns)
            parts.append(number)
            on_episode(number + 1)
        write_data_file(self.root / self.files.data[file], tables, self.features)
        for camera, files in self.files.videos.items():
            self._join(camera, parts, self.root / files[file])

    def _columns(self, run: SimulatedEpisode, number: int) -> dict[str, Any]:
        return {
            "observation.state": run.state,
            "action": run.action,
            "next.reward": run.reward,
            "next.done": run.done,
            **counter_columns(
                len(run),
                episode=number,
                start=sum(self.lengths),
                tasks=TASKS.index(run.task),
                fps=self.spec.fps,
            ),
        }

    def _shoot(
        self, run: SimulatedEpisode, camera: str, number: int
    ) -> tuple[list[bytes], ImageAccumulator]:
        """Render what one camera sees of an episode, and store it."""
        name, size = camera.rpartition(".")[2], self.spec.size
        images = (render(scene, name, size) for scene in run.scenes)
        sampled = np.linspace(0, len(run) - 1, _PICTURES_FOR_STATISTICS).round().astype(int)
        stats, pictures = ImageAccumulator(3), []
        path = self._part(camera, number)
        encoding = Encoding(self.spec.codec)
        writer = (
            VideoWriter(path, size=size, fps=self.spec.fps, encoding=encoding)
            if self.spec.store == "video"
            else None
        )
        for frame, image in enumerate(images):
            if writer is None:
                pictures.append(encode_png(image))
            else:
                writer.write(image)
            if frame in sampled:
                stats.update(image.transpose(2, 0, 1)[None])
        if writer is not None:
            writer.close()
        return pictures, stats

    def _part(self, camera: str, number: int) -> Path:
        return self.root / f".{camera}-{number}.mp4"

    def _join(self, camera: str, numbers: Sequence[int], path: Path) -> None:
        """Join the videos of some episodes in one file by copying packets, as LeRobot does."""
        parts = [self._part(camera, number) for number in numbers]
        path.parent.mkdir(parents=True, exist_ok=True)
        self.clips[camera] += [float(start) for start in join_videos(parts, path)]
        for part in parts:
            part.unlink()

    def _count_numbers(self, number: int, columns: dict[str, Any]) -> None:
        for name, feature in self.features.items():
            if not feature.is_camera:
                counted = Accumulator(feature.value_shape)
                counted.update(columns[name])
                self._count(number, name, counted)

    def _count(self, number: int, name: str, part: Any) -> None:  # noqa: ANN401  # of either kind
        if len(self.episode_stats) <= number:
            self.episode_stats.append({})
        self.episode_stats[number][name] = part.finish()
        self.totals[name].merge(part)

    def _manifest(self) -> Manifest:
        count, file, videos = len(self.lengths), self.files.file, self.files.videos
        length = np.asarray(self.lengths, dtype=np.int64)
        start = np.cumsum(length) - length
        return Manifest(
            root=self.root,
            version=self.version,
            fps=self.spec.fps,
            features=self.features,
            tasks=dict(enumerate(TASKS)),
            episodes=EpisodeTable(
                number=np.arange(count, dtype=np.int64),
                start=start,
                length=length,
                data_file=file,
                data_row=rows_within_files(file, start, length),
                clips={camera: self._clip_table(camera, file, length) for camera in videos},
                task_bounds=np.arange(count + 1, dtype=np.int64),
                task_codes=np.arange(count, dtype=np.int64) % len(TASKS),
                task_texts=TASKS,
            ),
            data_files=self.files.data,
            video_files=videos,
            robot_type="roboreel_demo_arm",
        )

    def _clip_table(
        self, camera: str, file: NDArray[np.int64], length: NDArray[np.int64]
    ) -> ClipTable:
        start_s = np.asarray(self.clips[camera], dtype=np.float64)
        return ClipTable(file, start_s, start_s + length / self.spec.fps)
