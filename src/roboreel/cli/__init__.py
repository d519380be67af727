"""The command line, one thin module per command."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from roboreel import __version__
from roboreel.cli.commands import SETTINGS, LazyGroup, load_first
from roboreel.cli.console import errors, print_error, print_problem
from roboreel.errors import DatasetError
from roboreel.files import final_names

__all__ = ["app", "load_first", "main"]

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    help="Read, record and look at robot-learning datasets, in place.",
    epilog="Exit codes: 0 success; 1 a check found problems; 2 wrong usage or failure.",
    **SETTINGS,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"roboreel {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run a command; what goes wrong is one sentence on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        # Not every terminal can show every task: an escape is better than a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                app(prog_name="roboreel")
        finally:
            sys.stdout.flush()  # Whether somebody reads it is known now, not after the last line.
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            _end_without_reader()  # Typer's 1 would say that a check found problems.
        raise
    except DatasetError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        # Ours says how to install what is missing; any other is a bug and keeps its traceback.
        if "pip install 'roboreel[" not in str(error):
            raise
        _fail(str(error))
    except BrokenPipeError:
        _end_without_reader()
    except OSError as error:
        # Of a rename, the second name is what the user has asked for.
        name = error.filename2 or error.filename
        reason = os.strerror(error.errno) if error.errno and not name else error.strerror or error
        _fail(f"{reason}: {name!r}" if name else str(reason))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as commands print problems, without the line of code that it came from."""
    print_problem(str(message), console=errors)


def _end_without_reader() -> NoReturn:
    """End as other programs do when the reader has seen enough: ``roboreel info … | head``."""
    with suppress(OSError):  # What is left in the buffers goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
    sys.exit(128 + 13)


def _fail(message: str) -> NoReturn:
    with suppress(OSError):
        print_error(final_names(message))
    sys.exit(2)
