"""The nouns of a dataset: frozen, self-checking, and without I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roboreel.errors import EpisodeNotFoundError, FeatureError, TaskNotFoundError
from roboreel.numbers import one_number, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.findings import Finding

__all__ = [
    "ClipTable",
    "Depth",
    "EpisodeTable",
    "Feature",
    "FileSet",
    "Manifest",
    "describe_episodes",
]

Kind = Literal["number", "text", "image", "video", "language"]
"""What the value of a feature is."""

_KINDS: dict[str, Kind] = {
    "image": "image",
    "video": "video",
    "string": "text",
    "language": "language",
}


@dataclass(frozen=True, slots=True)
class Depth:
    """How the stored values of a depth camera become metres.

    The 12-bit codes of a video stand for distances between ``min_m`` and ``max_m``, spaced evenly
    in ``ln(distance + shift)`` if ``log`` is true, and evenly in distance otherwise.

    Raises:
        FeatureError: The range is empty or not finite, has no logarithm, or the unit is unknown.
    """

    min_m: float = 0.01
    max_m: float = 10.0
    shift: float = 3.5
    log: bool = True
    unit: str = "m"
    """Unit of depth that is stored as images rather than as video: ``"m"`` or ``"mm"``."""

    def __post_init__(self) -> None:
        for name in ("min_m", "max_m", "shift"):
            object.__setattr__(self, name, _check_finite(name, getattr(self, name)))
        if not self.min_m < self.max_m:
            raise FeatureError(
                f"Depth from {self.min_m:g} m to {self.max_m:g} m is an empty range: max_m must "
                "exceed min_m."
            )
        if self.log and self.min_m + self.shift <= 0:
            raise FeatureError(
                f"min_m + shift is {self.min_m + self.shift:g}, which has no logarithm: give a "
                "larger shift, or log=False."
            )
        if self.unit not in ("m", "mm"):
            raise FeatureError(f"The unit of depth is 'm' or 'mm', not {self.unit!r}.")


@dataclass(frozen=True, slots=True)
class Feature:
    """A named value that every frame has.

    Raises:
        FeatureError: The dtype is unknown, or the shape is not one.

    Examples:
        >>> Feature("float32", (2,), names=("shoulder", "elbow")).kind
        'number'
        >>> Feature("video", (240, 320, 3)).is_camera
        True
    """

    dtype: str
    """A NumPy name (``float32``, ``int64``, ``bool``, …), or ``string``, ``language``, ``image``,
    ``video``."""
    shape: tuple[int, ...]
    """Shape of one value; ``(1,)`` is a scalar. Cameras: ``(height, width, channels)``."""
    names: tuple[str, ...] | None = None
    """Names of the elements: joints, axes."""
    depth: Depth | None = None
    """Set for depth cameras."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further keys of the metadata, kept as they were found."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _check_dtype(self.dtype))
        object.__setattr__(self, "shape", _check_shape(self.shape))
        if self.is_camera and len(self.shape) != 3:
            raise FeatureError(
                f"A camera has the shape (height, width, channels), not {self.shape}."
            )
        if self.names is not None:
            object.__setattr__(self, "names", _check_names(self.names))
        if self.depth is not None and not isinstance(self.depth, Depth):
            raise FeatureError(f"depth is {self.depth!r}: give Depth(min_m=…, max_m=…).")

    @property
    def kind(self) -> Kind:
        """What a value is: numbers, text, language, or an image."""
        return _KINDS.get(self.dtype, "number")

    @property
    def is_text(self) -> bool:
        """Whether the values are text, plain or with roles."""
        return self.kind in ("text", "language")

    @property
    def is_camera(self) -> bool:
        """Whether the values are images, stored as pictures or as video."""
        return self.dtype in ("image", "video")

    @property
    def has_alpha(self) -> bool:
        """Whether the values are pictures with an alpha channel; video has none."""
        return self.dtype == "image" and self.shape[2] == 4

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements; ``object`` for text, ``uint8`` for cameras."""
        if self.is_camera:
            return np.dtype(np.uint8)
        return np.dtype(self.dtype if self.kind == "number" else object)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of one value as it is read: a feature of shape ``(1,)`` is a scalar."""
        return () if self.shape == (1,) or self.is_text else self.shape


@dataclass(frozen=True, slots=True, eq=False)
class FileSet:
    """Files whose paths are made from a template, one for each entry of its numbers."""

    template: str
    """Path below the dataset's folder, as a format string over ``numbers`` and ``constants``."""
    numbers: Mapping[str, NDArray[np.int64]]
    """The numbers in the paths, by their name in the template, each ``(F,)``."""
    constants: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values()), ()))

    def __getitem__(self, file: int) -> str:
        """Return the path of one file, relative to the dataset's folder."""
        fields = {name: int(numbers[file]) for name, numbers in self.numbers.items()}
        return self.template.format(**fields, **self.constants)

    def paths(self) -> list[str]:
        """Return the paths of all files; quick, also for 100,000."""
        pattern, columns = "", []
        for literal, name, spec, _ in Formatter().parse(self.template):
            pattern += literal.replace("%", "%%")
            if name is None:
                continue
            if name in self.constants:
                pattern += self.constants[name].replace("%", "%%")
            else:
                pattern += f"%{(spec or '').rstrip('d')}d"
                columns.append(self.numbers[name].tolist())
        if not columns:
            return [pattern % ()] * len(self)
        return [pattern % numbers for numbers in zip(*columns, strict=True)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileSet):
            return NotImplemented
        return (
            self.template == other.template
            and dict(self.constants) == dict(other.constants)
            and _equal_arrays(self.numbers, other.numbers)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside: comparable, not hashable


@dataclass(frozen=True, slots=True, eq=False)
class ClipTable:
    """Where the images of one camera are, for each episode: a file and a part of its time."""

    file: NDArray[np.int64]
    """Position in the camera's `FileSet`, ``(E,)``."""
    start_s: NDArray[np.float64]
    """Time of the first image inside the file, ``(E,)``."""
    stop_s: NDArray[np.float64]
    """Time right after the last image, ``(E,)``."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClipTable):
            return NotImplemented
        return (
            np.array_equal(self.file, other.file)
            and np.array_equal(self.start_s, other.start_s)
            and np.array_equal(self.stop_s, other.stop_s)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class EpisodeTable:
    """All episodes as columns, in ascending order of their numbers.

    Rows are counted over the whole dataset: episode ``i`` holds the rows
    ``[start[i], start[i] + length[i])``, and the episodes together hold ``0 … N - 1``.
    """

    number: NDArray[np.int64]
    """Number of each episode, ``(E,)``, ascending; nearly always ``0 … E - 1``."""
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    data_file: NDArray[np.int64]
    """Position in the dataset's data `FileSet`, ``(E,)``."""
    data_row: NDArray[np.int64]
    """First row of the episode inside its data file, ``(E,)``."""
    clips: Mapping[str, ClipTable]
    """One entry per video camera."""
    task_bounds: NDArray[np.int64]
    """Episode ``i`` has the tasks ``task_codes[task_bounds[i]:task_bounds[i + 1]]``, ``(E + 1,)``."""
    task_codes: NDArray[np.int64]
    """Positions in ``task_texts``."""
    task_texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.number)

    @property
    def num_rows(self) -> int:
        """Frames of all episodes together."""
        return int(self.length.sum())

    @cached_property
    def row_order(self) -> NDArray[np.int64]:
        """Positions of the episodes that have rows, in the order of their rows."""
        filled = np.flatnonzero(self.length > 0)
        return filled[np.argsort(self.start[filled], kind="stable")]

    def tasks_of(self, position: int) -> tuple[str, ...]:
        """Return the tasks of one episode."""
        codes = self.task_codes[self.task_bounds[position] : self.task_bounds[position + 1]]
        return tuple(self.task_texts[code] for code in codes)

    def first_task(self, position: int) -> str:
        """Return the first task of one episode; an empty text if it has none."""
        return " ".join(self.tasks_of(position)[:1])

    def task_texts_of(self, positions: NDArray[np.int64]) -> frozenset[str]:
        """Return all tasks that some episodes have."""
        owners = np.repeat(np.arange(len(self)), np.diff(self.task_bounds))
        codes = np.unique(self.task_codes[np.isin(owners, positions)])
        return frozenset(self.task_texts[code] for code in codes)

    def has_task(self, tasks: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each episode has one of these tasks, ``(E,)``.

        Raises:
            TaskNotFoundError: No episode has a task.
        """
        unknown = [task for task in tasks if task not in self.task_texts]
        if unknown:
            known = ", ".join(repr(task) for task in self.task_texts[:10])
            raise TaskNotFoundError(f"No episode has the task {unknown[0]!r}: there are {known}.")
        wanted = np.isin(self.task_codes, [self.task_texts.index(task) for task in tasks])
        hits = np.concatenate([[0], np.cumsum(wanted)])
        return np.asarray(hits[self.task_bounds[1:]] > hits[self.task_bounds[:-1]])

    def positions_of(self, numbers: Iterable[int]) -> NDArray[np.int64]:
        """Return the positions in the table of the episodes with these numbers.

        Raises:
            TypeError: They are not whole numbers.
            EpisodeNotFoundError: No episode has a number.
        """
        wanted = whole_numbers(numbers, "episode")
        found = np.searchsorted(self.number, wanted)
        there = found < len(self)
        there[there] = self.number[found[there]] == wanted[there]
        if not there.all():
            raise EpisodeNotFoundError(
                f"Episode {int(wanted[~there][0])} does not exist: "
                f"{describe_episodes(self.number)}."
            )
        return found.astype(np.int64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EpisodeTable):
            return NotImplemented
        return (
            all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("number", "start", "length", "data_file", "data_row", "task_bounds")
            )
            and dict(self.clips) == dict(other.clips)
            and [self.tasks_of(i) for i in range(len(self))]
            == [other.tasks_of(i) for i in range(len(other))]
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is known about a dataset without opening its data."""

    root: Path
    version: str
    """LeRobot's name of the layout: ``v2.0``, ``v2.1`` or ``v3.0``."""
    fps: float
    features: Mapping[str, Feature]
    tasks: Mapping[int, str]
    """Task texts by task number."""
    episodes: EpisodeTable
    data_files: FileSet
    video_files: Mapping[str, FileSet]
    """One entry per video camera."""
    robot_type: str | None = None
    subtasks: Mapping[int, str] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of info.json, kept as they were found."""
    problems: tuple[Finding, ...] = ()
    """Inconsistencies in the metadata."""

    __hash__ = None  # type: ignore[assignment]

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the features whose values are images."""
        return tuple(name for name, feature in self.features.items() if feature.is_camera)

    @property
    def absent_cameras(self) -> frozenset[str]:
        """Cameras that are declared, but have no file: not read unless asked for by name."""
        return frozenset(str(found.feature) for found in self.problems if found.code == "RR109")


def _check_dtype(dtype: object) -> str:
    if isinstance(dtype, str) and dtype in _KINDS:
        return dtype
    try:
        known = None if dtype is None else np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        known = None
    if known is None or known.kind not in "biufc":
        raise FeatureError(
            f"No dtype {dtype!r}: give the name of a NumPy dtype such as 'float32', or one of "
            f"{', '.join(map(repr, _KINDS))}."
        )
    return str(known.name)


def _check_shape(shape: object) -> tuple[int, ...]:
    try:
        sizes = tuple(one_number(size, "size") for size in shape)  # type: ignore[attr-defined]
    except TypeError:
        raise FeatureError(f"shape is {shape!r}: give sizes, such as (2,).") from None
    if any(size < 0 for size in sizes):
        raise FeatureError(f"shape is {shape!r}: sizes are 0 or more.")
    return sizes or (1,)


def _check_names(names: object) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    try:
        return tuple(map(str, names))  # type: ignore[call-overload]  # that is the question
    except TypeError:
        raise FeatureError(f"names is {names!r}: give one for each element.") from None


def _check_finite(name: str, number: object) -> float:
    if isinstance(number, int | float | np.number) and math.isfinite(number):
        return float(number)
    raise FeatureError(f"{name} is {number!r}: give a finite number of metres.")


def describe_episodes(numbers: NDArray[np.int64]) -> str:
    """Return which episodes there are, for an error: ``there are 5 episodes, 0 to 4``.

    Args:
        numbers: Their numbers, ascending.
    """
    if len(numbers) < 2:
        return f"there is only episode {numbers[0]}" if len(numbers) else "there are no episodes"
    gaps = "" if numbers[-1] - numbers[0] + 1 == len(numbers) else ", with gaps"
    return f"there are {len(numbers)} episodes, {numbers[0]} to {numbers[-1]}{gaps}"


def _equal_arrays(
    left: Mapping[str, NDArray[np.int64]], right: Mapping[str, NDArray[np.int64]]
) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name]) for name in left
    )
