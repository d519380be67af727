"""Samples of a dataset as NumPy arrays, one by one or in batches."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.members import ReadsBatches, source_of
from roboreel.errors import DatasetError, SampleError
from roboreel.loading.skipping import OF_NO_SAMPLE
from roboreel.loading.transforming import Transform, takes_generator
from roboreel.numbers import inside, positions, whole_numbers
from roboreel.order.anchors import Anchors
from roboreel.sample_spec import spec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.members import HasSource, Source
    from roboreel.image import Layout
    from roboreel.sample_spec import SampleSpec, Windows
    from roboreel.schema import Feature

Sample = dict[str, Any]
"""Values by feature; texts as they are."""


class Samples:
    """The samples of a dataset, a view or a mixture, as NumPy arrays.

    ``samples[5]`` is one sample; ``samples[0:8]`` and ``samples[[3, 1]]`` are batches, as `read`
    returns them. It may be pickled and forked at any time; a pickle holds a path and a selection.

    Args:
        dataset: A `roboreel.Dataset`, a view of one, a `roboreel.Mixture`, a
            `roboreel.shards.Store` or a `roboreel.ReplayBuffer`.
        windows: Windows by feature, which then comes as ``(T, …)`` with a mask
            ``"<name>_is_pad"``; or a `roboreel.SampleSpec` in place of ``windows``, ``features``,
            ``image_size`` and ``layout``.
        features: Names of the features to read; by default all of them, and ``"task"``.
        image_size: Height and width to scale images to; by default the stored size.
        layout: Order of the axes of images, ``"chw"`` (the default) or ``"hwc"``.
        drop_n_last_frames: Frames at the end of each episode that anchor no sample.
        transform: Called with every single sample, in the thread or process that read it. If it
            has a second argument, that is a random generator: see `Loader`.

    Raises:
        TypeError: The dataset is not one, or a spec is given together with parts of one.
        WindowError: The offsets of a window are not integers, or there are none.
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        dataset: Source | HasSource,
        windows: Windows | SampleSpec | None = None,
        *,
        features: Sequence[str] | None = None,
        image_size: Sequence[int] | None = None,
        layout: Layout | None = None,
        drop_n_last_frames: int = 0,
        transform: Callable[..., Sample] | None = None,
    ) -> None:
        source: Source = source_of(dataset)
        if not hasattr(source, "episode_bounds"):
            raise TypeError(
                "Samples come from a roboreel.Dataset, Mixture, ReplayBuffer or shards.Store, not "
                f"from {dataset!r}. Open one, such as with roboreel.open_dataset(path)."
            )
        self.dataset = source
        self.spec = spec_of(features, windows, image_size, layout)
        self.transform = transform
        bounds = source.episode_bounds
        self.anchors = Anchors(bounds[:-1], np.diff(bounds), drop_n_last_frames)

    def __len__(self) -> int:
        return self.anchors.num_samples

    @property
    def has_images(self) -> bool:
        """Whether any feature that is read is a camera."""
        return bool(self._cameras())

    @property
    def has_video(self) -> bool:
        """Whether any of them is stored as video."""
        return any(feature.is_video for feature in self._cameras().values())

    @property
    def image_bytes(self) -> int:
        """How much memory the images of a sample take, about."""
        total = 0
        for name, feature in self._cameras().items():
            height, width = self.spec.image_size or feature.shape[:2]
            images = len(self.spec.windows[name]) if name in self.spec.windows else 1
            item = 4 if feature.depth is not None else 1
            total += images * height * width * feature.shape[2] * item
        return total

    def _cameras(self) -> dict[str, Feature]:
        known, spec = self.dataset.features, self.spec
        names = known if spec.features is None else (*spec.features, *spec.windows)
        return {name: known[name] for name in names if name in known and known[name].is_camera}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dataset!r}, {len(self)} samples, {self.spec!r})"

    def __getitem__(self, key: int | slice | Sequence[int] | NDArray[np.int64]) -> Sample:
        picked = positions(key, len(self), "sample")
        if isinstance(picked, int):
            return self._singles(np.array([picked], np.int64))[0]
        return self.read(picked)

    def read(
        self,
        samples: Sequence[int] | NDArray[np.int64],
        seeds: NDArray[np.uint64] | None = None,
    ) -> Sample:
        """Return a batch: arrays ``(B, …)``, and lists of texts.

        Args:
            samples: Numbers of the samples, ``(B,)``.
            seeds: What the transform's generators are made from, ``(B,)``; by default they are
                random.

        Raises:
            DatasetError: A sample cannot be read; the message begins with its number.
        """
        return self.read_batches([samples], None if seeds is None else [seeds])[0]

    def read_batches(
        self,
        batches: Sequence[Sequence[int] | NDArray[np.int64]],
        seeds: Sequence[NDArray[np.uint64]] | None = None,
    ) -> list[Sample]:
        """Return several batches, each as `read` does; an image that they share is decoded once."""
        numbers = [self._numbers(samples) for samples in batches]
        wholes = self._read(numbers)
        if self.transform is None:
            return wholes
        drawn = [None] * len(numbers) if seeds is None else seeds
        return [
            self._collate(self._transformed(samples, whole, seed))
            for samples, whole, seed in zip(numbers, wholes, drawn, strict=True)
        ]

    @property
    def is_remote(self) -> bool:
        """Whether samples are fetched before they are read."""
        return bool(getattr(self.dataset, "is_remote", False))

    def fetch(self, samples: NDArray[np.int64]) -> int:
        """Have what some samples need at hand, without reading them; return the bytes missing."""
        source: Any = self.dataset
        missing: int = source.fetch(self.anchors.source_samples(self._numbers(samples)), self.spec)
        return missing

    def make_generator(self, seed: int) -> Any:  # noqa: ANN401  # a framework has its own
        """Return the generator that a transform is called with."""
        return np.random.default_rng(seed)

    def _singles(self, samples: NDArray[np.int64]) -> list[Sample]:
        return self._transformed(samples, self._read([samples])[0], None)

    def _transformed(
        self, samples: NDArray[np.int64], whole: Sample, seeds: NDArray[np.uint64] | None
    ) -> list[Sample]:
        singles = self._split(whole, len(samples))
        if self.transform is None:
            return singles
        if seeds is None:
            draws = takes_generator(self.transform)
            seeds = self._random_seeds(len(samples)) if draws else np.zeros(len(samples), np.uint64)
        transform = Transform(self.transform, self.make_generator)
        return [
            _call(transform, number, single, seed)
            for number, single, seed in zip(samples.tolist(), singles, seeds.tolist(), strict=True)
        ]

    @property
    def reducers(self) -> Mapping[type[Any], Callable[[Any], Any]]:
        """How values of a framework are pickled, on their way from a worker process."""
        return {}

    def enter_worker(self) -> None:
        """Prepare a process that does nothing but read these samples."""

    def _random_seeds(self, count: int) -> NDArray[np.uint64]:
        return np.random.default_rng().integers(2**63, size=count, dtype=np.uint64)

    def _numbers(self, samples: object) -> NDArray[np.int64]:
        return inside(whole_numbers(samples, "sample"), len(self), "sample")

    def _read(self, batches: list[NDArray[np.int64]]) -> list[Sample]:
        try:
            return self._read_unnamed(batches)
        except OF_NO_SAMPLE:
            raise
        except DatasetError as error:
            raise self._naming(np.concatenate(batches), error) from error

    def _read_unnamed(self, batches: list[NDArray[np.int64]]) -> list[Sample]:
        anchors = [self.anchors.source_samples(samples) for samples in batches]
        if len(anchors) > 1 and isinstance(self.dataset, ReadsBatches):
            read = self.dataset.read_batches(anchors, self.spec)
            return [self._convert(batch) for batch in read]
        whole = self._convert(self.dataset.read(np.concatenate(anchors), self.spec))
        if len(anchors) == 1:
            return [whole]
        bounds = np.cumsum([0, *map(len, anchors)]).tolist()
        return [
            {name: values[start:stop] for name, values in whole.items()}
            for start, stop in pairwise(bounds)
        ]

    def _naming(self, samples: NDArray[np.int64], error: DatasetError) -> DatasetError:
        """Return the error with the number of the sample that it is about."""
        for sample in samples.tolist() if len(samples) > 1 else ():
            try:
                self._read_unnamed([np.asarray([sample], np.int64)])
            except DatasetError as cause:  # noqa: PERF203  # only after a failure
                return type(cause)(f"Sample {sample}: {cause}")
        numbers = ", ".join(map(str, samples.tolist()))
        return type(error)(f"Sample {numbers}: {error}")

    def _convert(self, batch: Mapping[str, Any]) -> Sample:
        """Return a batch of arrays in the form that is handed out."""
        return {name: _without_objects(values) for name, values in batch.items()}

    def _split(self, batch: Sample, count: int) -> list[Sample]:
        """Return the samples of a batch as views of it."""
        return [{name: values[i] for name, values in batch.items()} for i in range(count)]

    def _collate(self, samples: list[Sample]) -> Sample:
        """Return samples as a batch."""
        return {name: _stack([sample[name] for sample in samples]) for name in samples[0]}


def _call(transform: Transform, number: int, sample: Sample, seed: int) -> Sample:
    try:
        transformed: Sample = transform(sample, seed)
    except Exception as error:
        raise SampleError(f"Sample {number}: its transform failed with {error!r}.") from error
    return transformed


def _without_objects(values: Any) -> Any:  # noqa: ANN401  # an array or a list of texts
    return values if isinstance(values, list) or values.dtype != object else values.tolist()


def _stack(values: list[Any]) -> Any:  # noqa: ANN401  # arrays, numbers or texts
    return values if isinstance(values[0], str) else np.stack(values)
