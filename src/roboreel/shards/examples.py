"""Turn examples into Arrow record batches."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.errors import ExampleError
from roboreel.parquet.arrow_types import numpy_type
from roboreel.shards.arrow import arrow_schema, arrow_type
from roboreel.shards.features import (
    Array,
    ClassLabel,
    FeatureType,
    Sequence,
    Struct,
    Value,
    is_number,
)
from roboreel.shards.values import MisfitError, acceptor, describe
from roboreel.threads import Job, ThreadPool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.shards.pictures import Pixels


@dataclass(frozen=True, slots=True)
class _Pending:
    """An image that a thread is encoding."""

    encoded: Job[bytes]
    size_bytes: int


class ExampleEncoder:
    """Collects examples and turns them into record batches.

    `add` copies arrays and reads files at once, so a generator may reuse its buffers and remove
    its files. Only the compression of pixels runs in threads, with a bounded queue.
    """

    def __init__(
        self, features: Mapping[str, FeatureType], *, threads: int, missing_as_null: bool = False
    ) -> None:
        self._features = dict(features)
        self._schema = arrow_schema(features)
        self._missing_as_null = missing_as_null
        self._accept = {
            name: acceptor(feature, self._encode, missing_as_null=missing_as_null)
            for name, feature in features.items()
        }
        self._pool = ThreadPool(threads, "roboreel-encode")
        self._waiting: deque[Job[bytes]] = deque()
        self._max_waiting = 2 * threads
        self._number = 0
        self._name = ""
        self._rows: list[dict[str, Any]] = []
        self._size_bytes = 0

    def __enter__(self) -> ExampleEncoder:  # noqa: PYI034  # Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    @property
    def num_rows(self) -> int:
        """Examples added since the last batch."""
        return len(self._rows)

    @property
    def size_bytes(self) -> int:
        """Their size in memory; images count as given, before encoding."""
        return self._size_bytes

    def add(self, example: object) -> None:
        """Check one example and keep it for the next batch; the key of a pair is dropped.

        Raises:
            ExampleError: It does not fit the features. The message names the feature and the
                number of the example, from 0.
        """
        if isinstance(example, tuple) and len(example) == 2:
            example = example[1]
        if not isinstance(example, Mapping):
            raise _misfit(self._number, f"expected a dict of features, got {describe(example)}")
        if example.keys() != self._accept.keys() and not (
            self._missing_as_null and example.keys() <= self._accept.keys()
        ):
            raise _misfit(self._number, _describe_names(example, self._features))
        row = {name: self._accept_value(name, example.get(name)) for name in self._accept}
        self._rows.append(row)
        self._size_bytes += sum(map(_size_of, row.values()))
        self._number += 1

    def batch(self) -> pa.RecordBatch:
        """Return the examples added since the last batch, and forget them."""
        rows, self._rows, self._size_bytes = self._rows, [], 0
        # Popped, so that the values of a column are freed once it is built.
        columns = [
            _build(feature, [row.pop(name) for row in rows])
            for name, feature in self._features.items()
        ]
        return pa.record_batch(columns, schema=self._schema)

    def _accept_value(self, name: str, value: object) -> Any:  # noqa: ANN401  # of any type
        self._name = name
        try:
            return self._accept[name](value)
        except MisfitError as misfit:
            reason = f"{name + misfit.place!r}: {misfit.reason}"
            raise _misfit(self._number, reason) from misfit
        except (TypeError, ValueError, OSError) as error:
            raise _misfit(self._number, f"{name!r}: {error}") from error

    def _encode(self, pixels: Pixels) -> _Pending:
        while len(self._waiting) >= self._max_waiting:
            self._waiting.popleft().wait()
        encoded = self._pool.submit(_encode_named, pixels, self._number, self._name)
        self._waiting.append(encoded)
        return _Pending(encoded, pixels.size_bytes)


def _encode_named(pixels: Pixels, number: int, name: str) -> bytes:
    try:
        return pixels.encode()
    except (OSError, ValueError, RuntimeError) as error:
        raise _misfit(number, f"{name!r} cannot be encoded: {error}") from error


def _misfit(number: int, reason: str) -> ExampleError:
    return ExampleError(f"Example {number}: {reason.rstrip('.')}.")


def _describe_names(example: Mapping[Any, Any], features: Mapping[str, FeatureType]) -> str:
    unknown = [name for name in example if name not in features]
    if not unknown:
        missing = next(name for name in features if name not in example)
        return f"{missing!r} is missing; give None where there is no value"
    return f"{unknown[0]!r} is not one of the features {', '.join(map(repr, features))}"


def _size_of(kept: object) -> int:
    if isinstance(kept, (bytes, str)):
        return len(kept)
    if isinstance(kept, np.ndarray):
        return kept.nbytes
    if isinstance(kept, _Pending):
        return kept.size_bytes
    if isinstance(kept, list):
        return sum(map(_size_of, kept))
    if isinstance(kept, dict):
        return sum(map(_size_of, kept.values()))
    return 8


def _build(feature: FeatureType, values: list[Any]) -> pa.Array:
    """Return a column of accepted values.

    Built from buffers, since `pyarrow.array` would import pandas to look for its objects.
    """
    stored = arrow_type(feature)
    match feature:
        case Array(shape, dtype):
            inner = _build_numbers(_stacked(values, math.prod(shape), np.dtype(dtype)))
            return _assemble(stored, values, inner=[inner])
        case Sequence(Value(dtype), int(length)):
            inner = _build_numbers(_stacked(values, length, np.dtype(dtype)))
            return _assemble(stored, values, inner=[inner])
        case Sequence(of, _):
            there = [value for value in values if value is not None]
            return _assemble(stored, values, _offsets(values), inner=[_build_items(of, there)])
        case Struct(fields):
            inner = [
                _build(of, [None if value is None else value[name] for value in values])
                for name, of in fields.items()
            ]
            return _assemble(stored, values, inner=inner)
        case Value() | ClassLabel() if pa.types.is_primitive(stored):
            filled = [0 if value is None else value for value in values]
            return _build_numbers(np.array(filled, numpy_type(stored)), values)
        case _:
            finished = [_finished(value) for value in values]
            return _assemble(stored, finished, _offsets(finished), b"".join(filter(None, finished)))


def _finished(value: _Pending | bytes | str | None) -> bytes | None:
    if isinstance(value, _Pending):
        return value.encoded.result()
    return value.encode() if isinstance(value, str) else value


def _build_items(of: FeatureType, lists: list[Any]) -> pa.Array:
    if not is_number(of):
        return _build(of, [item for items in lists for item in items])
    dtype = numpy_type(arrow_type(of))
    if any(isinstance(items, list) for items in lists):  # with nulls
        return _build(of, [item for items in lists for item in items])
    return _build_numbers(np.concatenate([np.empty(0, dtype), *lists]).astype(dtype, copy=False))


def _stacked(values: list[Any], size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    stacked = np.zeros((len(values), size), dtype)
    for row, value in enumerate(values):
        if value is not None:
            stacked[row] = value.reshape(-1)
    return stacked.reshape(-1)


def _build_numbers(numbers: NDArray[Any], values: list[Any] | None = None) -> pa.Array:
    """Return numbers as a column, null where ``values`` are None."""
    data = np.packbits(numbers, bitorder="little") if numbers.dtype == bool else numbers
    stored = pa.from_numpy_dtype(numbers.dtype)
    validity = None if values is None else _validity(values)
    return pa.Array.from_buffers(stored, len(numbers), [validity, pa.py_buffer(data)])


def _assemble(
    stored: pa.DataType,
    values: list[Any],
    *data: NDArray[np.int64] | bytes,
    inner: list[pa.Array] | None = None,
) -> pa.Array:
    buffers = [_validity(values), *map(pa.py_buffer, data)]
    return pa.Array.from_buffers(stored, len(values), buffers, children=inner)


def _validity(values: list[Any]) -> pa.Buffer | None:
    there = np.fromiter((value is not None for value in values), bool, len(values))
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))


def _offsets(values: list[Any]) -> NDArray[np.int64]:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    return offsets
