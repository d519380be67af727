"""Which episodes a condition is true for.

A test of a value that is missing is neither true nor false, and so is its opposite; ``and`` and
``or`` follow SQL. An episode is kept where the whole is true.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.dataset.query.columns import Column, make_column
from roboreel.dataset.query.nodes import (
    Constant,
    Every,
    IsNull,
    Name,
    Not,
    OneOf,
    Quantile,
    Some,
    Truth,
)
from roboreel.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.query.nodes import Node, Operand, Sign

_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": operator.contains,
}
# A list of texts is compared with one text: one of them must match, or for "!=" none may.
_LIST_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda texts, text: text in texts,
    "!=": lambda texts, text: text not in texts,
    "contains": lambda texts, text: any(text in one for one in texts),
}
_SAID = {
    "number": "a number",
    "text": "a text",
    "truth": "true or false",
    "texts": "a list of texts",
    "nothing": "always null",
    "other": "of several kinds, or of one that cannot be compared",
}

Answers = list[bool | None]


def evaluate(node: Node, count: int, find: Callable[[str], Column]) -> NDArray[np.bool_]:
    """Return for which episodes a condition is true, ``(E,)``.

    Args:
        node: The condition.
        count: How many episodes there are.
        find: Returns a column by its name.

    Raises:
        QueryError: A column does not exist, or cannot be compared as asked.
    """
    answers = _Evaluation(count, find).answers(node)
    return np.asarray([answer is True for answer in answers], dtype=np.bool_)


class _Evaluation:
    """One pass over a tree; a column is looked up once."""

    def __init__(self, count: int, find: Callable[[str], Column]) -> None:
        self._count = count
        self._find = find
        self._found: dict[str, Column] = {}

    def answers(self, node: Node) -> Answers:
        """Return true, false or None for each episode."""
        if isinstance(node, Not):
            return [None if one is None else not one for one in self.answers(node.part)]
        if isinstance(node, Every):
            return _joined([self.answers(part) for part in node.parts], decisive=False)
        if isinstance(node, Some):
            return _joined([self.answers(part) for part in node.parts], decisive=True)
        if isinstance(node, IsNull):
            return [value is None for value in self._operand(node.left).values]
        if isinstance(node, Truth):
            return self._truth(node)
        if isinstance(node, OneOf):
            return self._one_of(node)
        return self._compare(node.sign, node.left, node.right)

    def _truth(self, node: Truth) -> Answers:
        column = self._operand(node.operand)
        if column.kind not in ("truth", "nothing"):
            raise QueryError(
                f"{column.name} is {_SAID[column.kind]}, not true or false: compare it with a value."
            )
        return list(column.values)

    def _compare(self, sign: Sign, left: Operand, right: Operand) -> Answers:
        first, second = self._operand(left), self._operand(right)
        if "nothing" in (first.kind, second.kind):
            return [None] * self._count
        test = _test(sign, first, second)
        return [
            None if a is None or b is None else test(a, b)
            for a, b in zip(first.values, second.values, strict=True)
        ]

    def _one_of(self, node: OneOf) -> Answers:
        column = self._operand(node.left)
        if column.kind == "nothing":
            return [None] * self._count
        for value in node.values:
            _test("=", column, make_column(repr(value.value), [value.value]))
        wanted = frozenset(value.value for value in node.values)
        several = column.kind == "texts"
        return [
            None if value is None else not wanted.isdisjoint(value) if several else value in wanted
            for value in column.values
        ]

    def _operand(self, operand: Operand) -> Column:
        if isinstance(operand, Constant):
            return make_column(repr(operand.value), [operand.value] * self._count)
        column = self._column(operand.name)
        return column if isinstance(operand, Name) else self._quantile(operand, column)

    def _column(self, name: str) -> Column:
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _quantile(self, asked: Quantile, column: Column) -> Column:
        if column.kind not in ("number", "nothing"):
            raise QueryError(f"{column.name} is {_SAID[column.kind]}: it has no quantiles.")
        values = [value for value in column.values if value is not None]
        try:
            with np.errstate(invalid="ignore"):
                number = float(np.quantile(np.asarray(values, np.float64), asked.fraction))
        except (IndexError, OverflowError):  # no values, or some that no float holds
            number = None
        return make_column(f"a quantile of {column.name}", [number] * self._count)


def _test(sign: Sign, first: Column, second: Column) -> Callable[[Any, Any], bool]:
    """Return the test for two columns, or raise if their kinds do not allow it."""
    kinds = (first.kind, second.kind)
    if kinds == ("texts", "text") and sign in _LIST_SIGNS:
        return _LIST_SIGNS[sign]
    same = first.kind == second.kind and first.kind in ("number", "text", "truth")
    ordered = first.kind != "truth" or sign in ("=", "!=")
    if same and ordered and (sign != "contains" or first.kind == "text"):
        return _SIGNS[sign]
    raise QueryError(
        f"{first.name} {sign} {second.name} cannot be tested: {first.name} is {_SAID[first.kind]}, "
        f"{second.name} is {_SAID[second.kind]}."
    )


def _joined(parts: Sequence[Answers], *, decisive: bool) -> Answers:
    """Join answers: one that is ``decisive`` decides, otherwise one that is None does."""
    return [
        decisive if decisive in answers else None if None in answers else not decisive
        for answers in zip(*parts, strict=True)
    ]
