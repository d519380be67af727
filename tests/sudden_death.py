"""Lets a function die at its n-th call that changes the disk: nothing after that call has any effect."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHANGING = ("replace", "rename", "link", "unlink", "rmdir", "mkdir")


class Died(BaseException):
    """The process has died."""


def dies_at(call: int, work: Callable[[Path], object], root: Path) -> bool:
    """Do some work on a folder whose n-th change of the disk does not happen; return whether it came to that."""
    left = call

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*given: object, **more: object) -> object:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Died
            return real(*given, **more)

        return change

    patches = [mock.patch.object(os, name, counted(getattr(os, name))) for name in CHANGING]
    for patch in patches:
        patch.start()
    try:
        work(root)
    except Died:
        return True
    finally:
        for patch in patches:
            patch.stop()
    return False
