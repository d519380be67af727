"""Columns of the episode table, as conditions and splits see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from roboreel.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.dataset.dataset import Dataset

ColumnKind: TypeAlias = Literal["number", "text", "truth", "texts", "nothing", "other"]
"""``texts`` is a list of texts for each episode; ``nothing`` has no value at all."""

_OWN = ("episode", "length", "task")
_KINDS: dict[type, ColumnKind] = {bool: "truth", int: "number", float: "number", str: "text"}


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A value for each episode, None where there is none."""

    name: str
    kind: ColumnKind
    values: Sequence[Any]


def make_column(name: str, values: Sequence[Any]) -> Column:
    """Return a column whose kind follows from its values; NaN counts as no value."""
    cleaned = [None if value != value else value for value in values]  # noqa: PLR0124  # NaN
    kinds = {_kind(value) for value in cleaned if value is not None}
    kind = kinds.pop() if len(kinds) == 1 else "other" if kinds else "nothing"
    return Column(name, kind, cleaned)


def column_of(view: Dataset, name: str) -> Column:
    """Return a column of the episodes of a dataset or view.

    Args:
        view: The episodes.
        name: ``episode`` (its number), ``length`` in frames, ``task``, or a metadata column.

    Raises:
        QueryError: There is no such column; the message lists those that exist.
    """
    table, places = view.manifest.episodes, view.selection.positions
    if name == "episode":
        return Column(name, "number", table.number[places].tolist())
    if name == "length":
        return Column(name, "number", table.length[places].tolist())
    if name in ("task", "tasks"):
        tasks = [table.tasks_of(place) or None for place in places.tolist()]
        return Column(name, "texts" if any(tasks) else "nothing", tasks)
    metadata = view._opened.episode_metadata
    if name not in metadata:
        known = ", ".join([*_OWN, *(column for column in metadata if column not in _OWN)])
        raise QueryError(
            f"There is no column {name!r}: there are {known}, in {str(view.path)!r}. A text needs "
            "quotes."
        )
    return make_column(name, [metadata[name][place] for place in places.tolist()])


def _kind(value: object) -> ColumnKind:
    if isinstance(value, list | tuple):
        return "texts" if all(isinstance(one, str) for one in value) else "other"
    return _KINDS.get(type(value), "other")
