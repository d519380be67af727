"""Parts of row groups, read within the budget: most row groups are one part."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.storage.dense import dense_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.frames.frame_files import FrameFiles
    from roboreel.memory.budget import Budget
    from roboreel.schema import Feature
    from roboreel.storage.row_groups import RowGroups

__all__ = ["Pieces"]

_OWNER = "row groups"
# A row group that takes more than this share of the budget is read in parts of half of that.
_SHARE = 16
# While it is read, it is there several times: as pages, as Arrow values, and as an array.
_COPIES = 3


class Pieces:
    """Row groups of a dataset's files, whole or in parts."""

    def __init__(self, files: FrameFiles, features: Mapping[str, Feature], budget: Budget) -> None:
        self._files = files
        self._features = features
        self._budget = budget
        self._steps: dict[tuple[Path, int, str, int], int] = {}

    def numbers(
        self, file: int, group: int, names: Sequence[str]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Yield parts of a row group: the place of their first row, and values by feature.

        Several features are read together only where they are small: see `Columns`.
        """
        opened = self._files.open(file)
        count = self._rows(file, group)
        if all(self._step(opened, group, name) >= count for name in names):
            features = {name: self._features[name] for name in names}
            limit_bytes = self._limit_bytes * len(names)
            with self._lent(names, count):
                yield 0, opened.read_numbers([group], features, limit_bytes)
            return
        for name in names:
            step = self._step(opened, group, name)
            with self._lent([name], count):
                for number, piece in enumerate(opened.pieces(group, name, step)):
                    yield number * step, {name: self._dense(opened, group, name, piece)}

    def held(
        self, name: str, file: int, group: int, rows: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.intp], Any]]:
        """Yield values of some rows of a row group: which of ``rows``, and their values.

        Parts that were read are held under the budget.
        """
        opened = self._files.open(file)
        step = self._step(opened, group, name)
        parts = rows // step
        missing = set()
        for part in np.unique(parts).tolist():
            values = self._budget.get(self._key(name, file, group, part))
            if values is None:
                missing.add(part)
            else:
                yield _chosen(parts, part, rows, step, values)
        if missing:
            with self._lent([name], self._rows(file, group)):
                for part, values in self._read(opened, name, group, step, max(missing) + 1):
                    if part in missing:
                        key = self._key(name, file, group, part)
                        self._budget.put(key, values, int(values.nbytes), owner=_OWNER)
                        yield _chosen(parts, part, rows, step, values)

    def _read(
        self, opened: RowGroups, name: str, group: int, step: int, stop: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the parts of a row group up to one, with their numbers."""
        is_number = self._features[name].kind == "number"
        if step >= int(opened.bounds[group + 1] - opened.bounds[group]):
            if is_number:
                features = {name: self._features[name]}
                read = opened.read_numbers([group], features, self._limit_bytes)
                yield 0, read[name].copy()
            else:
                yield 0, opened.read([group], [name], self._limit_bytes)[name]
            return
        for part, piece in zip(range(stop), opened.pieces(group, name, step), strict=False):
            yield part, self._dense(opened, group, name, piece).copy() if is_number else piece

    def _dense(self, opened: RowGroups, group: int, name: str, piece: Any) -> NDArray[Any]:  # noqa: ANN401
        return dense_numbers(name, piece, self._features[name], place=opened.describe(group))

    def _step(self, opened: RowGroups, group: int, name: str) -> int:
        """Return how many rows of a feature are read at a time."""
        key = (opened.path, group, name, self._limit_bytes)
        step = self._steps.get(key)
        if step is None:
            count = int(opened.bounds[group + 1] - opened.bounds[group])
            rows = opened.piece_rows(group, name, self._limit_bytes)
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
        return self._budget.lent(_COPIES * min(whole, self._limit_bytes), owner=_OWNER)

    @property
    def _limit_bytes(self) -> int:
        return self._budget.limit_bytes // _SHARE

    def _key(self, name: str, file: int, group: int, part: int) -> tuple[object, ...]:
        return (self._files.token, name, file, group, part)


def _chosen(
    parts: NDArray[np.int64],
    part: int,
    rows: NDArray[np.int64],
    step: int,
    values: Any,  # noqa: ANN401
) -> tuple[NDArray[np.intp], Any]:
    chosen = np.flatnonzero(parts == part)
    places = rows[chosen] - part * step
    if isinstance(values, np.ndarray):
        return chosen, values[places]
    objects = np.empty(len(places), dtype=object)
    objects[:] = [values[place].as_py() for place in places.tolist()]
    return chosen, objects
