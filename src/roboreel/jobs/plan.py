"""What a job has to do: tasks as columns, each with an id, inputs and a cost. No file is read."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

_ID_BYTES = 10
_COST = "cost"
# What NumPy raises for bytes that are no columns, or say that they have any number of rows.
_UNREADABLE = (ValueError, TypeError, KeyError, OSError, EOFError, MemoryError, zipfile.BadZipFile)


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a plan: what an operation needs to carry it out anywhere."""

    number: int
    """Its position in the plan."""
    id: str
    """A hash of the operation, the options and the inputs."""
    inputs: Mapping[str, Any]
    """Its row of the plan's inputs: numbers and texts by column."""
    options: Mapping[str, Any]
    """The plan's options, which all tasks share."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The tasks of a job, in the order in which their parts are merged.

    A plan is a pure function of a dataset and of options, so every machine makes the same one. What
    changes bytes, such as an encoder's number of threads, belongs to the options.

    Args:
        operation: Where the `Operation` is found: ``"package.module:NAME"``.
        options: What all tasks share, as plain values: numbers, texts, lists and dicts.
        inputs: What each task works on: columns of whole numbers or texts, each ``(T,)``.
        cost: About how many seconds of one core each task takes, ``(T,)``.

    Raises:
        ValueError: The columns differ in length, or hold something else.
        TypeError: The options are not plain values.

    Examples:
        >>> plan = Plan("mine.jobs:COUNT", {"path": "arm"}, {"episode": [0, 1]}, [2.0, 3.0])
        >>> len(plan), dict(plan.task(1).inputs), plan.total_cost
        (2, {'episode': 1}, 5.0)
    """

    operation: str
    options: Mapping[str, Any]
    inputs: Mapping[str, NDArray[Any]] = field(repr=False)
    cost: NDArray[np.float64] = field(repr=False)

    def __post_init__(self) -> None:
        cost = np.asarray(self.cost, np.float64)
        columns = {name: _column(name, values) for name, values in self.inputs.items()}
        if cost.ndim != 1 or any(len(column) != len(cost) for column in columns.values()):
            raise ValueError(f"The columns of a plan must be as long as its cost, {cost.shape}.")
        if json.loads(json.dumps(self.options)) != self.options:
            raise TypeError(
                "The options of a plan must be plain values: no tuples, no keys but texts."
            )
        object.__setattr__(self, "inputs", columns)
        object.__setattr__(self, "cost", cost)

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def total_cost(self) -> float:
        """About how many seconds all tasks take on one core."""
        return float(self.cost.sum())

    @cached_property
    def key(self) -> str:
        """A hash of the whole plan, costs apart."""
        digest = hashlib.sha256(self._head)
        digest.update(self.ids.tobytes())
        return digest.hexdigest()

    @cached_property
    def ids(self) -> NDArray[np.bytes_]:
        """The ids of all tasks, ``(T,)``, as ASCII."""
        start = hashlib.blake2b(self._head, digest_size=_ID_BYTES)
        digests = bytearray()
        for row in self._rows():
            one = start.copy()
            one.update(row)
            digests += one.digest()
        return np.frombuffer(digests.hex().encode(), f"S{2 * _ID_BYTES}")

    def task(self, number: int) -> Task:
        """Return one task.

        Raises:
            IndexError: There is no such task.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"Task {number} does not exist: the plan has {len(self):,} tasks.")
        inputs = {name: column[number].item() for name, column in self.inputs.items()}
        return Task(number, self.ids[number].decode(), inputs, self.options)

    def to_bytes(self) -> bytes:
        """Return the columns as the bytes of a file."""
        buffer = io.BytesIO()
        columns = {f"input.{name}": column for name, column in self.inputs.items()}
        np.savez(buffer, **{_COST: self.cost, **columns})  # type: ignore[arg-type]  # NumPy's stub
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, operation: str, options: Mapping[str, Any]) -> Plan:
        """Return the plan whose columns were written by `to_bytes`.

        Raises:
            JobError: The bytes are something else.
        """
        try:
            _check_unpacked(data)
            with np.load(io.BytesIO(data), allow_pickle=False) as columns:
                found = {name: columns[name] for name in columns.files}
            inputs = {name.removeprefix("input."): found[name] for name in found if name != _COST}
            return cls(operation, options, inputs, found[_COST])
        except _UNREADABLE as error:
            raise JobError(f"The tasks of a job cannot be read ({error!r}).") from error

    @cached_property
    def _head(self) -> bytes:
        shared = [self.operation, dict(self.options), list(self.inputs)]
        return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).digest()

    def _rows(self) -> Iterator[bytes]:
        """Yield the number and the inputs of each task as bytes."""
        numbers = [column for column in self.inputs.values() if column.dtype.kind == "i"]
        texts = [column for column in self.inputs.values() if column.dtype.kind == "U"]
        table = np.stack([np.arange(len(self)), *numbers], axis=1).astype("<i8")
        data, width = memoryview(table.tobytes()), table.shape[1] * table.itemsize
        for number in range(len(self)):
            words = "\0".join(str(column[number]) for column in texts)
            yield bytes(data[number * width : (number + 1) * width]) + words.encode()


def _check_unpacked(data: bytes) -> None:
    """Raise if columns would take more room than their file: `Plan.to_bytes` packs nothing."""
    with zipfile.ZipFile(io.BytesIO(data)) as members:
        unpacked = sum(member.file_size for member in members.infolist())
    if unpacked > len(data):
        raise ValueError(f"{len(data):,} bytes that unpack to {unpacked:,}")


def _column(name: str, values: object) -> NDArray[Any]:
    column = np.asarray(values)
    if column.ndim == 1 and column.dtype.kind in "iu":
        return column.astype(np.int64)
    if column.ndim != 1 or column.dtype.kind != "U":
        raise ValueError(f"Column {name!r} of a plan must hold whole numbers or texts.")
    return column
