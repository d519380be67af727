"""A condition as a list of tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from roboreel.errors import QueryError

__all__ = ["MOST_CHARACTERS", "Token", "query_error", "tokens_of"]

MOST_CHARACTERS = 100_000
"""The longest condition that is read; lists of episode numbers belong in ``select``."""
_MOST_DIGITS = 300
_EXCERPT = 40

_WORDS = frozenset({"and", "or", "not", "in", "contains", "is", "null", "true", "false"})
_TOKEN = re.compile(
    r"""
    (?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[^\W\d][\w.]*)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<sign><=|>=|!=|==|[=<>(),\[\]])
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"\s*")

TokenKind = Literal["number", "name", "text", "word", "sign", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """One word, sign or value of a condition."""

    kind: TokenKind
    value: str | int | float
    at: int
    """Where it starts in the text."""

    def is_(self, *values: str) -> bool:
        """Return whether it is one of these keywords or signs."""
        return self.kind in ("word", "sign") and self.value in values


def query_error(said: str, text: str, at: int) -> QueryError:
    """Return the error for something at a place of a condition."""
    excerpt = text[at : at + _EXCERPT]
    place = f"at {excerpt!r}, character {at + 1}" if excerpt else "at the end"
    return QueryError(f"{said}, {place} of the condition. docs/choosing.md has the grammar.")


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a condition, the last of kind ``end``.

    Raises:
        QueryError: A character starts no token, a quote is not closed, or the text is too long.
    """
    if not isinstance(text, str):
        raise QueryError(f"A condition is a text, such as 'length > 60': not {text!r}.")
    if len(text) > MOST_CHARACTERS:
        raise QueryError(
            f"The condition has {len(text):,} characters: at most {MOST_CHARACTERS:,} are read. "
            "Choose episodes by number with select(episodes=[…])."
        )
    tokens, at = [], _skip_space(text, 0)
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            quoted = text[at] in "'\"`"
            said = "A quote is not closed" if quoted else f"{text[at]!r} has no meaning here"
            raise query_error(said, text, at)
        tokens.append(_token(match, text))
        at = _skip_space(text, match.end())
    return [*tokens, Token("end", "", len(text))]


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _token(match: re.Match[str], text: str) -> Token:
    kind, written, at = match.lastgroup, match.group(), match.start()
    if kind == "number":
        return Token("number", _number(written, text, at), at)
    if kind in ("text", "quoted"):
        inner = written[1:-1].replace(written[0] * 2, written[0])
        return Token("text" if kind == "text" else "name", inner, at)
    if kind == "name" and written.lower() in _WORDS:
        return Token("word", written.lower(), at)
    return Token("name" if kind == "name" else "sign", written, at)


def _number(written: str, text: str, at: int) -> int | float:
    if len(written) > _MOST_DIGITS:
        raise query_error(f"A number has more than {_MOST_DIGITS} digits", text, at)
    return int(written) if written.lstrip("-").isdigit() else float(written)
