"""The command line, one thin module per command."""

from __future__ import annotations

import sys

import typer

from roboreel import __version__
from roboreel.cli.cache import cache
from roboreel.cli.compact import compact
from roboreel.cli.console import errors
from roboreel.cli.demo import demo
from roboreel.cli.export import export
from roboreel.cli.info import info
from roboreel.cli.recover import recover
from roboreel.cli.report import report
from roboreel.cli.stats import stats
from roboreel.cli.view import view
from roboreel.errors import DatasetError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Read, record and look at robot-learning datasets, in place.",
)
app.command()(compact)
app.command()(info)
app.command()(recover)
app.command()(view)
app.command()(export)
app.command()(report)
app.command()(demo)
app.command("sample", hidden=True)(demo)  # its name until 0.1
app.add_typer(cache, name="cache")
app.command()(stats)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"roboreel {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(  # handled by the callback
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run a command; an error of ours is a sentence on stderr and exit code 1."""
    try:
        app()
    except DatasetError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        # Ours says how to install what is missing; any other is a mistake that must be seen.
        if "pip install 'roboreel[" not in str(error):
            raise
        _fail(str(error))
    except BrokenPipeError:
        # Whoever was reading has seen enough: `roboreel info … | head`.
        sys.stderr.close()
        sys.exit(0)


def _fail(message: str) -> None:
    errors.print(f"[bold red]Error:[/] {_escaped(message)}", soft_wrap=True)
    sys.exit(1)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
