"""Dataset: the friendly face of reading."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.episodes import Episodes
from roboreel.dataset.memory import Memory
from roboreel.dataset.plan import select_episodes, whole_numbers
from roboreel.dataset.statistics import compute_stats, number_features
from roboreel.errors import TaskNotFoundError
from roboreel.format import read_manifest
from roboreel.format.hub import dataset_folder
from roboreel.format.statistics import read_stats
from roboreel.memory.budget import parse_size, process_budget
from roboreel.sample_spec import spec_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.cache import Picture
    from roboreel.dataset.episodes import Episode
    from roboreel.dataset.plan import Selection
    from roboreel.dataset.reader import Reader
    from roboreel.findings import Finding
    from roboreel.image import Layout
    from roboreel.sample_spec import SampleSpec, Windows
    from roboreel.schema import Feature, Manifest
    from roboreel.stats import FeatureStats

__all__ = ["Dataset", "open_dataset"]


def open_dataset(
    path: str | os.PathLike[str],
    *,
    memory: int | str | None = None,
    decode_threads: int | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Open a LeRobot dataset (v2.0, v2.1 or v3.0) in place.

    Only metadata is read: no data or video file is touched, nothing is written.

    Args:
        path: The folder that holds ``meta/info.json``; or ``hf://datasets/owner/name[@revision]``,
            for a dataset that was downloaded before.
        memory: Limit of the process's one byte budget, such as ``"2GB"``; all datasets of a
            process share it, and the last word counts. 512 MiB unless anybody said otherwise.
        decode_threads: Threads that decode images side by side; one per core when not given.
        cache: A training cache of this dataset, made by `Dataset.materialize`: what it holds is
            read from its mapped shards, images in its size unless another is asked for.

    Raises:
        NotADatasetError: There is no dataset at this path.
        UnsupportedVersionError: It is of a version that is not read.
        MetadataError: A metadata file cannot be understood.
        CacheError: The cache is not there, or was made from another state of the dataset.
    """
    if memory is not None:
        process_budget().limit_bytes = parse_size(memory)
    manifest = read_manifest(dataset_folder(path))
    source = _Source(manifest, decode_threads, None if cache is None else Path(cache).expanduser())
    if cache is not None:
        _ = source.reader  # A cache that does not fit is refused now, not at the first read.
    return Dataset(source)


@dataclass(frozen=True, eq=False)
class _Source:
    """What a dataset and all its views share."""

    manifest: Manifest
    decode_threads: int | None
    cache: Path | None

    @cached_property
    def reader(self) -> Reader:
        # Imported with the first read: looking at a dataset needs no decoder.
        from roboreel.dataset.reader import open_reader

        return open_reader(self.manifest, process_budget(), self.decode_threads, self.cache)


class Dataset:
    """A LeRobot dataset, or a view of some of its episodes; it never changes a file.

    Samples are numbered ``0 … len - 1``: the frames of the episodes, in the order in which the
    dataset stores them.
    """

    def __init__(self, source: _Source, positions: NDArray[np.int64] | None = None) -> None:
        self.manifest = source.manifest
        self._source = source
        self._positions = positions

    @property
    def path(self) -> Path:
        """The dataset's folder."""
        return self.manifest.root

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.manifest.fps

    @property
    def features(self) -> Mapping[str, Feature]:
        """What every frame has, by name."""
        return self.manifest.features

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the features whose values are images."""
        return self.manifest.cameras

    @property
    def tasks(self) -> Mapping[int, str]:
        """Task texts by task number."""
        return self.manifest.tasks

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What does not add up in the metadata; empty for a sound dataset. Each prints as a sentence."""
        return self.manifest.problems

    @cached_property
    def episodes(self) -> Episodes:
        """The episodes, as a lazy sequence."""
        return Episodes(self, self._selection.positions)

    @cached_property
    def stats(self) -> Mapping[str, FeatureStats]:
        """Statistics of the whole dataset, read from its metadata when first asked for.

        Those of numbers that the metadata lacks are computed: every value is read once.
        """
        stats = read_stats(self.manifest)
        missing = [name for name in number_features(self) if name not in stats]
        if not missing:
            return stats
        return {**stats, **compute_stats(self._view(None), missing)}

    def compute_stats(self, features: Sequence[str] | None = None) -> Mapping[str, FeatureStats]:
        """Return statistics of the numbers of this view, with true quantiles.

        Every value is read once, about ten million a second. Metadata that was written by LeRobot
        has averages of the quantiles of episodes instead, and before v3.0 it has none.

        Raises:
            FeatureNotFoundError: A feature that does not exist, or is not made of numbers.
        """
        return compute_stats(self, features)

    @property
    def selection(self) -> Selection:
        """Which episodes these are, and how their frames are numbered as samples."""
        return self._selection

    @property
    def episode_bounds(self) -> NDArray[np.int64]:
        """Samples of the i-th episode with frames are ``[bounds[i], bounds[i + 1])``."""
        return self._selection.bounds

    @property
    def memory(self) -> Memory:
        """The byte budget, what is held now and by what, and which path each feature is on."""
        budget = process_budget()
        return Memory(
            limit_bytes=budget.limit_bytes,
            held_bytes=budget.held_bytes,
            held_by=budget.held_by_owner(),
            paths=self._reader.paths(),
        )

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self._selection)

    def __getitem__(self, sample: int) -> dict[str, Any]:
        """Return one sample: every feature and the task, images decoded."""
        return {name: values[0] for name, values in self.read([sample]).items()}

    def read(
        self,
        samples: Sequence[int] | NDArray[np.int64],
        features: Sequence[str] | SampleSpec | None = None,
        *,
        windows: Windows | None = None,
        image_size: Sequence[int] | None = None,
        layout: Layout | None = None,
    ) -> dict[str, Any]:
        """Return a batch of samples as a dict of arrays.

        Args:
            samples: Sample numbers, ``(B,)``, in any order, with or without repeats.
            features: Names of the features to read, or a `SampleSpec` in place of all arguments
                that follow. By default all features are read, and ``"task"``.
            windows: Windows by feature; ``range(16)`` is short for ``Window(frames=range(16))``.
                Such a feature comes as ``(B, T, …)``, with a mask ``"<name>_is_pad"`` ``(B, T)``
                that is True where the window left the episode and its first or last frame was
                repeated.
            image_size: Height and width to scale images to; by default the stored size.
            layout: Order of the axes of images, ``"chw"`` (the default) or ``"hwc"``.

        Returns:
            Arrays ``(B, …)`` by feature; a feature of shape ``(1,)`` is a scalar, ``(B,)``. Texts
            are objects, ``"task"`` is a list. Images are uint8 ``(B, C, H, W)``; depth from video
            is float32, in metres. The memory is the caller's.

        Raises:
            RowNotFoundError: A sample number outside the dataset.
            FeatureNotFoundError: A feature that does not exist.
            WindowError: Offsets that are not integers, or do not fall on frames.
            MissingFileError: A file that the metadata names is not there.
            MissingImageError: A video that has fewer images than its episode has frames.
        """
        wanted = whole_numbers(samples, "Samples")
        spec = spec_of(features, windows, image_size, layout)
        return self._reader.read(self._selection.rows(wanted), spec)

    def encoded_images(
        self, camera: str, samples: Sequence[int] | NDArray[np.int64]
    ) -> list[bytes]:
        """Return pictures as they are stored, PNG or JPEG, of a camera that is not video.

        Raises:
            FeatureNotFoundError: There is no such camera, or it is stored as video.
        """
        wanted = np.asarray(samples, dtype=np.int64).reshape(-1)
        return self._reader.encoded_images(camera, self._selection.rows(wanted))

    def select(
        self,
        episodes: Iterable[int] | None = None,
        *,
        tasks: Iterable[str] | None = None,
    ) -> Dataset:
        """Return a view of some episodes, in the dataset's order; nothing is copied.

        Args:
            episodes: Episode numbers, in any order; all when not given.
            tasks: Keep the episodes that have one of these tasks.

        Raises:
            EpisodeNotFoundError: An episode that does not exist, or is not in this view.
        """
        positions = self._selection.positions
        if episodes is not None:
            asked = self.manifest.episodes.positions_of(whole_numbers(episodes, "Episodes"))
            self._check_inside(asked)
            positions = np.unique(asked)
        if tasks is not None:
            positions = positions[self._has_task(positions, tasks)]
        return self._view(positions)

    def filter(self, keep: Callable[[Episode], bool]) -> Dataset:
        """Return a view of the episodes for which ``keep`` is true."""
        kept = [episode.position for episode in self.episodes if keep(episode)]
        return self._view(np.asarray(kept, dtype=np.int64))

    def materialize(
        self,
        path: str | os.PathLike[str],
        cameras: Mapping[str, Picture] | None = None,
        *,
        on_rows: Callable[[int, int], object] = lambda done, total: None,
    ) -> Dataset:
        """Decode the dataset once into mapped shards, and return it with them.

        All episodes are stored, also when this is a view: other picks find the same cache. It
        costs disk: see ``roboreel cache build --dry-run``. Numbers are always stored, so that all
        processes of a machine share one copy of them in memory.

        Args:
            path: A folder of the cache's own. What an interrupted build has finished is found
                again; a whole cache of the same dataset and pictures is used as it is.
            cameras: `Jpeg` or `Raw` by camera, or by a pattern such as ``"observation.images.*"``;
                other cameras are read from the source.
            on_rows: Called with the rows done and the rows in all, every now and then.

        Raises:
            CacheError: A pattern fits no camera, or the folder holds other files.
        """
        from roboreel.dataset.cache.build import materialize

        root = Path(path).expanduser()
        materialize(self, root, cameras, on_rows=on_rows)
        opened = open_dataset(self.path, **{**self._settings, "cache": root})
        return opened if self._positions is None else opened._view(self._positions)

    def __repr__(self) -> str:
        return (
            f"Dataset({str(self.path)!r}, {len(self.episodes)} episodes, {len(self)} frames, "
            f"{self.fps:g} fps, {self.manifest.version})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A path and a bit per episode: workers read the metadata for themselves.
        bits = None
        if self._positions is not None:
            chosen = np.zeros(len(self.manifest.episodes), dtype=bool)
            chosen[self._positions] = True
            bits = np.packbits(chosen)
        settings = {**self._settings, "memory": process_budget().limit_bytes}
        return _reopen, (self.path, settings, bits)

    def _view(self, positions: NDArray[np.int64] | None) -> Dataset:
        return Dataset(self._source, positions)

    @property
    def _reader(self) -> Reader:
        return self._source.reader

    @property
    def _settings(self) -> dict[str, Any]:
        return {"decode_threads": self._source.decode_threads, "cache": self._source.cache}

    @cached_property
    def _selection(self) -> Selection:
        return select_episodes(self.manifest.episodes, self._positions)

    def _check_inside(self, positions: NDArray[np.int64]) -> None:
        outside = positions[~np.isin(positions, self._selection.positions)]
        if len(outside):
            number = int(self.manifest.episodes.number[outside[0]])
            raise self.episodes.missing(number)

    def _has_task(self, positions: NDArray[np.int64], tasks: Iterable[str]) -> NDArray[np.bool_]:
        table = self.manifest.episodes
        asked = [tasks] if isinstance(tasks, str) else list(tasks)
        unknown = [task for task in asked if task not in table.task_texts]
        if unknown:
            known = ", ".join(repr(task) for task in table.task_texts[:10])
            raise TaskNotFoundError(f"No episode has the task {unknown[0]!r}: there are {known}.")
        wanted = np.isin(table.task_codes, [table.task_texts.index(task) for task in asked])
        hits = np.concatenate([[0], np.cumsum(wanted)])
        return (hits[table.task_bounds[1:]] > hits[table.task_bounds[:-1]])[positions]


def _reopen(path: Path, settings: Mapping[str, Any], bits: NDArray[np.uint8] | None) -> Dataset:
    dataset = open_dataset(path, **settings)
    if bits is None:
        return dataset
    chosen = np.unpackbits(bits, count=len(dataset.manifest.episodes)).astype(bool)
    return dataset._view(np.flatnonzero(chosen))
