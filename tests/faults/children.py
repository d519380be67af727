"""Acts in forked children of a process that has imported everything and started nothing.

Importing pandas, pyarrow.dataset and the like costs more than most writers. A child tells its parent which
modules it had to import; the parent imports them too, before it forks again.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import select
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["FAILED", "FOREIGN", "import_all", "in_child"]

MOST_CPU_S, MOST_IDLE_S = 60, 40
"""A process that uses more, or sleeps longer without any use, hangs."""
FAILED, FOREIGN = 3, 4
"""How a child ends whose act raised: one of our errors or the system's, or another one."""


def in_child(act: Callable[[], object], errors: Path) -> int:
    """Run something in a forked child, and return how it ended: negative for a signal.

    A child that hangs leaves its stacks in ``errors``, and is killed.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _act_and_exit(act, errors, writing)
    os.close(writing)
    try:
        code = _wait(child)
        os.set_blocking(reading, False)  # What the child started may still hold the other end.
        with suppress(BlockingIOError):
            import_all(os.read(reading, 1 << 16).decode().split())
        return code
    finally:
        os.close(reading)


def import_all(names: Iterable[str]) -> None:
    """Import modules that a child needed; those that cannot be are left to the children."""
    missing = [name for name in names if name not in sys.modules]
    for name in missing:
        with suppress(Exception):
            importlib.import_module(name)
    if missing:
        gc.collect()
        gc.freeze()  # A collection in a child would copy every page.


def _act_and_exit(act: Callable[[], object], errors: Path, modules: int) -> None:
    before, code = set(sys.modules), FOREIGN
    try:
        handle = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle, 2)
        os.dup2(handle, 1)
        faulthandler.register(signal.SIGUSR1, file=2)
        warnings.simplefilter("ignore")
        act()
        code = 0
    except (DatasetError, OSError, KeyboardInterrupt):
        traceback.print_exc()
        code = FAILED
    except BaseException:  # noqa: BLE001  # the child must end here, whatever happens
        traceback.print_exc()
    finally:
        try:  # Ctrl-C may come as late as here.
            # No more than a pipe holds: nobody reads before the child has ended.
            os.write(modules, " ".join(sorted(set(sys.modules) - before)).encode()[: 1 << 16])
            sys.stderr.flush()
        finally:
            os._exit(code)


def _wait(child: int) -> int:
    watch, handle = _Watch(child), os.pidfd_open(child)
    try:
        while not watch.hangs():
            if select.select([handle], [], [], 0.5)[0]:
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(handle)
    os.kill(child, signal.SIGUSR1)  # It writes its stacks.
    time.sleep(0.5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGALRM


class _Watch:
    """Tells a process that hangs from one that gets no turn on a busy machine."""

    def __init__(self, process: int) -> None:
        self._stat = Path(f"/proc/{process}/stat")
        self._used_s, self._since_s = 0.0, time.monotonic()

    def hangs(self) -> bool:
        """Whether it has used much time, or none for long while it could have."""
        state, used_s = self._look()
        if used_s != self._used_s or state != "S":
            self._used_s, self._since_s = used_s, time.monotonic()
        return used_s > MOST_CPU_S or time.monotonic() - self._since_s > MOST_IDLE_S

    def _look(self) -> tuple[str, float]:
        # After the name, which may hold spaces: state, then 10 fields, user and system time.
        fields = self._stat.read_text().rpartition(")")[2].split()
        return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
