"""Which part of a split each episode belongs to. Arithmetic only.

Only hashes decide, no random generator and no state: every process gets the same parts.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_MOST_ERROR = 1e-6


def check_shares(shares: Mapping[str, float]) -> NDArray[np.float64]:
    """Return the shares of the parts, ``(P,)``.

    Raises:
        ValueError: A share is not a positive number, or they do not add up to 1.
    """
    try:
        values = np.asarray([float(share) for share in shares.values()], dtype=np.float64)
    except (AttributeError, TypeError, ValueError):
        values = np.empty(0)
    if not len(values) or not np.isfinite(values).all() or (values <= 0).any():
        raise ValueError(
            f"{shares!r} are no shares: give a positive number for each part, such as "
            "{'train': 0.9, 'val': 0.1}."
        )
    if abs(math.fsum(values) - 1) > _MOST_ERROR:
        raise ValueError(
            f"The shares {dict(shares)!r} add up to {math.fsum(values):g}, not to 1: name a part "
            "for the rest."
        )
    return values


def key_text(value: Any) -> str:  # noqa: ANN401  # whatever metadata holds
    """Return a text that is equal for equal values; 2 and 2.0 are equal, NaN is null.

    Examples:
        >>> key_text(2.0), key_text({"b": None, "a": "x"})
        ('2', '{"a": "x", "b": null}')
    """
    return json.dumps(_plain(value), sort_keys=True, default=str)


def numbered_keys(keys: Sequence[str]) -> list[str]:
    """Return keys that all differ: the second of two that are equal is numbered 1, and so on.

    Examples:
        >>> numbered_keys(["a", "b", "a"])
        ['0 a', '0 b', '1 a']
    """
    counts: dict[str, int] = {}
    found = []
    for key in keys:
        counts[key] = counts.get(key, -1) + 1
        found.append(f"{counts[key]} {key}")
    return found


def hashed_portions(
    keys: Sequence[str], shares: NDArray[np.float64], seed: int
) -> NDArray[np.int64]:
    """Return the part of each key, ``(N,)``, which depends on nothing but key, shares and seed.

    The shares hold on average: of few keys, a part may get more, fewer or none.
    """
    bounds = np.cumsum(shares)[:-1]
    units = np.asarray([_unit(key, seed) for key in keys], dtype=np.float64)
    return np.searchsorted(bounds, units, side="right").astype(np.int64)


def balanced_portions(
    keys: Sequence[str], strata: Sequence[str], shares: NDArray[np.float64], seed: int
) -> NDArray[np.int64]:
    """Return the part of each episode, ``(N,)``, so that every stratum has its shares.

    Episodes of one key get one part. An episode's part depends on those before it in its stratum,
    never on those after it. Each new key goes to a part that has less than its share, drawn by its
    hash with what the parts lack as weights: if all keys differ, no part ever has one more than its
    share of a stratum.

    Args:
        keys: What must stay together, for each episode.
        strata: The stratum of each episode.
        shares: The shares of the parts, ``(P,)``.
        seed: Another seed gives other parts.
    """
    taken: dict[str, NDArray[np.int64]] = {}
    part_of: dict[str, int] = {}
    for key, stratum in zip(keys, strata, strict=True):
        counts = taken.setdefault(stratum, np.zeros(len(shares), np.int64))
        if key not in part_of:
            lacks = np.maximum(shares * (counts.sum() + 1) - counts, 0)
            bounds = np.cumsum(lacks)
            place = np.searchsorted(bounds, _unit(key, seed) * bounds[-1], side="right")
            part_of[key] = int(min(place, np.flatnonzero(lacks)[-1]))
        counts[part_of[key]] += 1
    return np.asarray([part_of[key] for key in keys], dtype=np.int64)


def _unit(key: str, seed: int) -> float:
    """Return a number in ``[0, 1)`` that looks random, from a key and a seed."""
    digest = hashlib.sha256(f"{seed} {key}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def _plain(value: Any) -> Any:  # noqa: ANN401  # whatever metadata holds
    if isinstance(value, float):
        if not math.isfinite(value):
            return None if math.isnan(value) else repr(value)
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return value
