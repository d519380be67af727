"""Language features as readable text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["describe_language"]


def describe_language(entries: Sequence[Mapping[str, Any]] | None) -> str:
    """Return what was said at a frame, one line per entry.

    Examples:
        >>> describe_language([{"role": "user", "content": "pick it up", "style": "task"}])
        'user (task): pick it up'
    """
    return "\n".join(_describe(entry) for entry in entries or ())


def _describe(entry: Mapping[str, Any]) -> str:
    details = [str(entry[key]) for key in ("style", "camera") if entry.get(key)]
    speaker = str(entry.get("role") or "unknown") + (f" ({', '.join(details)})" if details else "")
    said = [str(entry[key]) for key in ("content", "tool_calls") if entry.get(key)]
    return f"{speaker}: {' '.join(said)}"
