"""Language columns of an episode that is cut: their times count from the new start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roboreel.edit.context import EditContext

__all__ = ["shift_language", "shifted_messages"]

Message = dict[str, Any]
_ROUNDING_S = 1e-6


def shift_language(
    context: EditContext,
    number: int,
    table: Any,  # noqa: ANN401  # pyarrow is untyped
    names: Mapping[str, str | None],
) -> dict[str, list[Any]]:
    """Return the language columns of a new episode that has other frames than the old one.

    Args:
        context: The edit.
        number: The new episode.
        table: Its rows.
        names: New names of columns.
    """
    if context.is_whole(number):
        return {}
    piece = context.recipe.pieces[number]
    start_s = piece.start / context.source(piece).manifest.fps
    length_s = int(context.layout.length[number]) / context.layout.fps
    columns = {}
    for old in table.column_names:
        new = names.get(old, old)
        if new is None or new not in context.features or context.features[new].kind != "language":
            continue
        rows = table.column(old).to_pylist()
        if any(message.get("timestamp") is not None for row in rows for message in row or ()):
            columns[new] = [row and shifted_messages(row, start_s, length_s) for row in rows]
    return columns


def shifted_messages(messages: Sequence[Message], start_s: float, length_s: float) -> list[Message]:
    """Return messages with times from the start of a part on.

    Of what was said before, the last of each kind still holds when the part starts: it is said at 0.
    What was said at the same moment stays together, such as the wordings of a task. What is said
    after the end is left out.

    Examples:
        >>> said = [{"style": "subtask", "content": c, "timestamp": t} for c, t in (("a", 0.0), ("b", 1.0))]
        >>> [(m["content"], m["timestamp"]) for m in shifted_messages(said, 2.0, 5.0)]
        [('b', 0.0)]
    """
    latest: dict[tuple[Any, ...], float] = {}
    for message in messages:
        time_s = message.get("timestamp")
        if time_s is not None and time_s - start_s <= _ROUNDING_S:
            latest[_kind(message)] = max(time_s, latest.get(_kind(message), time_s))
    kept: list[Message] = []
    for message in messages:
        time_s = message.get("timestamp")
        if time_s is None:
            kept.append(message)
            continue
        over = time_s - start_s <= _ROUNDING_S and time_s < latest[_kind(message)] - _ROUNDING_S
        if not over and time_s - start_s < length_s:
            kept.append({**message, "timestamp": max(0.0, time_s - start_s)})
    return kept


def _kind(message: Message) -> tuple[Any, ...]:
    return tuple(message.get(key) for key in ("style", "role", "camera"))
