"""Files whose paths are made from a template."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


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


def _equal_arrays(
    left: Mapping[str, NDArray[np.int64]], right: Mapping[str, NDArray[np.int64]]
) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name]) for name in left
    )
