"""What a message consists of: numbers, arrays, texts and messages inside it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from roboreel.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Path = tuple[str | int, ...]

_STEP = re.compile(r"([A-Za-z_]\w*)((?:\[\d{1,9}\])*)")


@dataclass(frozen=True, slots=True)
class Number:
    """One number."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Text:
    """One text."""


@dataclass(frozen=True, slots=True)
class Group:
    """A message, by its fields."""

    type: str
    fields: Mapping[str, Node] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Many:
    """A list of numbers, texts or messages."""

    item: Node


Node: TypeAlias = "Number | Text | Group | Many"


def parse_path(text: str) -> Path:
    """Return the steps of a path such as ``pose.position.x`` or ``points[0].positions``.

    Raises:
        SourceError: It is not a path.
    """
    steps: list[str | int] = []
    for part in text.split(".") if text else ():
        found = _STEP.fullmatch(part)
        if not found:
            raise SourceError(
                f"{text!r} is not the path of a field: give names with dots, such as "
                "'pose.position.x' or 'points[0].positions'."
            )
        steps.append(found[1])
        steps += [int(number) for number in re.findall(r"\d+", found[2])]
    return tuple(steps)


def find(tree: Group, path: Path) -> Node:
    """Return what there is at a path.

    Raises:
        SourceError: There is nothing; the message names the fields that are there.
    """
    node: Node = tree
    for step in path:
        if isinstance(node, Group) and isinstance(step, str) and step in node.fields:
            node = node.fields[step]
        elif isinstance(node, Many) and isinstance(step, int):
            node = node.item
        else:
            there = ", ".join(node.fields) if isinstance(node, Group) else "no fields"
            raise SourceError(f"There is no field {step!r}: there is {there or 'none'}.")
    return node


def getter(path: Path) -> Callable[[Any], Any]:
    """Return the function that takes what lies at a path out of a message.

    Raises, when it is called: SourceError, if a list of the message is too short.
    """

    def get(message: Any) -> Any:  # noqa: ANN401  # a message of any type
        value = message
        for step in path:
            if isinstance(step, int):
                if step >= len(value):
                    raise SourceError(f"has {len(value)} elements where number {step} is needed")
                value = value[step]
            elif isinstance(value, dict):
                if step not in value:
                    raise SourceError(f"has no field {step!r}")
                value = value[step]
            else:
                value = getattr(value, step)
        return value

    return get


def numbers_of(node: Group, skipped: Callable[[Group], bool]) -> list[tuple[Path, str]] | None:
    """Return path and dtype of each number of a message; None if it holds anything else.

    Args:
        node: The message.
        skipped: Says of messages inside it whether they do not count.
    """
    found: list[tuple[Path, str]] = []
    for name, inner in node.fields.items():
        if isinstance(inner, Number):
            found.append(((name,), inner.dtype))
        elif not isinstance(inner, Group):
            return None
        elif not skipped(inner):
            below = numbers_of(inner, skipped)
            if below is None:
                return None
            found += [((name, *path), dtype) for path, dtype in below]
    return found
