"""Rows to arrays: carries out the plan of a read."""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.images import Images
from roboreel.dataset.in_order import InOrder
from roboreel.dataset.interpolate import check_linear, interpolate, rotation_elements
from roboreel.dataset.plan import plan_read
from roboreel.errors import FeatureNotFoundError
from roboreel.frames.frame_reader import FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.dataset.cache import Cache
    from roboreel.dataset.plan import Places, Plan, WindowPlan
    from roboreel.io.budget import Budget
    from roboreel.sample_spec import SampleSpec
    from roboreel.schema import Manifest
    from roboreel.window import Window


def open_reader(
    manifest: Manifest, budget: Budget, decode_threads: int | None, cache: Path | None
) -> Reader:
    """Return the reader of a dataset, which uses its training cache if there is one.

    Raises:
        CacheError: There is no cache, or it was built from another state of the dataset.
    """
    if cache is None:
        return Reader(manifest, budget, decode_threads=decode_threads)
    # Imported here: without a cache, the first batch of a process needs no shards.
    from roboreel.dataset.cache import open_cache

    opened = open_cache(cache, manifest)
    return Reader(manifest, budget, decode_threads=decode_threads, cache=opened)


class Reader:
    """Reads rows of a dataset; shared by the dataset and all its views."""

    def __init__(
        self,
        manifest: Manifest,
        budget: Budget,
        *,
        decode_threads: int | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.frames = FrameReader(manifest, budget, decode_threads=decode_threads)
        """Reads what the dataset itself stores, never the cache."""
        self._manifest = manifest
        self._files = self.frames.files
        self._columns = self.frames.columns
        self._cache = cache
        self._cached = () if cache is None else cache.manifest.numbers
        """Features of numbers that the cache holds."""
        self._cameras = frozenset(manifest.cameras)
        self._has_video = any(f.is_video for f in manifest.features.values())
        self._texts = {"task": "task_index"}
        """Names that are read as texts, by the feature that has their numbers."""
        if "subtask_index" in manifest.features and "subtask" not in manifest.features:
            self._texts["subtask"] = "subtask_index"

    @cached_property
    def _images(self) -> Images:
        return Images(self.frames, self.frames.budget, self._cache)

    @cached_property
    def _in_order(self) -> InOrder:
        return InOrder(self.frames.budget, self._cameras)

    def read(self, rows: NDArray[np.int64], spec: SampleSpec) -> dict[str, Any]:
        """Return the features of some rows, ``(B,)``, and a mask for each that has a window."""
        if len(rows) != 1 or not self._has_video or self.frames.fetching is not None:
            return self.read_batches([rows], spec)[0]
        row = rows.item(0)
        episode = self._files.episodes_of(rows).item(0)
        table = self._manifest.episodes
        return self._in_order.read(
            row,
            spec,
            partial(self.read_batches, spec=spec),
            stop=table.start.item(episode) + table.length.item(episode),
            files_of=lambda: self._images.video_files(self._names(spec), episode, spec),
        )

    def read_batches(
        self, batches: Sequence[NDArray[np.int64]], spec: SampleSpec
    ) -> list[dict[str, Any]]:
        """Return several batches as `read` does; an image that several of them need is decoded once.

        The images of each have memory of their own; other values share theirs.
        """
        sizes = [len(rows) for rows in batches]
        rows = batches[0] if len(batches) == 1 else np.concatenate(batches)
        plan = self._plan(rows, spec)
        if self.frames.fetching is not None:
            self.frames.fetching.fetch_values(self._stored_rows(plan, spec))
        # Rows that are read in order: the next ones are expected to go on behind them.
        ascends = bool((rows[1:] > rows[:-1]).all())
        return self._carry_out(plan, spec, sizes, goes_on=ascends)

    def fetch(self, rows: NDArray[np.int64], spec: SampleSpec) -> int:
        """Have all that a batch needs of a remote dataset at hand, without reading it.

        Returns:
            How many bytes were missing.
        """
        if self.frames.fetching is None or not len(rows):
            return 0
        plan = self._plan(rows, spec)
        missing = self.frames.fetching.fetch_values(self._stored_rows(plan, spec))
        return missing + self._images.fetch(self._camera_rows(plan), plan.episodes, spec)

    def _plan(self, rows: NDArray[np.int64], spec: SampleSpec) -> Plan:
        names = self._names(spec)
        fps = self._manifest.fps
        places = {name: _places(window, fps) for name, window in spec.windows.items()}
        for name, window in spec.windows.items():
            if window.at == "linear":
                check_linear(name, self._manifest.features[name])
        episodes = self._files.episodes_of(rows)
        return plan_read(rows, episodes, self._manifest.episodes, names, places)

    def _stored_rows(self, plan: Plan, spec: SampleSpec) -> dict[str, NDArray[np.int64]]:
        """Return the rows to read of each feature that no cache holds."""
        rows: dict[str, NDArray[np.int64]] = {}
        for name in plan.features:
            stored = self._texts.get(name, name)
            window = plan.windows.get(name)
            parts = [plan.rows(name).reshape(-1)]
            if window is not None and window.later is not None:
                parts.append(window.later.reshape(-1))
            known = stored in self._manifest.features and stored not in self._cached
            if known and not self._images.is_cached(stored, spec):
                rows[stored] = np.concatenate([*parts, rows.get(stored, parts[0][:0])])
        return rows

    def _camera_rows(self, plan: Plan) -> dict[str, NDArray[np.int64]]:
        return {name: plan.rows(name) for name in plan.features if name in self._cameras}

    def read_episode(self, episode: int, spec: SampleSpec) -> dict[str, Any]:
        """Return the features of the episode at a position; see `read`."""
        return self.read(self.rows_of(episode), spec)

    @property
    def text_names(self) -> tuple[str, ...]:
        """What is read as texts beside the features, unless told otherwise."""
        has_subtasks = bool(self._manifest.subtasks)
        return tuple(name for name in self._texts if name == "task" or has_subtasks)

    def rows_of(self, episode: int) -> NDArray[np.int64]:
        """Return the rows of the episode at a position, after checking its data file."""
        table = self._manifest.episodes
        start, length = int(table.start[episode]), int(table.length[episode])
        if length:
            self._files.locate(np.asarray([start]))
        return np.arange(start, start + length, dtype=np.int64)

    def paths(self) -> dict[str, str]:
        """Return in words how each feature is read."""
        return {
            name: self._images.path(name) if feature.is_camera else self._path(name)
            for name, feature in self._manifest.features.items()
        }

    def _path(self, name: str) -> str:
        if name in self._cached:
            return "training cache, mapped"
        return self._columns.rung(name)

    def encoded_images(self, camera: str, rows: NDArray[np.int64]) -> list[bytes]:
        """Return the pictures of some rows as stored."""
        stored = [n for n, f in self._manifest.features.items() if f.dtype == "image"]
        if camera not in stored:
            raise FeatureNotFoundError(
                f"{camera!r} is not a camera stored as pictures: there are "
                f"{', '.join(stored) or 'none'}, in {str(self._manifest.root)!r}."
            )
        return self._images.encoded(camera, rows)

    def encoded_image(self, camera: str, row: int) -> bytes:
        """Return the picture of one row as stored."""
        feature = self._manifest.features.get(camera)
        if feature is None or feature.dtype != "image":
            return self.encoded_images(camera, np.asarray([row]))[0]  # It raises.
        return self.frames.pictures.read_one(camera, row)

    def stream(self, camera: str, episode: int, spec: SampleSpec) -> Iterator[NDArray[Any]]:
        """Yield the images of the episode at a position one by one."""
        if camera not in self._manifest.cameras:
            raise FeatureNotFoundError(
                f"There is no camera {camera!r}: there are "
                f"{', '.join(self._manifest.cameras) or 'none'}, in {str(self._manifest.root)!r}."
            )
        return self._images.stream(camera, episode, spec)

    def _carry_out(
        self, plan: Plan, spec: SampleSpec, sizes: list[int], *, goes_on: bool
    ) -> list[dict[str, Any]]:
        cameras, images = self._camera_rows(plan), {}
        if cameras:
            images = self._images.read(cameras, plan.episodes, spec, sizes, goes_on=goes_on)
        parts: dict[str, Sequence[Any]] = {}
        for name in plan.features:
            parts[name] = images.get(name) or _parts(self._values(name, plan, spec), sizes)
            if name in plan.windows:
                parts[f"{name}_is_pad"] = _parts(plan.windows[name].mask, sizes)
        return [{name: own[i] for name, own in parts.items()} for i in range(len(sizes))]

    def _values(self, name: str, plan: Plan, spec: SampleSpec) -> Any:  # noqa: ANN401
        """Return numbers as an array, or texts as a list."""
        if name in self._texts:
            return self._text(name, plan)
        values = self._gather(name, plan.rows(name), lambda: self._stored(plan.features))
        if name in plan.windows:
            return self._between(name, values, plan.windows[name], spec)
        return values

    def _stored(self, names: Sequence[str]) -> list[str]:
        """Return the features that have the values of some names, without those in the cache."""
        stored = [self._texts.get(name, name) for name in names]
        return [name for name in stored if name not in self._cached]

    def _between(
        self, name: str, values: NDArray[Any], plan: WindowPlan, spec: SampleSpec
    ) -> NDArray[Any]:
        """Return the values of a window, interpolated where it asks for moments between rows."""
        if plan.later is None or plan.fractions is None:
            return values
        feature = self._manifest.features[name]
        nearest = rotation_elements(name, feature)
        if spec.windows[name].rotations == "linear":
            nearest = np.zeros_like(nearest)
        return interpolate(values, self._gather(name, plan.later), plan.fractions, nearest)

    def _gather(
        self,
        name: str,
        rows: NDArray[np.int64],
        together: Callable[[], Sequence[str]] | None = None,
    ) -> NDArray[Any]:
        if self._cache is None or name not in self._cached:
            return self._columns.gather(name, rows, together=together)
        values = self._cache.numbers(name, rows.reshape(-1))
        return values.reshape(*rows.shape, *values.shape[1:])

    def _names(self, spec: SampleSpec) -> list[str]:
        known = self._manifest.features
        asked = self._default_names if spec.features is None else spec.features
        names = list(dict.fromkeys((*asked, *spec.windows)))
        unknown = [name for name in names if name not in known and name not in self._texts]
        unknown += [name for name in spec.windows if name not in known]
        if unknown:
            raise FeatureNotFoundError(
                f"There is no feature {unknown[0]!r}: there are {', '.join(known)}, in "
                f"{str(self._manifest.root)!r}."
            )
        return names

    @cached_property
    def _default_names(self) -> tuple[str, ...]:
        absent = self._manifest.absent_cameras
        return (*(n for n in self._manifest.features if n not in absent), *self.text_names)

    def _text(self, name: str, plan: Plan) -> list[str]:
        """Return each anchor's task or subtask in words."""
        numbers = self._cached_numbers(self._texts[name], plan.anchors)
        texts = self.frames.task_texts
        if name == "subtask":
            return texts.subtasks(plan.anchors, numbers)
        return texts.tasks(plan.anchors, plan.episodes, numbers)

    def _cached_numbers(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        return np.asarray(self._gather(name, rows), np.int64) if name in self._cached else None


def _parts(values: Any, sizes: list[int]) -> list[Any]:  # noqa: ANN401  # an array or a list
    if len(sizes) == 1:
        return [values]
    stops = accumulate(sizes)
    return [values[stop - size : stop] for stop, size in zip(stops, sizes, strict=True)]


@lru_cache(maxsize=256)
def _places(window: Window, fps: float) -> Places:
    """Return where a window reaches, which is the same for every batch."""
    offsets, fractions = window.places(fps)
    return offsets, fractions if fractions.any() else None
