"""Notices of forks, and new processes that import nothing of the working directory."""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

SAFELY = ["-P"] if sys.version_info >= (3, 11) else []
"""Options of Python for ``-c`` and ``-m``, which look in the working directory first. The standard
library is looked for there too, and Python 3.13 does so before the first line of ``-c`` runs."""
# Python 3.10 has no such option, and imports nothing before that line.
_FORGET_HERE = "import sys; sys.path[:] = filter(None, sys.path); "
_spawning = Lock()

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


def python_command(code: str, *arguments: str) -> list[str]:
    """Return what runs Python code in a new process that imports what this one can import."""
    paths = [path or os.getcwd() for path in sys.path]  # noqa: PTH109  # a text beside others
    return [
        sys.executable,
        *SAFELY,
        "-c",
        f"import sys; sys.path[:] = {paths!a}; {code}",
        *arguments,
    ]


@contextmanager
def spawning_safely() -> Iterator[None]:
    """Have `multiprocessing` start processes that do not look in the working directory first.

    They take over this process's path, but only once their first modules are imported.
    """
    from multiprocessing import util

    with _spawning:
        start: Any = util.spawnv_passfds

        def start_safely(path: bytes, args: Any, passfds: Any) -> int:  # noqa: ANN401
            place = args.index("-c")
            code = _FORGET_HERE + args[place + 1]
            safe = [*args[:place], *SAFELY, "-c", code, *args[place + 2 :]]
            return int(start(path, safe, passfds))

        util.spawnv_passfds = start_safely
        try:
            yield
        finally:
            util.spawnv_passfds = start


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
