"""The messages and tools of language features, as LeRobot returns them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LANGUAGE_FEATURES = ("language_persistent", "language_events")
"""LeRobot's names of language features."""

_DEFAULT_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "say",
            "description": "Say a short sentence to the user.",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string", "description": "The words to say."}},
                "required": ["text"],
            },
        },
    }
]


def default_tools() -> list[dict[str, Any]]:
    """Return the tools of a dataset that declares none: ``say``, with a text.

    If LeRobot is imported, they have its words, since prompts that policies see contain them.
    """
    lerobot = sys.modules.get("lerobot.datasets.language")
    found: list[dict[str, Any]] = getattr(lerobot, "DEFAULT_TOOLS", _DEFAULT_TOOLS)
    return found


def parse_messages(messages: Any) -> Any:  # noqa: ANN401  # what the file holds
    """Return the messages of a frame with their tool calls as objects, not as JSON text.

    Examples:
        >>> parse_messages([{"role": "assistant", "tool_calls": ['{"name": "say"}']}])
        [{'role': 'assistant', 'tool_calls': [{'name': 'say'}]}]
    """
    if not isinstance(messages, list):
        return messages
    return [_parse(message) if isinstance(message, dict) else message for message in messages]


def _parse(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if isinstance(calls, str):
        return {**message, "tool_calls": _from_json(calls)}
    if isinstance(calls, list):
        return {**message, "tool_calls": [_from_json(call) for call in calls]}
    return dict(message)


def _from_json(text: Any) -> Any:  # noqa: ANN401
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # a call in words, which some tools write
