"""Numbers and keys that a caller gives: checked in one place, so that they mean the same anywhere."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import RowNotFoundError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Far beyond anything that is counted, and far from the edge of int64.
_HUGE = 2**62


def whole_numbers(values: object, noun: str) -> NDArray[np.int64]:
    """Return the numbers of several things, ``(N,)``, as a caller gave them.

    Args:
        values: A sequence, an array, a tensor, or anything else to iterate over.
        noun: What is counted, for errors: ``"sample"``.

    Raises:
        TypeError: They are not a flat sequence of whole numbers: one number, fractions, a mask.

    Examples:
        >>> whole_numbers(range(3), "sample")
        array([0, 1, 2])
    """
    array = _as_array(values, noun)
    if array.dtype == object and all(isinstance(value, int) for value in array.flat):
        array = np.array([min(max(int(value), -_HUGE), _HUGE) for value in array.flat])
    if array.size and array.dtype.kind not in "iu":
        hint = " For a mask, write np.flatnonzero(mask)." if array.dtype.kind == "b" else ""
        raise TypeError(
            f"{_plural(noun)} are whole numbers: {array.dtype} values were given.{hint}"
        )
    if array.ndim != 1:
        raise TypeError(
            f"{_plural(noun)} are a flat sequence of numbers: the shape {array.shape} was given."
        )
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(_HUGE))
    return array.astype(np.int64, copy=False)


def one_number(value: object, noun: str) -> int:
    """Return the number of one thing.

    Raises:
        TypeError: It is not a whole number.

    Examples:
        >>> one_number(np.int64(3), "sample")
        3
    """
    number = _as_int(value)
    if number is None:
        raise TypeError(f"{noun.capitalize()} {value!r} is not a whole number.")
    return number


def check_at_least(lowest: int, **numbers: object) -> None:
    """Check arguments that count something.

    Raises:
        TypeError: One is not a whole number.
        ValueError: One is too small.
    """
    for name, given in numbers.items():
        number = _as_int(given)
        if number is None:
            raise TypeError(f"{name} is {given!r}: give a whole number.")
        if number < lowest:
            raise ValueError(f"{name} must be {lowest} or more; it is {number}.")


def is_rate(fps: float) -> bool:
    """Whether frames can follow each other so quickly: all times that it gives are finite."""
    return 1e-6 <= fps <= 1e6


def inside(
    numbers: NDArray[np.int64],
    count: int,
    noun: str,
    *,
    where: str = "",
    error: type[IndexError] = RowNotFoundError,
) -> NDArray[np.int64]:
    """Return numbers as positions in ``[0, count)``; negative ones count from the end.

    Args:
        numbers: ``(N,)``.
        count: How many things there are.
        noun: What they are, for errors.
        where: What they are in, for errors: ``", in '/data/arm'"``.
        error: What to raise.

    Raises:
        IndexError: A number is outside; the ``error`` that was given.
    """
    if not len(numbers):
        return numbers
    # One number is read as such: reductions cost more than all else here.
    one = numbers.item(0) if len(numbers) == 1 else None
    least, most = (numbers.min(), numbers.max()) if one is None else (one, one)
    if least < -count or most >= count:
        wrong = int(numbers[(numbers < -count) | (numbers >= count)][0])
        raise error(_missing(wrong, count, noun, where))
    return np.where(numbers < 0, numbers + count, numbers) if least < 0 else numbers


def positions(
    key: object,
    count: int,
    noun: str,
    *,
    where: str = "",
    error: type[IndexError] = RowNotFoundError,
) -> int | NDArray[np.int64]:
    """Return what a key between brackets picks of ``count`` things.

    Args:
        key: A number, a slice, or a sequence or array of numbers.
        count: How many things there are.
        noun: What they are, for errors.
        where: What they are in, for errors.
        error: What to raise where a number is outside.

    Returns:
        One position for a number; positions ``(N,)`` for a slice, a sequence or an array.

    Raises:
        TypeError: The key is something else.
        IndexError: A number is outside; the ``error`` that was given.

    Examples:
        >>> positions(-1, 5, "sample")
        4
        >>> positions(slice(1, None), 3, "sample")
        array([1, 2])
        >>> positions([2, -1], 3, "sample")
        array([2, 2])
    """
    if isinstance(key, slice):
        return np.arange(*key.indices(count), dtype=np.int64)
    if _is_one(key):
        one = one_number(key, noun)
        if not -count <= one < count:
            raise error(_missing(one, count, noun, where))
        return one + count if one < 0 else one
    return inside(whole_numbers(key, noun), count, noun, where=where, error=error)


def _as_int(value: object) -> int | None:
    # A tensor of one element passes for a number, a list of one does not: go by the shape.
    if isinstance(value, bool | np.bool_) or len(getattr(value, "shape", ())):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return None


def _is_one(key: object) -> bool:
    shape = getattr(key, "shape", None)
    return not shape if shape is not None else not hasattr(key, "__iter__")


def _as_array(values: Any, noun: str) -> NDArray[Any]:  # noqa: ANN401  # that is the question
    if isinstance(values, np.ndarray):
        array: NDArray[Any] = values
    elif isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise TypeError(
            f"{_plural(noun)} are a sequence of numbers, such as [0, 1]: not {values!r}."
        )
    else:
        try:
            array = np.asarray(values if hasattr(values, "__array__") else list(values))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{_plural(noun)} are a flat sequence of numbers.") from error
    return array


def _missing(number: int, count: int, noun: str, where: str) -> str:
    there = f"there are {count or 'no'} {noun}s" + (f", 0 to {count - 1}" if count else "")
    if count == 1:
        there = f"there is only {noun} 0"
    return f"{noun.capitalize()} {number} does not exist: {there}{where}."


def _plural(noun: str) -> str:
    return f"{noun.capitalize()}s"
