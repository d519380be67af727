"""Bytes changed at random: what atheris does better where it is installed."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["mutated"]

_NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
_WORDS = (
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"NaN",
    b"[]",
    b"{}",
    b'""',
    b"\\ud800",
    b"\xff",
    b"..",
)


def mutated(chance: random.Random, inputs: Sequence[bytes], most_bytes: int) -> bytes:
    """Return one of the inputs with one to eight changes."""
    data = bytearray(chance.choice(inputs)[:most_bytes])
    for _ in range(chance.randint(1, 8)):
        _change(data, chance, inputs)
    return bytes(data[:most_bytes])


def _change(data: bytearray, chance: random.Random, inputs: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    span = slice(at, at + chance.choice((1, 2, 4, 8, 40)))
    kind = chance.randrange(8)
    if kind == 0:
        data[span] = bytes(chance.randrange(256) for _ in data[span])
    elif kind == 1:
        del data[span]
    elif kind == 2:
        data[at:at] = data[span]
    elif kind == 3:
        form = chance.choice((">I", "<I", ">Q", "<Q"))
        data[at : at + struct.calcsize(form)] = struct.pack(form, chance.choice(_NUMBERS))
    elif kind == 4:
        del data[at:]
    elif kind == 5:
        data[at:at] = chance.choice(_WORDS)
    elif kind == 6:
        other = chance.choice(inputs)
        start = chance.randrange(len(other) + 1)
        data[span] = other[start : start + span.stop - span.start]
    elif at < len(data):
        data[at] ^= 1 << chance.randrange(8)
