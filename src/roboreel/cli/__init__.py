"""The command line, one thin module per command."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from roboreel import __version__
from roboreel.cli.commands import SETTINGS, LazyGroup, load_first
from roboreel.cli.console import print_error
from roboreel.errors import DatasetError

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
        app(prog_name="roboreel")
    except DatasetError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        # Ours says how to install what is missing; any other is a bug and keeps its traceback.
        if "pip install 'roboreel[" not in str(error):
            raise
        _fail(str(error))
    except BrokenPipeError:
        # The reader has seen enough: `roboreel info … | head`.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename!r}" if error.filename else str(error))


def _fail(message: str) -> NoReturn:
    print_error(message)
    sys.exit(2)
