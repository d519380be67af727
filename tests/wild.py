"""Datasets as other writers left them in the world, by name, each with what is true about it."""

from __future__ import annotations

from tests import wild_metadata, wild_tables, wild_videos
from tests.wild_fixture import Truth, Wild

__all__ = ["WILD", "Truth", "Wild"]

WILD: tuple[Wild, ...] = tuple(
    found
    for module in (wild_videos, wild_tables, wild_metadata)
    for found in vars(module).values()
    if isinstance(found, Wild)
)
