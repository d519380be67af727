"""Several datasets as one, each with its share of an epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from roboreel.dataset.members import source_of
from roboreel.dataset.mixing import blend_features
from roboreel.dataset.normalize import affines_of
from roboreel.distinct import distinct
from roboreel.errors import FeatureNotFoundError
from roboreel.image import image_shape
from roboreel.numbers import inside, positions, whole_numbers
from roboreel.sample_spec import SampleSpec, spec_of
from roboreel.stats import merge_stats

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.members import Member
    from roboreel.dataset.mixing import Blend
    from roboreel.dataset.normalize import Affine, Mode
    from roboreel.image import Layout
    from roboreel.sample_spec import Windows
    from roboreel.schema import Feature
    from roboreel.stats import FeatureStats


class Mixture:
    """Several datasets, or views of them, to train on together.

    Samples are numbered one dataset after the other, and indexed like those of a `Dataset`.
    Versions and rates may differ: a window in seconds is counted at each dataset's own rate.

    Where shapes differ, values are padded with zeros at the end of each axis, and the mask
    ``"<name>_is_missing"`` ``(B, …)`` is True there. It is True everywhere for a dataset that lacks
    the feature. ``"dataset_index"`` says which dataset each sample of a batch is from.

    Args:
        weights: The share of each dataset in an epoch; they need not add up to 1. A
            `roboreel.shards.Store` or a `ReplayBuffer` may stand beside datasets; statistics and
            windows are for those that have them.
        features: Names in the mixture, each with the name that it has in all datasets, or with one
            name per dataset, None where a dataset lacks it. By default, the features that all
            datasets have.
        normalize: How features are normalized.
        normalize_by: Whose statistics are used: those of each ``"dataset"`` (the default); of all
            datasets of one ``"robot"`` in which the feature has the same element names, as it has
            in one control mode; or of those that are given the same word,
            ``{arm: "joints", hand: "poses"}``. Quantiles of a group are averages, as in
            `roboreel.stats.merge_stats`.

    Examples:
        ``Mixture({arm: 0.7, humanoid: 0.3}, features={"action": "action",
        "observation.image": ["observation.images.top", "observation.images.cam_high"]})``

    Raises:
        FeatureNotFoundError: A feature does not exist.
        TypeError: The weights are not given by dataset.
        ValueError: A weight is negative or all are 0, or a feature differs in kind.
    """

    def __init__(
        self,
        weights: Mapping[Any, float],
        *,
        features: Mapping[str, str | Sequence[str | None]] | None = None,
        normalize: Mapping[str, Mode] | None = None,
        normalize_by: NormalizeBy = "dataset",
    ) -> None:
        if not isinstance(weights, Mapping):
            raise TypeError(
                f"A mixture takes weights by dataset, such as {{arm: 0.7, hand: 0.3}}: not "
                f"{weights!r}."
            )
        members: dict[Any, Member] = {given: source_of(given) for given in weights}
        self.datasets: tuple[Member, ...] = tuple(members.values())
        self.weights = np.asarray(list(weights.values()), np.float64)
        _check_weights(self.datasets, self.weights)
        self._blends = blend_features(self.datasets, features)
        self._modes = dict(normalize or {})
        self._check_names(self._modes)
        if isinstance(normalize_by, Mapping):
            normalize_by = {members.get(given, given): word for given, word in normalize_by.items()}
        check_normalize_by(normalize_by, self.datasets)
        self._normalize_by = normalize_by

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features of every sample, by name, as the first dataset that has them declares them."""
        return {name: blend.feature for name, blend in self._blends.items()}

    @cached_property
    def stats(self) -> tuple[Mapping[str, FeatureStats], ...]:
        """Statistics that each dataset is normalized by, under the names of the mixture."""
        own_stats = [
            {
                name: dataset.stats[own]
                for name, blend in self._blends.items()
                if (own := blend.owns[place]) in dataset.stats and own is not None
            }
            for place, dataset in enumerate(self.datasets)
        ]
        return share_stats(own_stats, self.datasets, self._blends, self._normalize_by)

    @cached_property
    def episode_bounds(self) -> NDArray[np.int64]:
        """Samples of the i-th episode with frames are ``[bounds[i], bounds[i + 1])``."""
        lengths = [np.diff(dataset.episode_bounds) for dataset in self.datasets]
        return np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)

    def samples_per_dataset(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many samples each dataset has, ``(D,)``, given those of each episode."""
        episodes = [len(dataset.episode_bounds) - 1 for dataset in self.datasets]
        parts = np.split(lengths, np.cumsum(episodes)[:-1])
        return np.asarray([part.sum() for part in parts], np.int64)

    def __len__(self) -> int:
        """How many samples there are."""
        return int(self._bounds[-1])

    def __getitem__(self, key: int | slice | Sequence[int] | NDArray[np.int64]) -> dict[str, Any]:
        """Return one sample, or a batch for a slice or several numbers.

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
        """Return a batch of samples as a dict of arrays: see `Dataset.read`.

        Raises:
            ValueError: Images differ in size, and no ``image_size`` was given.
        """
        wanted = inside(whole_numbers(samples, "sample"), len(self), "sample")
        spec = spec_of(features, windows, image_size, layout)
        names, _ = self._asked_names(spec)
        dataset_index, parts = np.zeros(len(wanted), np.int64), {}
        for place, slots, own, own_spec in self._portions(wanted, spec):
            dataset_index[slots] = place
            read = self.datasets[place].read(wanted[slots] - self._bounds[place], own_spec)
            parts[place] = slots, self._renamed(read, own, place)
        batch = self._join(parts, names, len(wanted), spec)
        return {**batch, "dataset_index": dataset_index}

    @property
    def is_remote(self) -> bool:
        """Whether a dataset's files are elsewhere, and are fetched when they are needed."""
        return any(getattr(dataset, "is_remote", False) for dataset in self.datasets)

    def fetch(self, samples: NDArray[np.int64], spec: SampleSpec) -> int:
        """Have what a batch needs of remote datasets at hand; return how many bytes were missing."""
        wanted = inside(whole_numbers(samples, "sample"), len(self), "sample")
        missing = 0
        for place, slots, _, own_spec in self._portions(wanted, spec):
            dataset: Any = self.datasets[place]
            if getattr(dataset, "is_remote", False):
                missing += dataset.fetch(wanted[slots] - self._bounds[place], own_spec)
        return missing

    def _portions(
        self, samples: NDArray[np.int64], spec: SampleSpec
    ) -> Iterator[tuple[int, NDArray[np.int64], dict[str, str], SampleSpec]]:
        """Yield which samples each dataset has, its own names of the features, and its own spec."""
        names, texts = self._asked_names(spec)
        dataset_index = np.searchsorted(self._bounds, samples, side="right") - 1
        for place in distinct(dataset_index).tolist():
            owns = {name: self._blends[name].owns[place] for name in names if name not in texts}
            own = {name: theirs for name, theirs in owns.items() if theirs}
            windows = {own[name]: window for name, window in spec.windows.items() if name in own}
            there = [name for name in texts if name in self.datasets[place]._text_names]
            features = [*own.values(), *there]
            own_spec = SampleSpec(features, windows, spec.image_size, spec.layout, spec.fit)
            yield place, np.flatnonzero(dataset_index == place), own, own_spec

    def _asked_names(self, spec: SampleSpec) -> tuple[list[str], list[str]]:
        """Return the features that are asked for, and which of them are texts."""
        asked = (*self._blends, *self._text_names) if spec.features is None else spec.features
        names = list(dict.fromkeys((*asked, *spec.windows)))
        texts = [name for name in names if name in self._text_names]
        self._check_names([*(name for name in names if name not in texts), *spec.windows])
        return names, texts

    def __repr__(self) -> str:
        parts = zip(self.datasets, self.weights.tolist(), strict=True)
        listed = ", ".join(
            f"{dataset.path.name if dataset.path else dataset}: {weight:g}"
            for dataset, weight in parts
        )
        return f"Mixture({listed}, {len(self)} samples)"

    @cached_property
    def _text_names(self) -> tuple[str, ...]:
        """What any of the datasets has as texts; unless the mixture has a feature of that name."""
        names = dict.fromkeys(name for dataset in self.datasets for name in dataset._text_names)
        return tuple(name for name in names if name == "task" or name not in self._blends)

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(dataset) for dataset in self.datasets)])

    @cached_property
    def _affines(self) -> tuple[dict[str, Affine], ...]:
        return tuple(
            affines_of(
                stats,
                {n: m for n, m in self._modes.items() if self._blends[n].owns[place] is not None},
            )
            for place, stats in enumerate(self.stats)
        )

    def _check_names(self, names: Sequence[str] | Mapping[str, Mode]) -> None:
        unknown = [name for name in names if name not in self._blends]
        if unknown:
            raise FeatureNotFoundError(
                f"There is no feature {unknown[0]!r} in this mixture: there are "
                f"{', '.join(self._blends)}."
            )

    def _renamed(
        self, read: Mapping[str, Any], own: Mapping[str, str], place: int
    ) -> dict[str, Any]:
        """Return what was read from a dataset, normalized and under the mixture's names."""
        renamed: dict[str, Any] = {name: read[name] for name in self._text_names if name in read}
        affines = self._affines[place] if self._modes else {}
        for name, theirs in own.items():
            values = read[theirs]
            renamed[name] = affines[name].normalize(values) if name in affines else values
            if f"{theirs}_is_pad" in read:
                renamed[f"{name}_is_pad"] = read[f"{theirs}_is_pad"]
        return renamed

    def _join(
        self,
        parts: Mapping[int, tuple[NDArray[np.int64], Mapping[str, Any]]],
        names: Sequence[str],
        count: int,
        spec: SampleSpec,
    ) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        windows = spec.windows
        for name in names:
            if name in self._text_names:
                texts = np.full(count, "", object)
                for slots, part in parts.values():
                    texts[slots] = part.get(name, "")
                batch[name] = texts.tolist()
                continue
            blend = self._blends[name]
            lead = (count, len(windows[name])) if name in windows else (count,)
            there = [(slots, part) for slots, part in parts.values() if name in part]
            shape = there[0][1][name].shape[len(lead) :] if there else _image_shape(blend, spec)
            dtype = np.dtype(np.float32) if name in self._modes else None
            batch |= blend.empty(lead, shape, dtype)
            if name in windows:
                batch[f"{name}_is_pad"] = np.ones(lead, bool)
            for slots, part in there:
                blend.put(batch, part[name], slots, lead)
                if name in windows:
                    batch[f"{name}_is_pad"][slots] = part[f"{name}_is_pad"]
        return batch


def _image_shape(blend: Blend, spec: SampleSpec) -> tuple[int, ...]:
    """Return the shape of an image that no dataset of a batch has."""
    if not blend.feature.is_camera:
        return ()
    height, width, channels = blend.feature.shape
    height, width = spec.image_size or (height, width)
    return image_shape(height, width, channels, spec.layout)


def _check_weights(datasets: Sequence[Member], weights: NDArray[np.float64]) -> None:
    if not len(weights) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"A mixture needs datasets with weights that are 0 or more: {weights.tolist()}."
        )
    if not weights.sum() > 0:
        raise ValueError("All weights are 0: at least one dataset needs a share.")
    for dataset, weight in zip(datasets, weights, strict=True):
        if weight > 0 and len(dataset) == 0:
            raise ValueError(
                f"A dataset without samples has the weight {weight:g}: {str(dataset.path)!r}."
            )


# Statistics that datasets of a mixture share.

NormalizeBy: TypeAlias = "Literal['dataset', 'robot'] | Mapping[Any, str]"
"""Which datasets are normalized alike: each for itself, those of one robot and control mode, or
those that have the same word."""

_Stats: TypeAlias = "Mapping[str, FeatureStats]"


def check_normalize_by(by: NormalizeBy, datasets: Sequence[Member]) -> None:
    """Check that every dataset belongs to a group.

    Raises:
        ValueError: It is neither ``"dataset"``, ``"robot"`` nor a word for each dataset.
    """
    if isinstance(by, Mapping):
        missing = [dataset for dataset in datasets if dataset not in by]
        if missing:
            raise ValueError(
                f"normalize_by has no word for {missing[0]!r}: give one for each dataset."
            )
    elif by not in ("dataset", "robot"):
        raise ValueError(
            f"normalize_by is {by!r}: give 'dataset', 'robot', or a word for each dataset, such as "
            "{arm: 'so100 joints', other: 'so100 joints'}."
        )


def share_stats(
    stats: Sequence[_Stats],
    datasets: Sequence[Member],
    blends: Mapping[str, Blend],
    by: NormalizeBy,
) -> tuple[_Stats, ...]:
    """Return the statistics of each dataset, merged with those of its group.

    Raises:
        ValueError: A feature differs in shape within a group.
    """
    if by == "dataset":
        return tuple(stats)
    shared: list[dict[str, FeatureStats]] = [{} for _ in datasets]
    for name, blend in blends.items():
        groups: defaultdict[Hashable, list[int]] = defaultdict(list)
        for place, dataset in enumerate(datasets):
            if name in stats[place]:
                groups[_key(dataset, blend.owns[place], place, by)].append(place)
        for places in groups.values():
            merged = _merged(name, [stats[place][name] for place in places])
            for place in places:
                shared[place][name] = merged
    return tuple(shared)


def _key(dataset: Member, own: str | None, place: int, by: NormalizeBy) -> Hashable:
    """Return what the datasets of one group have in common."""
    if isinstance(by, Mapping):
        return by[dataset]
    robot = dataset.robot_type
    if not robot or robot == "unknown":
        return place
    # Joints and poses of one robot differ in the names or the number of their elements.
    feature = dataset.features[own or ""]
    return robot, feature.names, feature.value_shape


def _merged(name: str, parts: Sequence[FeatureStats]) -> FeatureStats:
    if len(parts) == 1:
        return parts[0]
    try:
        return merge_stats(parts)
    except ValueError as error:
        raise ValueError(f"{name!r} cannot be normalized alike in one group: {error}") from error
