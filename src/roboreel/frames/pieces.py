"""Parts of row groups, read within the budget: most row groups are one part."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.distinct import distinct
from roboreel.errors import MissingValueError
from roboreel.parquet.dense import dense_numbers
from roboreel.parquet.nulls import PartlyNull, read_around_nulls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from roboreel.frames.derived import DerivedCounters
    from roboreel.frames.frame_files import FrameFiles
    from roboreel.io.budget import Budget
    from roboreel.parquet.row_groups import RowGroups
    from roboreel.schema import Feature

__all__ = ["Pieces"]

_OWNER = "row groups"
# A row group that takes more than this share of the budget is read in parts of half of that.
_SHARE = 16
# However small the budget is: a page takes about this much.
_LEAST_BYTES = 2**16
# While it is read, it is there several times: as pages, as Arrow values, and as an array. Arrow's
# allocator also takes more than it hands out: 20 MB for parts of 4 MB were measured.
_COPIES = 5
_MANY_READS = 256


class Pieces:
    """Row groups of a dataset's files, whole or in parts."""

    def __init__(
        self,
        files: FrameFiles,
        features: Mapping[str, Feature],
        budget: Budget,
        derived: DerivedCounters,
    ) -> None:
        self._files = files
        self._features = features
        self._budget = budget
        self._derived = derived
        self._steps: dict[tuple[int, int, str, int], int] = {}
        self._num_reads = 0

    @property
    def rereads_much(self) -> bool:
        """Whether most row groups that are read had been read before."""
        return self._num_reads > _MANY_READS + 2 * len(self._steps)

    def read(
        self, file: int, groups: Sequence[int], names: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """Return features in adjacent row groups, whole.

        Raises:
            MissingValueError: A value is null.
            TooLargeError: They take more than the limit.
        """
        missing = [name for name in names if self._is_derived(file, name)]
        stored = {name: self._features[name] for name in names if name not in missing}
        opened, limit_bytes = self._files.open(file), self._limit_bytes * max(4, len(names))
        values = opened.read_numbers(groups, stored, limit_bytes) if stored else {}
        bounds = self._files.group_bounds(file)
        start, stop = int(bounds[groups[0]]), int(bounds[groups[-1] + 1])
        values |= {name: self._derived.derive(name, file, start, stop) for name in missing}
        return {name: values[name] for name in names}

    def numbers(
        self, file: int, group: int, names: Sequence[str]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any] | PartlyNull]]]:
        """Yield parts of a row group: the place of their first row, and values by feature.

        Several features are read together only where they are small: see `Columns`.
        """
        count = self._rows(file, group)
        if all(self._step(file, group, name) >= count for name in names):
            with self._lent(names, count):
                yield 0, self._whole(file, group, names)
            return
        for name in names:
            step = self._step(file, group, name)
            with self._lent([name], count):
                for number, values in enumerate(self._parts(name, file, group, step)):
                    yield number * step, {name: values}

    def held(
        self, name: str, file: int, group: int, rows: NDArray[np.int64], *, nulls: bool = False
    ) -> Iterator[tuple[NDArray[np.intp], Any]]:
        """Yield values of some rows of a row group: which of ``rows``, and their values.

        Parts that were read are held under the budget.

        Args:
            name: A feature.
            file: Number of the file.
            group: Number of the row group.
            rows: Rows of the row group, ``(N,)``, in any order.
            nulls: Whether the feature is a number of which some may be null: those become -1.

        Raises:
            MissingValueError: A number is null.
        """
        step = self._step(file, group, name)
        parts = rows // step
        missing = set()
        # With the step: another limit has other parts.
        key = (self._files.token, name, file, group, step, nulls)
        for part in distinct(parts).tolist():
            values = self._budget.get((*key, part))
            if values is None:
                missing.add(part)
            else:
                yield _chosen(parts, part, rows, step, values)
        if missing:
            self._num_reads += 1
            with self._lent([name], self._rows(file, group)):
                read = self._parts(name, file, group, step, nulls=nulls)
                for part, values in zip(range(max(missing) + 1), read, strict=False):
                    if part in missing:
                        self._budget.put((*key, part), values, int(values.nbytes), owner=_OWNER)
                        # As much was dropped for it, and as much freed after reading it.
                        self._files.note_freed(2 * int(values.nbytes))
                        yield _chosen(parts, part, rows, step, values)

    def _parts(
        self, name: str, file: int, group: int, step: int, *, nulls: bool = False
    ) -> Iterator[Any]:
        """Yield the parts of a row group: arrays of numbers, or Arrow arrays of texts."""
        opened, is_number = self._files.open(file), self._features[name].kind == "number"
        if self._is_derived(file, name):
            bounds = self._files.group_bounds(file)
            first, last = int(bounds[group]), int(bounds[group + 1])
            for start in range(first, last, step):
                yield self._derived.derive(name, file, start, min(start + step, last))
        elif nulls:
            for values in opened.integers(group, name, step):
                yield values.copy()
        elif step < self._rows(file, group):
            for piece in opened.pieces(group, name, step):
                yield self._dense(opened, group, name, piece) if is_number else piece
        elif is_number:
            whole = self._whole(file, group, [name])[name]
            yield whole if isinstance(whole, PartlyNull) else whole.copy()
        else:
            yield opened.read([group], [name], self._limit_bytes)[name]

    def _whole(
        self, file: int, group: int, names: Sequence[str]
    ) -> dict[str, NDArray[Any] | PartlyNull]:
        """Return features of numbers in a row group, whether or not some rows are null."""
        try:
            return dict(self.read(file, [group], names))
        except MissingValueError:
            if len(names) > 1:
                return {name: self._whole(file, group, [name])[name] for name in names}
        (name,), opened = names, self._files.open(file)
        column = opened.read([group], [name], self._limit_bytes * 4)[name]
        return {name: self._around_nulls(opened, group, name, column)}

    def _dense(
        self,
        opened: RowGroups,
        group: int,
        name: str,
        piece: Any,  # noqa: ANN401  # pyarrow is untyped
    ) -> NDArray[Any] | PartlyNull:
        place = opened.describe(group)
        try:
            return dense_numbers(name, piece, self._features[name], place=place).copy()
        except MissingValueError:
            return self._around_nulls(opened, group, name, piece)

    def _around_nulls(
        self,
        opened: RowGroups,
        group: int,
        name: str,
        column: Any,  # noqa: ANN401
    ) -> PartlyNull:
        place = opened.describe(group)
        return read_around_nulls(name, column, self._features[name], place=place)

    def _is_derived(self, file: int, name: str) -> bool:
        return self._derived.can_derive(name) and not self._files.open(file).has_column(name)

    def _step(self, file: int, group: int, name: str) -> int:
        """Return how many rows of a feature are read at a time."""
        key = (file, group, name, self._limit_bytes)
        step = self._steps.get(key)
        if step is None:
            count = self._rows(file, group)
            if self._is_derived(file, name):
                rows = self._limit_bytes // self._features[name].numpy_dtype.itemsize
            else:
                rows = self._files.open(file).piece_rows(group, name, self._limit_bytes)
            step = self._steps[key] = rows if rows >= count else max(1, rows // 2)
        return step

    def _rows(self, file: int, group: int) -> int:
        bounds = self._files.group_bounds(file)
        return int(bounds[group + 1] - bounds[group])

    def _lent(self, names: Sequence[str], count: int) -> AbstractContextManager[None]:
        """Count the memory that reading some features of a row group takes."""
        sizes = [self._features[name] for name in names]
        numbers = [f for f in sizes if f.kind == "number"]
        row_bytes = sum(math.prod(f.value_shape) * f.numpy_dtype.itemsize for f in numbers)
        whole = row_bytes * count if len(numbers) == len(sizes) else self._limit_bytes
        return self._budget.in_hand(_COPIES * min(whole, self._limit_bytes), owner=_OWNER)

    @property
    def _limit_bytes(self) -> int:
        return max(self._budget.limit_bytes // _SHARE, _LEAST_BYTES)


def _chosen(
    parts: NDArray[np.int64],
    part: int,
    rows: NDArray[np.int64],
    step: int,
    values: Any,  # noqa: ANN401
) -> tuple[NDArray[np.intp], Any]:
    chosen = np.flatnonzero(parts == part)
    places = rows[chosen] - part * step
    if isinstance(values, PartlyNull):
        return chosen, values.sound(places)
    if isinstance(values, np.ndarray):
        return chosen, values[places]
    objects = np.empty(len(places), dtype=object)
    objects[:] = [values[place].as_py() for place in places.tolist()]
    return chosen, objects
