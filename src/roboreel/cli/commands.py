"""Commands by name, each imported when it is asked for: a command imports only what it needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    # Plain text: the same in a terminal, a pipe and a log.
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class Entry(NamedTuple):
    """Where a command is, and what `roboreel --help` says of it."""

    module: str
    name: str
    summary: str
    hidden: bool = False


# In the order of the help, which is printed without an import of any command.
COMMANDS = {
    "info": Entry("info", "info", "Show what is in a dataset, and what is wrong at first sight."),
    "stats": Entry(
        "stats", "stats", "Show the statistics that are stored, or those of the values."
    ),
    "check": Entry("check", "check", "Find what is wrong with a dataset."),
    "repair": Entry("repair", "repair", "Repair what `roboreel check` finds."),
    "report": Entry("report", "report", "Write a page about a dataset and what looks wrong in it."),
    "view": Entry("view", "view", "Show episodes in Rerun's viewer."),
    "export": Entry("export", "export", "Write one Rerun recording per episode."),
    "cache": Entry("cache", "cache", "Decode datasets once, then read them from mapped files."),
    "prefetch": Entry("mirror", "prefetch", "Fetch a remote dataset into its mirror."),
    "mirror": Entry("mirror", "mirror", "List and remove what is kept of remote datasets."),
    "job": Entry("job", "job", "Long work: run a share of it, resume it, commit it."),
    "edit": Entry("edit", "edit", "Delete, trim, cut, relabel and rename without loss."),
    "import": Entry(
        "import_", "import_", "Import HDF5, Zarr, RLDS, MCAP or ROS bags as a dataset."
    ),
    "merge": Entry("making", "merge", "Merge datasets into a new one, by copying."),
    "convert": Entry("making", "convert", "Convert a dataset to another version, by copying."),
    "split": Entry("making", "split", "Split a dataset into several, by whole episodes."),
    "compact": Entry("compact", "compact", "Join small files into larger ones."),
    "recover": Entry(
        "recover", "recover", "Recover the episode that was open when a recorder crashed."
    ),
    "undo": Entry("undo", "undo", "Undo the newest change: the old files return."),
    "history": Entry("history", "history", "List the changes that can be undone, or purge them."),
    "demo": Entry("demo", "demo", "Make a dataset of a simulated arm that reaches for targets."),
    # The name of demo until 0.1.
    "sample": Entry("demo", "demo", "", hidden=True),
}


class LazyGroup(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # typer's
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS, cast("Any", None))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  # click's, or typer's own
        """Import a command and return it; None if there is no such command."""
        del ctx
        if cmd_name in COMMANDS and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _make(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the list of commands, without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, entry.summary) for name, entry in COMMANDS.items() if not entry.hidden]
            )


def group_of(name: str) -> typer.Typer:
    """Return a group that takes commands below a command's name."""
    return typer.Typer(no_args_is_help=True, help=COMMANDS[name].summary, **SETTINGS)


def load_first(words: list[str]) -> None:
    """Import the command that a command line names, if it names one."""
    for word in words:
        if word in COMMANDS:
            _load(word)
            return


def _load(name: str) -> Any:  # noqa: ANN401  # a function, or a group of commands
    entry = COMMANDS[name]
    return getattr(import_module(f"roboreel.cli.{entry.module}"), entry.name)


def _make(name: str) -> Any:  # noqa: ANN401  # a command of click, or typer's own
    loaded = _load(name)
    if isinstance(loaded, typer.Typer):
        group = get_command(loaded)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, **SETTINGS)
    alone.command(name, hidden=COMMANDS[name].hidden)(loaded)
    return get_command(alone)
