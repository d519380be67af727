"""From the text of a condition to a function, by recursive descent.

::

    condition   term {"or" term}
    term        factor {"and" factor}
    factor      "not" factor | "(" condition ")" | test
    test        operand [sign operand | ["not"] "contains" operand
                | ["not"] "in" "(" value {"," value} ")" | "is" ["not"] "null"]
    operand     number | text | "true" | "false" | name | quantile "(" name ")"
    sign        "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from roboreel.dataset.query.evaluate import (
    compare,
    constant,
    is_null,
    joined,
    named,
    negated,
    one_of,
    quantile,
    truth,
)
from roboreel.errors import QueryError

if TYPE_CHECKING:
    from roboreel.dataset.query.evaluate import Condition, Operand, Sign


MOST_DEPTH = 50
"""How deeply parentheses and ``not`` may be nested."""
_SIGNS = ("=", "==", "!=", "<", "<=", ">", ">=")
_QUANTILE = re.compile(r"p([0-9]{1,3}(?:\.[0-9]{1,6})?)")


def parse(text: str) -> Condition:
    """Return the function that answers a condition; see `evaluate`.

    Raises:
        QueryError: The text is not a condition; the message shows the place.
    """
    parser = _Parser(text)
    condition = parser.condition(0)
    if parser.next.kind != "end":
        raise parser.error("Expected 'and', 'or' or the end")
    return condition


class _Parser:
    """A place in a list of tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0

    @property
    def next(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._at]

    def error(self, said: str, token: Token | None = None) -> QueryError:
        """Return the error for a token; by default the next one."""
        return query_error(said, self._text, (token or self.next).at)

    def condition(self, depth: int) -> Condition:
        """Return the condition that starts here."""
        parts = [self._term(depth)]
        while self._take("or"):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else partial(joined, parts, True)

    def _term(self, depth: int) -> Condition:
        parts = [self._factor(depth)]
        while self._take("and"):
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else partial(joined, parts, False)

    def _factor(self, depth: int) -> Condition:
        if depth > MOST_DEPTH:
            raise self.error(f"More than {MOST_DEPTH} levels of parentheses and 'not'")
        if self._take("not"):
            return partial(negated, self._factor(depth + 1))
        if self._take("("):
            inner = self.condition(depth + 1)
            self._expect(")")
            return inner
        return self._test()

    def _test(self) -> Condition:
        left = self._operand()
        if self.next.is_(*_SIGNS):
            sign = str(self._advance().value)
            sign = "=" if sign == "==" else sign
            return partial(compare, cast("Sign", sign), left, self._operand())
        if self._take("is"):
            negate = self._take("not")
            self._expect("null")
            return _maybe_not(partial(is_null, left), negate=negate)
        negate = self._take("not")
        if self._take("contains"):
            return _maybe_not(partial(compare, "contains", left, self._operand()), negate=negate)
        if self._take("in"):
            return _maybe_not(partial(one_of, left, self._values()), negate=negate)
        if negate:
            raise self.error("Expected 'in' or 'contains' after 'not'")
        return partial(truth, left)

    def _values(self) -> list[str | int | float]:
        closing = "]" if self._take("[") else ")"  # As lists are written in Python.
        if closing == ")":
            self._expect("(")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        self._expect(closing)
        return values

    def _value(self) -> str | int | float:
        token = self.next
        if token.kind in ("number", "text"):
            return self._advance().value
        if token.is_("true", "false"):
            return self._advance().value == "true"
        hint = ": a text needs quotes" if token.kind == "name" else ""
        raise self.error(f"Expected a value{hint}")

    def _operand(self) -> Operand:
        token = self.next
        if token.kind != "name":
            return partial(constant, self._value())
        self._advance()
        if not self._take("("):
            return partial(named, str(token.value))
        found = _QUANTILE.fullmatch(str(token.value))
        if found is None or float(found[1]) > 100:
            raise self.error(
                f"There is no function {token.value!r}: the quantiles are p0(…) to p100(…)", token
            )
        if self.next.kind != "name":
            raise self.error("Expected the name of a column")
        column = str(self._advance().value)
        self._expect(")")
        return partial(quantile, column, float(found[1]) / 100)

    def _advance(self) -> Token:
        token = self.next
        self._at += 1
        return token

    def _take(self, value: str) -> bool:
        taken = self.next.is_(value)
        self._at += taken
        return taken

    def _expect(self, value: str) -> None:
        if not self._take(value):
            raise self.error(f"Expected {value!r}")


def _maybe_not(condition: Condition, *, negate: bool) -> Condition:
    return partial(negated, condition) if negate else condition


# A condition as a list of tokens.

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
