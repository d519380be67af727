"""The command line, as ``python -m roboreel`` and as ``roboreel``; a signal ends it without a traceback."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run a command; Ctrl-C, SIGTERM and SIGHUP end it alike, with exit code 128 plus their number."""
    _open_standard_streams()
    signals = _signals()
    # Nothing is to be cleaned up yet, and modules that are half loaded would each say so.
    _handle(signals, _leave)
    # Looking for garbage among modules that stay costs a fifth of the time of a short command.
    gc.disable()
    from roboreel.cli import load_first
    from roboreel.cli import main as run

    load_first(sys.argv[1:])
    gc.freeze()
    gc.enable()
    interrupt = _Interrupt()
    _handle(signals, interrupt)
    try:
        run()
    except KeyboardInterrupt:
        sys.exit(128 + interrupt.number)
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            sys.exit(128 + interrupt.number)
        raise
    finally:
        _handle(signals, _leave)
        gc.freeze()


def _open_standard_streams() -> None:
    """Open what was closed (``>&-``), or the next file would take its number, and get its text."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # for good


class _Interrupt:
    """Raises what a Ctrl-C raises, so that processes are ended and files removed for all signals."""

    def __init__(self) -> None:
        self.number: int = signal.SIGINT

    def __call__(self, number: int, _: FrameType | None) -> None:
        self.number = number
        raise KeyboardInterrupt


def _signals() -> list[signal.Signals]:
    """Return the signals that end a command; not those that a shell or nohup has it ignore."""
    named = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    ours = signal.SIG_DFL, signal.default_int_handler
    return [number for number in named if number is not None and signal.getsignal(number) in ours]


def _handle(signals: list[signal.Signals], handler: signal._HANDLER) -> None:
    for number in signals:
        signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
