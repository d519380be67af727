"""From the text of a condition to its tree, by recursive descent.

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
from typing import TYPE_CHECKING, Literal, cast

from roboreel.dataset.query.nodes import (
    Compare,
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
    from roboreel.dataset.query.nodes import Node, Operand, Sign


MOST_DEPTH = 50
"""How deeply parentheses and ``not`` may be nested."""
_SIGNS = ("=", "==", "!=", "<", "<=", ">", ">=")
_QUANTILE = re.compile(r"p([0-9]{1,3}(?:\.[0-9]{1,6})?)")


def parse(text: str) -> Node:
    """Return the tree of a condition.

    Raises:
        QueryError: The text is not a condition; the message shows the place.
    """
    parser = _Parser(text)
    node = parser.condition(0)
    if parser.next.kind != "end":
        raise parser.error("Expected 'and', 'or' or the end")
    return node


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

    def condition(self, depth: int) -> Node:
        """Return the condition that starts here."""
        parts = [self._term(depth)]
        while self._take("or"):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _term(self, depth: int) -> Node:
        parts = [self._factor(depth)]
        while self._take("and"):
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _factor(self, depth: int) -> Node:
        if depth > MOST_DEPTH:
            raise self.error(f"More than {MOST_DEPTH} levels of parentheses and 'not'")
        if self._take("not"):
            return Not(self._factor(depth + 1))
        if self._take("("):
            inner = self.condition(depth + 1)
            self._expect(")")
            return inner
        return self._test()

    def _test(self) -> Node:
        left = self._operand()
        if self.next.is_(*_SIGNS):
            sign = str(self._advance().value)
            return Compare(cast("Sign", "=" if sign == "==" else sign), left, self._operand())
        if self._take("is"):
            return self._negated(IsNull(left), negate=self._take("not"), then="null")
        negate = self._take("not")
        if self._take("contains"):
            return _maybe_not(Compare("contains", left, self._operand()), negate=negate)
        if self._take("in"):
            return _maybe_not(OneOf(left, self._values()), negate=negate)
        if negate:
            raise self.error("Expected 'in' or 'contains' after 'not'")
        return Truth(left)

    def _negated(self, node: Node, *, negate: bool, then: str) -> Node:
        self._expect(then)
        return _maybe_not(node, negate=negate)

    def _values(self) -> tuple[Constant, ...]:
        closing = "]" if self._take("[") else ")"  # As lists are written in Python.
        if closing == ")":
            self._expect("(")
        values = [self._constant()]
        while self._take(","):
            values.append(self._constant())
        self._expect(closing)
        return tuple(values)

    def _constant(self) -> Constant:
        token = self.next
        if token.kind in ("number", "text"):
            return Constant(self._advance().value)
        if token.is_("true", "false"):
            return Constant(self._advance().value == "true")
        hint = ": a text needs quotes" if token.kind == "name" else ""
        raise self.error(f"Expected a value{hint}")

    def _operand(self) -> Operand:
        token = self.next
        if token.kind != "name":
            return self._constant()
        self._advance()
        if not self._take("("):
            return Name(str(token.value))
        return self._quantile(token)

    def _quantile(self, token: Token) -> Quantile:
        found = _QUANTILE.fullmatch(str(token.value))
        if found is None or float(found[1]) > 100:
            raise self.error(
                f"There is no function {token.value!r}: the quantiles are p0(…) to p100(…)", token
            )
        if self.next.kind != "name":
            raise self.error("Expected the name of a column")
        column = str(self._advance().value)
        self._expect(")")
        return Quantile(column, float(found[1]) / 100)

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


def _maybe_not(node: Node, *, negate: bool) -> Node:
    return Not(node) if negate else node


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
