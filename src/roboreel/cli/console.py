"""Where the commands write, and in what form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from roboreel.text import readable

if TYPE_CHECKING:
    from types import TracebackType

# Text from datasets is shown as it is: no emoji for ":ok:", no colours for numbers and paths.
output = Console(highlight=False, emoji=False)
errors = Console(stderr=True, highlight=False, emoji=False)


def literal(text: str) -> str:
    r"""Return text from a file as markup that shows it, control characters as ``\x1b``.

    A task may hold anything: an escape sequence in it must not reach the terminal.
    """
    return escape(readable(text))


def print_line(text: str) -> None:
    """Print one line, however long."""
    output.print(literal(text), soft_wrap=True)


def print_json(value: object) -> None:
    """Print a value as JSON, in ASCII, so that any encoding of stdout can take it."""
    print(json.dumps(value, indent=2))


def print_problem(text: str, *, console: Console = output) -> None:
    """Print what is wrong with a dataset."""
    console.print(f"[yellow]Problem:[/] {literal(text)}", soft_wrap=True)


def print_error(text: str) -> None:
    """Print why a command could not do its work."""
    errors.print(f"[bold red]Error:[/] {literal(text)}", soft_wrap=True)


def text_table(*headings: str, title: str | None = None) -> Table:
    """Return a table that wraps what is too long for the terminal, and cuts nothing off."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _progress_bar() -> Progress:
    """Return a bar for long work: on stderr, and only if that is a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors if errors.is_terminal else Console(quiet=True),
    )


class ProgressReport:
    """Bars for work that says by itself how far it is, one for each kind of work."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._bars: dict[str, Any] = {}

    def show(self, what: str, done: int, total: int) -> None:
        """Show how much of something is done."""
        if self._progress is None:
            self._progress = _progress_bar()
            self._progress.start()
        if what not in self._bars:
            self._bars[what] = self._progress.add_task(literal(what), total=total)
        self._progress.update(self._bars[what], completed=done)

    def pause(self) -> None:
        """Leave the terminal to others, until there is more to show."""
        if self._progress is not None:
            self._progress.stop()
        self._progress, self._bars = None, {}

    def __enter__(self) -> ProgressReport:  # noqa: PYI034  # Self is in Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.pause()
