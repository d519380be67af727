"""Views by whole episodes: train, validation, test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.dataset.query.columns import column_of
from roboreel.numbers import one_number
from roboreel.order.portions import (
    balanced_portions,
    check_shares,
    hashed_portions,
    key_text,
    numbered_keys,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from roboreel.dataset.dataset import Dataset


def split_positions(
    view: Dataset,
    shares: Mapping[str, float],
    *,
    by: str | Sequence[str] | None,
    stratify: str | Sequence[str] | None,
    seed: int,
) -> dict[str, NDArray[np.int64]]:
    """Return the positions of the episodes of each part; see `Dataset.split`."""
    values, seed = check_shares(shares), one_number(seed, "seed")
    keys = _identities(view) if by is None else _texts(view, by)
    if stratify is None:
        parts = hashed_portions(keys, values, seed)
    else:
        parts = balanced_portions(keys, _texts(view, stratify), values, seed)
    positions = view.selection.positions
    return {name: positions[parts == part] for part, name in enumerate(shares)}


def _identities(view: Dataset) -> list[str]:
    """Return what identifies each episode: its tasks, its length, and which of such it is.

    Not its number, which changes when episodes before it are removed. Counted over the whole
    dataset, so that an episode has one identity in all views.
    """
    table = view.manifest.episodes
    same = [
        key_text([table.tasks_of(place), length])
        for place, length in enumerate(table.length.tolist())
    ]
    numbered = numbered_keys(same)
    return [numbered[place] for place in view.selection.positions.tolist()]


def _texts(view: Dataset, names: str | Sequence[str]) -> list[str]:
    listed = [names] if isinstance(names, str) else list(names)
    columns = [column_of(view, name).values for name in listed]
    return [key_text(values) for values in zip(*columns, strict=True)]
