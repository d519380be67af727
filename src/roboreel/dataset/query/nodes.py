"""The parts of a condition, as a tree of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Sign: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "contains"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, true or false."""

    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class Name:
    """A column of the episode table."""

    name: str


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of a column over the episodes that are asked: one number."""

    name: str
    fraction: float


Operand: TypeAlias = Constant | Name | Quantile


@dataclass(frozen=True, slots=True)
class Truth:
    """A column that is true or false by itself, such as ``success``."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Compare:
    """Two operands and a sign between them."""

    sign: Sign
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class OneOf:
    """An operand that equals one of several values."""

    left: Operand
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """An operand that has no value."""

    left: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: Node


@dataclass(frozen=True, slots=True)
class Every:
    """Conditions joined by ``and``."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """Conditions joined by ``or``."""

    parts: tuple[Node, ...]


Node: TypeAlias = "Truth | Compare | OneOf | IsNull | Not | Every | Some"
