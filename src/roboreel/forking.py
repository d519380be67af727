"""Objects that must be told of a fork, or reset in the child."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["after_fork", "before_fork"]

T = TypeVar("T")

_registered: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
_told: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def before_fork(owner: T, prepare: Callable[[T], None]) -> None:
    """Call ``prepare(owner)`` before every fork, as long as the owner lives.

    Memory that is shared with another process stays shared with the child.
    """
    _told[owner] = prepare


def after_fork(owner: T, reset: Callable[[T], None]) -> None:
    """Call ``reset(owner)`` in every forked child, as long as the owner lives.

    A lock may be held by a thread that does not exist in the child, and an open file shares its
    position with the parent: both must be replaced.
    """
    _registered[owner] = reset


def _tell_all() -> None:
    for reference in _told.keyrefs():  # A copy, in one step: threads may add owners meanwhile.
        owner = reference()
        if owner is not None:
            _told[owner](owner)


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
    os.register_at_fork(before=_tell_all, after_in_child=_reset_all)
