"""Where the commands write."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["errors", "output", "progress_bar"]

output = Console()
errors = Console(stderr=True)


def progress_bar() -> Progress:
    """Return a bar for long work, on stderr so that stdout stays clean."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
    )
