"""Objects that must be reset in a forked child."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["after_fork"]

T = TypeVar("T")

_registered: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def after_fork(owner: T, reset: Callable[[T], None]) -> None:
    """Call ``reset(owner)`` in every forked child, as long as the owner lives.

    A lock may be held by a thread that does not exist in the child, and an open file shares its
    position with the parent: both must be replaced.
    """
    _registered[owner] = reset


def _reset_all() -> None:
    """Reset all owners; Python prints an error that is raised here, and the child goes on."""
    failed: Exception | None = None
    for owner, reset in list(_registered.items()):
        try:
            reset(owner)
        except Exception as error:  # noqa: BLE001, PERF203  # An owner that was not reset would hang.
            failed = error
    if failed is not None:
        raise failed


if hasattr(os, "register_at_fork"):  # Windows cannot fork.
    os.register_at_fork(after_in_child=_reset_all)
