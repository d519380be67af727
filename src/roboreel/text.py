"""Text from files, prepared for people."""

from __future__ import annotations


def is_writable(text: str) -> bool:
    r"""Return whether a file can hold a text: half of a surrogate pair has no UTF-8.

    Examples:
        >>> is_writable("拾う"), is_writable("\ud83d")
        (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def readable(text: str) -> str:
    r"""Return text in which control characters are spelled out, such as ``\x1b``.

    A task or a name of a feature may hold anything: an escape sequence in it must not reach a
    terminal or a log. Line breaks are spelled out too, since they would fake a line of ours, and so
    is what changes the direction of writing.

    Examples:
        >>> print(readable("pick \x1b[2J the cube"))
        pick \x1b[2J the cube
        >>> readable("drücken")
        'drücken'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
