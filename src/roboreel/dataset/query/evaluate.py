"""Which episodes a condition is true for: conditions are functions of a `Table`, made by the parser.

A test of a value that is missing is neither true nor false, and so is its opposite; ``and`` and
``or`` follow SQL. An episode is kept where the whole is true.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from roboreel.dataset.query.columns import Column, make_column
from roboreel.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

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

Answers: TypeAlias = "list[bool | None]"
Condition: TypeAlias = "Callable[[Table], Answers]"
Operand: TypeAlias = "Callable[[Table], Column]"
Sign: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "contains"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The episodes that are asked, and their columns, each looked up once."""

    count: int
    find: Callable[[str], Column]
    _columns: dict[str, Column] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        if name not in self._columns:
            self._columns[name] = self.find(name)
        return self._columns[name]


def evaluate(condition: Condition, count: int, find: Callable[[str], Column]) -> NDArray[np.bool_]:
    """Return for which episodes a condition is true, ``(E,)``.

    Args:
        condition: The condition.
        count: How many episodes there are.
        find: Returns a column by its name.

    Raises:
        QueryError: A column does not exist, or cannot be compared as asked.
    """
    answers = condition(Table(count, find))
    return np.asarray([answer is True for answer in answers], dtype=np.bool_)


# Operands: a value for each episode.


def constant(value: str | float, table: Table) -> Column:
    """Return a number, a text, true or false, which all episodes have."""
    return make_column(repr(value), [value] * table.count)


def named(name: str, table: Table) -> Column:
    """Return a column of the episode table."""
    return table.column(name)


def quantile(name: str, fraction: float, table: Table) -> Column:
    """Return a quantile of a column over the episodes that are asked: one number."""
    column = table.column(name)
    if column.kind not in ("number", "nothing"):
        raise QueryError(f"{name} is {_SAID[column.kind]}: it has no quantiles.")
    values = [value for value in column.values if value is not None]
    try:
        with np.errstate(invalid="ignore"):
            number = float(np.quantile(np.asarray(values, np.float64), fraction))
    except (IndexError, OverflowError):  # no values, or some that no float holds
        number = None
    return make_column(f"a quantile of {name}", [number] * table.count)


# Conditions: true, false or None for each episode.


def truth(operand: Operand, table: Table) -> Answers:
    """Answer by a column that is true or false by itself, such as ``success``."""
    column = operand(table)
    if column.kind not in ("truth", "nothing"):
        raise QueryError(
            f"{column.name} is {_SAID[column.kind]}, not true or false: compare it with a value."
        )
    return list(column.values)


def compare(sign: Sign, left: Operand, right: Operand, table: Table) -> Answers:
    """Compare two operands."""
    first, second = left(table), right(table)
    if "nothing" in (first.kind, second.kind):
        return [None] * table.count
    test = _test(sign, first, second)
    return [
        None if a is None or b is None else test(a, b)
        for a, b in zip(first.values, second.values, strict=True)
    ]


def one_of(operand: Operand, values: Sequence[str | float], table: Table) -> Answers:
    """Answer whether an operand equals one of several values."""
    column = operand(table)
    if column.kind == "nothing":
        return [None] * table.count
    for value in values:
        _test("=", column, make_column(repr(value), [value]))
    wanted = frozenset(values)
    several = column.kind == "texts"
    return [
        None if value is None else not wanted.isdisjoint(value) if several else value in wanted
        for value in column.values
    ]


def is_null(operand: Operand, table: Table) -> Answers:
    """Answer whether an operand has no value."""
    return [value is None for value in operand(table).values]


def negated(part: Condition, table: Table) -> Answers:
    """Answer the opposite of a condition."""
    return [None if answer is None else not answer for answer in part(table)]


def joined(parts: Sequence[Condition], decisive: bool, table: Table) -> Answers:
    """Join conditions: an answer that is ``decisive`` decides, otherwise one that is None does.

    Conditions joined by ``and`` are decided by what is false, those joined by ``or`` by what is true.
    """
    return [
        decisive if decisive in answers else None if None in answers else not decisive
        for answers in zip(*(part(table) for part in parts), strict=True)
    ]


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
