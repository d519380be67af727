"""Options that travel together reach a command as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from roboreel.cli.groups import grouped


@dataclass(frozen=True)
class Place:
    folder: Annotated[str, typer.Option("--folder")] = "here"


@dataclass(frozen=True, kw_only=True)
class How:
    place: Place
    often: Annotated[int, typer.Option("--often", min=1)] = 1


def run(*words):
    """Return what a command got, and how it ended."""
    got = []

    @grouped
    def work(name: str, how: How, loud: bool = False) -> None:
        """Work on something."""
        got.append((name, how, loud))

    app = typer.Typer()
    app.command()(work)
    return got, CliRunner().invoke(app, words)


def test_a_group_holds_the_defaults_of_its_fields():
    assert run("arm")[0] == [("arm", How(place=Place("here"), often=1), False)]


def test_groups_inside_groups_take_options_of_their_own():
    got, _ = run("arm", "--folder", "there", "--often", "3", "--loud")
    assert got == [("arm", How(place=Place("there"), often=3), True)]


def test_a_field_is_checked_as_an_option():
    got, ended = run("arm", "--often", "0")
    assert (got, ended.exit_code) == ([], 2)


def test_help_is_that_of_the_function():
    assert "Work on something." in run("--help")[1].output
