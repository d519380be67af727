"""A dataset, its views, and how they are read."""

from __future__ import annotations

from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.described import Described
from roboreel.dataset.episodes import Episodes
from roboreel.dataset.memory import Memory
from roboreel.dataset.plan import select_episodes
from roboreel.dataset.statistics import compute_stats, number_features
from roboreel.distinct import distinct
from roboreel.format.statistics import read_stats
from roboreel.io.budget import process_budget
from roboreel.numbers import positions, whole_numbers
from roboreel.sample_spec import SampleSpec, spec_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.cache import Picture
    from roboreel.dataset.episodes import Episode
    from roboreel.dataset.opened import Opened
    from roboreel.dataset.plan import Selection
    from roboreel.dataset.reader import Reader
    from roboreel.frames.frame_reader import FrameReader
    from roboreel.image import Layout
    from roboreel.sample_spec import Windows
    from roboreel.schema import Feature
    from roboreel.stats import FeatureStats


_PREFETCHED_ROWS = 2000


class Dataset(Described):
    """A LeRobot dataset, or a view of some of its episodes. It never changes a file.

    Samples are numbered ``0 … len - 1``: the frames of the episodes, in the order in which the
    dataset stores them. ``dataset[5]`` is one sample; ``dataset[0:8]`` and ``dataset[[3, 1]]`` are
    batches, as `read` returns them.
    """

    def __init__(self, opened: Opened, positions: NDArray[np.int64] | None = None) -> None:
        super().__init__(opened.manifest)
        self._opened = opened
        self._positions = positions

    @cached_property
    def tasks(self) -> Mapping[int, str]:
        """Task texts by task number; of a view, the tasks that its episodes have."""
        table, tasks = self.manifest.episodes, self.manifest.tasks
        counts = np.diff(table.task_bounds)[self._selection.positions]
        if self._is_whole or not counts.all():  # Without tasks of their own, they may have any.
            return tasks
        texts = table.task_texts_of(self._selection.positions)
        return {number: text for number, text in tasks.items() if text in texts}

    @cached_property
    def episodes(self) -> Episodes:
        """The episodes, as a lazy sequence."""
        return Episodes(self, self._selection.positions)

    @cached_property
    def stats(self) -> Mapping[str, FeatureStats]:
        """Statistics by feature, read or computed at the first access.

        Those of a whole dataset come from its metadata; for numbers that the metadata leaves out,
        they are computed. Those of a view are computed from the frames of the view, and cover
        numbers only: for cameras, use the statistics of the whole dataset.
        """
        if not self._is_whole:
            return compute_stats(self)
        stats = read_stats(self.manifest)
        missing = [name for name in number_features(self) if name not in stats]
        return {**stats, **compute_stats(self, missing)} if missing else stats

    def compute_stats(self, features: Sequence[str] | None = None) -> Mapping[str, FeatureStats]:
        """Return statistics of numeric features, computed from all frames, with true quantiles.

        Every value is read once, about ten million a second. In metadata written by LeRobot,
        quantiles are averages over episodes; before v3.0 there are none.

        Raises:
            FeatureNotFoundError: A feature does not exist, or is not numeric.
        """
        return compute_stats(self, features)

    @property
    def selection(self) -> Selection:
        """Which episodes these are, and how their frames are numbered."""
        return self._selection

    @property
    def episode_bounds(self) -> NDArray[np.int64]:
        """Samples of the i-th episode with frames are ``[bounds[i], bounds[i + 1])``."""
        return self._selection.bounds

    @property
    def memory(self) -> Memory:
        """The memory budget, how much of it each part holds, and how each feature is read."""
        budget = process_budget()
        return Memory(
            limit_bytes=budget.limit_bytes,
            held_bytes=budget.held_bytes,
            held_by=budget.held_by_owner(),
            paths=self._reader.paths(),
            fetched=self.fetched,
        )

    @property
    def frame_reader(self) -> FrameReader:
        """Reads values, encoded pictures and packets as stored, for tools such as viewers."""
        return self._reader.frames

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self._selection)

    def __getitem__(self, key: int | slice | Sequence[int] | NDArray[np.int64]) -> dict[str, Any]:
        """Return one sample, or a batch for a slice or several numbers: all features and the task.

        Raises:
            RowNotFoundError: A sample does not exist.
        """
        picked = positions(key, len(self), "sample")
        if not isinstance(picked, int):
            return self.read(picked)
        return {name: values[0] for name, values in self.read([picked]).items()}

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
                that follow. By default all features are read, ``"task"``, and
                ``"subtask"`` if there are subtasks.
            windows: Windows by feature; ``range(16)`` is short for ``Window(frames=range(16))``.
                Such a feature comes as ``(B, T, …)``, with a mask ``"<name>_is_pad"`` ``(B, T)``
                that is True where the window left the episode and its first or last frame was
                repeated.
            image_size: Height and width to scale images to; by default the stored size.
            layout: Order of the axes of images, ``"chw"`` (the default) or ``"hwc"``.

        Returns:
            Arrays ``(B, …)`` by feature; a feature of shape ``(1,)`` is a scalar, ``(B,)``. Texts
            are objects; ``"task"`` and ``"subtask"`` are lists. Images are uint8 ``(B, C, H, W)``; depth from video
            is float32, in metres. The memory is the caller's.

        Raises:
            TypeError: The samples are not whole numbers.
            RowNotFoundError: A sample does not exist.
            FeatureNotFoundError: A feature does not exist.
            WindowError: Offsets that are not integers, or do not fall on frames.
            MissingFileError: A file that the metadata names does not exist.
            MissingImageError: A video has fewer images than its episode has frames.
        """
        spec = spec_of(features, windows, image_size, layout)
        rows = self._selection.rows(whole_numbers(samples, "sample"))
        return self._reader.read(rows, spec)

    def read_batches(
        self, batches: Sequence[NDArray[np.int64]], spec: SampleSpec
    ) -> list[dict[str, Any]]:
        """Return several batches, each as `read` does.

        An image that several of them need is decoded once. The images of each batch have memory of
        their own, so that one batch does not keep the others alive.

        Args:
            batches: The sample numbers of each, ``(B,)``.
            spec: What to read of each sample.
        """
        rows = [self._selection.rows(whole_numbers(one, "sample")) for one in batches]
        return self._reader.read_batches(rows, spec)

    def fetch(self, samples: NDArray[np.int64], spec: SampleSpec) -> int:
        """Have what a batch needs of a remote dataset at hand, without reading it.

        Returns:
            How many bytes were missing.
        """
        return self._reader.fetch(self._selection.rows(whole_numbers(samples, "sample")), spec)

    def prefetch(
        self,
        features: Sequence[str] | None = None,
        *,
        on_rows: Callable[[int, int], object] = lambda done, total: None,
    ) -> int:
        """Fetch all that the samples of this dataset or view need into its mirror.

        What does not fit in ``mirror_limit`` pushes out what was fetched first.

        Args:
            features: Names of the features that will be read. Default: all.
            on_rows: Called now and then with the rows done and the rows in total.

        Returns:
            How many bytes were missing; 0 for a dataset on this machine.
        """
        total, missing = len(self), 0
        spec = SampleSpec(features=None if features is None else tuple(features))
        for first in range(0, total, _PREFETCHED_ROWS):
            stop = min(first + _PREFETCHED_ROWS, total)
            missing += self.fetch(np.arange(first, stop), spec)
            on_rows(stop, total)
        return missing

    def encoded_images(
        self, camera: str, samples: Sequence[int] | NDArray[np.int64]
    ) -> list[bytes]:
        """Return the pictures of a camera as they are stored, as PNG or JPEG.

        Raises:
            FeatureNotFoundError: There is no such camera, or it is stored as video.
            RowNotFoundError: A sample does not exist.
        """
        if isinstance(samples, list) and len(samples) == 1 and type(samples[0]) is int:
            return [self._reader.encoded_image(camera, self._selection.row(samples[0]))]
        rows = self._selection.rows(whole_numbers(samples, "sample"))
        return self._reader.encoded_images(camera, rows)

    def select(
        self,
        episodes: Iterable[int] | None = None,
        *,
        tasks: Iterable[str] | None = None,
    ) -> Dataset:
        """Return a view of some episodes, in the dataset's order; nothing is copied.

        Args:
            episodes: Episode numbers, in any order; by default all.
            tasks: Keep the episodes that have one of these tasks.

        Raises:
            EpisodeNotFoundError: An episode does not exist, or is not in this view.
            TaskNotFoundError: No episode has one of the tasks.
        """
        chosen = self._selection.positions
        if episodes is not None:
            chosen = distinct(self.manifest.episodes.positions_of(episodes))
            self._check_inside(chosen)
        if tasks is not None:
            listed = [tasks] if isinstance(tasks, str) else list(tasks)
            chosen = chosen[self.manifest.episodes.has_task(listed)[chosen]]
        return self._view(chosen)

    def filter(self, keep: Callable[[Episode], bool]) -> Dataset:
        """Return a view of the episodes for which ``keep`` is true."""
        kept = [episode.position for episode in self.episodes if keep(episode)]
        return self._view(np.asarray(kept, dtype=np.int64))

    def where(self, condition: str) -> Dataset:
        """Return a view of the episodes for which a condition is true.

        Conditions are over the columns of the episode table: ``episode``, ``length`` in frames,
        ``task``, and every column of `Episodes.metadata`. Quantiles, as in ``length < p95(length)``,
        are those of this view. docs/choosing.md has the grammar.

        Args:
            condition: Such as ``"length > 60 and success and task contains 'cube'"``.

        Raises:
            QueryError: The condition cannot be understood, or names a column that does not exist.
        """
        from roboreel.dataset.query import column_of, evaluate, parse

        positions = self._selection.positions
        kept = evaluate(parse(condition), len(positions), partial(column_of, self))
        return self._view(positions[kept])

    def split(
        self,
        shares: Mapping[str, float],
        *,
        by: str | Sequence[str] | None = None,
        stratify: str | Sequence[str] | None = None,
        seed: int = 0,
    ) -> dict[str, Dataset]:
        """Return views that share out the episodes, such as ``{"train": 0.9, "val": 0.1}``.

        Hashes decide, so every process gets the same parts. An episode is identified by its tasks
        and its length, or by the column ``by``, not by its number. It stays in its part whatever is
        added or removed, but removing one of several with equal tasks and length may move those
        after it; with ``stratify``, as long as episodes are only appended.

        Args:
            shares: A share for each part; together they are 1. Shares hold on average.
            by: A column, or several, whose episodes stay together, such as ``"scene"``.
            stratify: A column, or several; each of its values is shared out by itself, to within an
                episode, or as far as the groups of ``by`` allow.
            seed: Another seed gives other parts.

        Raises:
            ValueError: The shares are not positive, or do not add up to 1.
            QueryError: A column does not exist.
        """
        from roboreel.dataset.splitting import split_positions

        parts = split_positions(self, shares, by=by, stratify=stratify, seed=seed)
        return {name: self._view(positions) for name, positions in parts.items()}

    def to_arrow(self, features: Sequence[str] | None = None) -> Any:  # noqa: ANN401  # untyped
        """Return numbers and texts as a `pyarrow.Table`, a row for each sample, in memory.

        A feature of several values is a list of fixed size, one of several axes lists of lists.
        ``"task"`` is a column of texts.

        Args:
            features: Names of columns. Default: all features but cameras, and ``"task"``.

        Raises:
            FeatureNotFoundError: A feature does not exist, or is a camera.
        """
        from roboreel.dataset.tables import table_of

        return table_of(self, features)

    def to_pandas(self, features: Sequence[str] | None = None) -> Any:  # noqa: ANN401  # untyped
        """Return numbers and texts as a `pandas.DataFrame`; see `to_arrow`. Needs pandas."""
        return self.to_arrow(features).to_pandas()

    def to_polars(self, features: Sequence[str] | None = None) -> Any:  # noqa: ANN401  # untyped
        """Return numbers and texts as a `polars.DataFrame`; see `to_arrow`. Needs polars."""
        from importlib import import_module

        return import_module("polars").from_arrow(self.to_arrow(features))

    def materialize(
        self,
        path: str | os.PathLike[str],
        cameras: Mapping[str, Picture] | None = None,
        *,
        on_rows: Callable[[int, int], object] = lambda done, total: None,
    ) -> Dataset:
        """Decode the dataset once into mapped shards, and return it reading from them.

        All episodes are stored, even if this is a view, so that other views find the same cache.
        Numbers are always stored, so that all processes of a machine share one copy of them in
        memory. ``roboreel cache build --dry-run`` estimates the disk space.

        Args:
            path: A folder for the cache alone. An interrupted build is resumed; a complete cache of
                the same dataset and pictures is used as it is.
            cameras: `Jpeg` or `Raw` by camera, or by a pattern such as ``"observation.images.*"``;
                other cameras are read from the dataset.
            on_rows: Called now and then with the rows done and the rows in total.

        Raises:
            CacheError: A pattern matches no camera, JPEG would destroy depth or alpha, or the
                folder holds other files.
        """
        from roboreel.dataset.cache.build import materialize
        from roboreel.dataset.opening import open_dataset

        root = Path(path).expanduser()
        materialize(self, root, cameras, on_rows=on_rows)
        told = {**self._settings, "cache": root}
        if self._opened.connection is not None:
            told["storage_options"] = self._opened.connection.options
        opened = open_dataset(self.path, **told)
        return opened if self._positions is None else opened._view(self._positions)

    def __repr__(self) -> str:
        return f"Dataset({(self.url or str(self.path))!r}, {self._summary})"

    def _repr_html_(self) -> str:
        return to_html(self.url or str(self.path), self._summary, self.features)

    def __reduce__(self) -> tuple[Any, ...]:
        from roboreel.dataset.opening import reopen

        # Said here, at once: of a worker that fails while it starts, frameworks tell little.
        self._opened.unchanged.confirm()
        # A path and a bit per episode: each worker reads the metadata itself.
        bits = None
        if self._positions is not None:
            chosen = np.zeros(len(self.manifest.episodes), dtype=bool)
            chosen[self._positions] = True
            bits = np.packbits(chosen)
        settings = {**self._settings, "memory": process_budget().limit_bytes}
        if self.is_remote:
            settings["connection"] = self._opened.connection
        return reopen, (self.path, settings, bits, self._opened.known)

    def _view(self, positions: NDArray[np.int64] | None) -> Dataset:
        return Dataset(self._opened, positions)

    @property
    def _reader(self) -> Reader:
        return self._opened.reader

    @property
    def _text_names(self) -> tuple[str, ...]:
        return self._reader.text_names

    @property
    def _settings(self) -> dict[str, Any]:
        return {"decode_threads": self._opened.decode_threads, "cache": self._opened.cache}

    @cached_property
    def _selection(self) -> Selection:
        return select_episodes(self.manifest.episodes, self._positions)

    @property
    def _is_whole(self) -> bool:
        return len(self._selection.positions) == len(self.manifest.episodes)

    @property
    def _summary(self) -> str:
        count = len(self.manifest.episodes)
        episodes = f"{count}" if self._is_whole else f"{len(self.episodes)} of {count}"
        return f"{episodes} episodes, {len(self)} frames, {self.fps:g} fps, {self.manifest.version}"

    def _check_inside(self, positions: NDArray[np.int64]) -> None:
        outside = positions[~np.isin(positions, self._selection.positions)]
        if len(outside):
            number = int(self.manifest.episodes.number[outside[0]])
            raise self.episodes.missing(number)


# A dataset as a table, for notebooks.

_MOST_NAMES = 8


def to_html(path: str, summary: str, features: Mapping[str, Feature]) -> str:
    """Return a dataset as HTML: a line about it, and a table of its features."""
    heads = "".join(f"<th>{head}</th>" for head in ("feature", "dtype", "shape", "names"))
    rows = "".join(_row(name, feature) for name, feature in features.items())
    return (
        f"<p><b>Dataset</b> {escape(path)}<br>{escape(summary)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(name: str, feature: Feature) -> str:
    names = feature.names or ()
    listed = ", ".join(names[:_MOST_NAMES])
    more = f", … {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    cells = (name, feature.dtype, " x ".join(map(str, feature.shape)), listed + more)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
