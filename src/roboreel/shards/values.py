"""Check the values of an example against their features."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.shards.features import (
    Array,
    ClassLabel,
    FeatureType,
    Image,
    Sequence,
    Struct,
    Value,
    VideoPath,
    is_number,
)
from roboreel.shards.pictures import Pixels, encoding_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Accept = Callable[[Any], Any]


class MisfitError(Exception):
    """A value does not fit its feature; ``place`` is where inside the value."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


def acceptor(
    feature: FeatureType, encode: Callable[[Pixels], object], *, missing_as_null: bool = False
) -> Accept:
    """Return a function that checks a value and returns what to store; None stays None.

    The result shares no memory with the value, so a generator may reuse its buffers.

    Args:
        feature: What the values should be.
        encode: Called with pixels; its result is stored in their place.
        missing_as_null: Whether structs may lack some of their names.

    Returns:
        A function that raises `MisfitError`, TypeError, ValueError or OSError for a wrong value.
    """
    accept = _acceptor(feature, encode, missing_as_null)
    return lambda value: None if value is None else accept(value)


def _acceptor(
    feature: FeatureType, encode: Callable[[Pixels], object], missing_as_null: bool
) -> Accept:
    def inner(of: FeatureType) -> Accept:
        return acceptor(of, encode, missing_as_null=missing_as_null)

    match feature:
        case Value("string"):
            return _text
        case Value("bytes"):
            return _bytes
        case Value(dtype):
            return _number_acceptor(np.dtype(dtype))
        case VideoPath():
            return _path
        case ClassLabel(names):
            return _label_acceptor(names)
        case Image():
            return _image_acceptor(encode)
        case Array(shape, dtype):
            return _array_acceptor(shape, np.dtype(dtype))
        case Sequence(Value(dtype), length) if is_number(feature.of):
            accept = _array_acceptor((length,), np.dtype(dtype))
            return accept if length else _with_nulls(accept, _list_acceptor(inner(feature.of)))
        case Sequence(of):
            return _list_acceptor(inner(of))
        case Struct(fields):
            return _struct_acceptor({n: inner(of) for n, of in fields.items()}, missing_as_null)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {describe(value)}")
    if not value.isascii():
        value.encode()  # Raises for lone surrogates.
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected bytes, got {describe(value)}")
    return bytes(value)


def _path(value: object) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"expected the path of a video, got {describe(value)}")
    return _text(os.fspath(value))


def _label_acceptor(names: tuple[str, ...]) -> Accept:
    positions = {name: position for position, name in enumerate(names)}

    def accept(value: object) -> int:
        if isinstance(value, str):
            if value not in positions:
                raise ValueError(f"{value!r} is not one of the labels {_some(names)}")
            return positions[value]
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if not 0 <= value < len(names):
                raise ValueError(
                    f"label {value} does not exist: there are {len(names)}, 0 to {len(names) - 1}"
                )
            return int(value)
        raise TypeError(f"expected the name or number of a label, got {describe(value)}")

    return accept


def _image_acceptor(encode: Callable[[Pixels], object]) -> Accept:
    def accept(value: object) -> object:
        kept = encoding_of(value)
        return encode(kept) if isinstance(kept, Pixels) else kept

    return accept


def _number_acceptor(dtype: np.dtype[Any]) -> Accept:
    def accept(value: Any) -> Any:  # noqa: ANN401  # any number
        if not isinstance(value, (bool, int, float, np.generic)):
            if np.ndim(value) != 0 or not hasattr(value, "__array__"):
                raise TypeError(f"expected one {dtype}, got {describe(value)}")
            value = np.asarray(value)[()]
        return cast_exactly(np.asarray(value), dtype)[()]

    return accept


def _array_acceptor(shape: tuple[int | None, ...], dtype: np.dtype[Any]) -> Accept:
    def accept(value: object) -> NDArray[Any]:
        array = np.asarray(list(value) if isinstance(value, Iterator) else value)
        if array.ndim != len(shape) or any(
            wanted not in (None, there) for wanted, there in zip(shape, array.shape, strict=True)
        ):
            wanted_shape = str(shape).replace("None", "any")
            raise ValueError(f"expected shape {wanted_shape}, got {array.shape}")
        if array.size == 0:
            return np.empty(array.shape, dtype)
        return np.array(cast_exactly(array, dtype), order="C", copy=True)

    return accept


def _with_nulls(accept_array: Accept, accept_list: Accept) -> Accept:
    """Return a function that accepts numbers as an array, or as a list if some are None."""

    def accept(values: Any) -> Any:  # noqa: ANN401  # list or array
        if isinstance(values, Iterator):
            values = list(values)
        has_nulls = isinstance(values, (list, tuple)) and any(value is None for value in values)
        return accept_list(values) if has_nulls else accept_array(values)

    return accept


def _list_acceptor(accept: Accept) -> Accept:
    def accept_all(values: Any) -> list[Any]:  # noqa: ANN401  # any iterable but text
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
            raise TypeError(f"expected a list, got {describe(values)}")
        return [_inside(f"[{place}]", accept, value) for place, value in enumerate(values)]

    return accept_all


def _struct_acceptor(accepts: Mapping[str, Accept], missing_as_null: bool) -> Accept:
    def accept_fields(values: object) -> dict[str, Any]:
        if not isinstance(values, Mapping):
            raise TypeError(f"expected a dict, got {describe(values)}")
        if not values.keys() <= accepts.keys() or (
            len(values) < len(accepts) and not missing_as_null
        ):
            raise ValueError(f"expected the names {_some(accepts)}, got {_some(values)}")
        return {
            name: _inside(f".{name}", accept, values.get(name)) for name, accept in accepts.items()
        }

    return accept_fields


def _inside(place: str, accept: Accept, value: object) -> Any:  # noqa: ANN401  # what accept returns
    try:
        return accept(value)
    except MisfitError as misfit:
        raise MisfitError(place + misfit.place, misfit.reason) from misfit
    except (TypeError, ValueError, OSError) as error:
        raise MisfitError(place, str(error)) from error


_CASTS = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "M": "M", "m": "m"}
"""The kinds of numbers that may become a number of each kind."""


def cast_exactly(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers as another dtype; refuses what would truncate, wrap round or overflow.

    Integers may become floats, and floats may lose precision.

    Raises:
        TypeError: Such numbers cannot become this dtype.
        ValueError: A number is outside the range of the dtype.
    """
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in _CASTS[dtype.kind]:
        raise TypeError(f"expected {dtype}, got {array.dtype}")
    if dtype.kind in "mM":
        return array.astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            wrong = low if low < limits.min else high
            raise ValueError(f"{wrong} is out of range for {dtype}, {limits.min} to {limits.max}")
        return array.astype(dtype)
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    overflown = np.isinf(cast) & np.isfinite(array)
    if overflown.any():
        raise ValueError(f"{array[overflown].flat[0]} is out of range for {dtype}")
    return cast


def describe(value: object) -> str:
    """Return the type and a short form of a value."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _some(names: Mapping[str, Any] | tuple[str, ...]) -> str:
    shown = [repr(name) for name in list(names)[:10]]
    return ", ".join(shown) + (", …" if len(names) > 10 else "")
