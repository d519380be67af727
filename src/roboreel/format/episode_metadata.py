"""What a caller says of a new episode, as columns of the v3.0 episode table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import FrameError
from roboreel.format.episode_list import is_metadata
from roboreel.format.places import NOWHERE, episodes_path
from roboreel.parquet.writing import plain_types
from roboreel.text import is_writable

if TYPE_CHECKING:
    from roboreel.errors import DatasetError
    from roboreel.format.ledger import Ledger

    Value = bool | int | float | str

_NOUNS: dict[type, str] = {bool: "booleans", int: "integers", float: "floats", str: "strings"}
_MOST = 2**63


def check_metadata(there: Mapping[str, type], metadata: Mapping[str, object]) -> dict[str, Value]:
    """Return what the columns of the next episode will hold; a value of None is left out.

    Args:
        there: What the columns hold in earlier episodes: see `column_types`.
        metadata: What a caller says of the episode, by column.

    Raises:
        FrameError: A name is taken, or a value is not of its column's type.
    """
    if not isinstance(metadata, Mapping):
        raise FrameError(f"metadata is {metadata!r}: give values by name, {{'success': True}}.")
    checked = {}
    for name, value in metadata.items():
        check_name(name, FrameError)
        if value is not None:
            what = f"metadata[{name!r}]"
            checked[name] = check_value(what, value, there.get(name), FrameError)
    return checked


def column_types(ledger: Ledger) -> dict[str, type]:
    """Return the Python type of the values of each column that can be given; `object` for others."""
    if ledger.last_episodes == NOWHERE:
        return {}
    return plain_types(ledger.about.root / episodes_path(ledger.last_episodes))


def check_name(name: object, error: type[DatasetError]) -> None:
    """Raise an error of this class if episodes cannot have a column of this name."""
    is_text = isinstance(name, str) and name and "/" not in name and is_writable(name)
    if not is_text or not is_metadata(str(name)):
        raise error(
            f"{name!r} cannot be set as metadata: choose a name that is not one of LeRobot's own, "
            "without '/', such as 'success'."
        )


def check_value(what: str, value: object, held: type | None, error: type[DatasetError]) -> Value:
    """Return a value of a column of the episode table, in the type of the column.

    Args:
        what: How the error names the value.
        value: The value.
        held: The type of the values of other episodes; None if there are none.
        error: The class of the error that is raised if the value does not fit.
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, bool | int | float | str):
        raise error(f"{what} cannot be {value!r}: give true or false, a number or a text.")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise error(f"{what} cannot be {value!r}: leave it out, or give a finite number.")
    if type(plain) is int and not -_MOST <= plain < _MOST:
        raise error(f"{what} cannot be {value!r}: it does not fit in 64 bits.")
    if isinstance(plain, str) and not is_writable(plain):
        raise error(f"{what} cannot be {value!r}: it holds half of a character.")
    if held is float and type(plain) is int:
        return float(plain)
    if held not in (None, type(None), type(plain)):
        raise error(
            f"{what} is {value!r}, but this column holds {_NOUNS.get(held, 'other values')} in other "
            "episodes."
        )
    return plain
