"""What objects must do in a forked child before they are used there."""

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
    """Call ``reset(owner)`` in every forked child, for as long as the owner lives.

    Locks may be held by threads that do not exist in the child, and open files share their
    position with the parent's: both are to be made anew.
    """
    _registered[owner] = reset


def _reset_all() -> None:
    for owner, reset in list(_registered.items()):
        reset(owner)


if hasattr(os, "register_at_fork"):  # Windows cannot fork.
    os.register_at_fork(after_in_child=_reset_all)
