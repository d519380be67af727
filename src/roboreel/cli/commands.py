"""Commands by name, each imported when it is asked for: a command imports only what it needs."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    # Plain text: the same in a terminal, a pipe and a log.
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

# In the order of the help. The module of each, and the name there if it is another one.
_HOMES = {
    "info": "info",
    "stats": "stats",
    "check": "check",
    "repair": "repair",
    "report": "report",
    "view": "view",
    "export": "export",
    "cache": "cache",
    "prefetch": "mirror",
    "mirror": "mirror",
    "job": "job",
    "edit": "edit",
    "import": "import_.import_",
    "merge": "making",
    "convert": "making",
    "split": "making",
    "compact": "compact",
    "recover": "recover",
    "undo": "undo",
    "history": "history",
    "demo": "demo",
    "sample": "demo.demo",
}
_HIDDEN = ("sample",)  # the name of demo until 0.1


class LazyGroup(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # typer's
        super().__init__(**settings)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401  # click's context, or typer's own
        """Return the names, without importing anything."""
        del ctx
        return list(self.commands)


class _Commands(MutableMapping[str, Any]):
    """Looks like a dict of commands. A command is imported when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # a command of click, or typer's own
        if name not in self._made:
            self._made[name] = _make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in _HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)

    def __setitem__(self, name: str, command: Any) -> None:  # noqa: ANN401
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"The command {name!r} cannot be removed.")


def load_first(words: list[str]) -> None:
    """Import the command that a command line names, if it names one."""
    for word in words:
        if word in _HOMES:
            _find(word)
            return


def _find(name: str) -> Any:  # noqa: ANN401  # a function, or a group of commands
    """Return a command as its module has it.

    Raises:
        KeyError: There is no such command.
    """
    module, _, other = _HOMES[name].partition(".")
    return getattr(import_module(f"roboreel.cli.{module}"), other or name)


def _make(name: str) -> Any:  # noqa: ANN401  # a command of click, or typer's own
    found = _find(name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, **SETTINGS)
        alone.command(name, hidden=name in _HIDDEN)(found)
        return get_command(alone)
    group = get_command(found)
    group.name = name
    return group
