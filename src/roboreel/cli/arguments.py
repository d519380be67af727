"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roboreel.dataset.episode_numbers import parse_episodes
from roboreel.io.budget import parse_size

if TYPE_CHECKING:
    from roboreel.dataset import Dataset

# A string, not a Path: Path turns "hf://…" into "hf:/…".
DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A dataset's folder or address: hf://datasets/OWNER/NAME, s3://…, gs://…, https://….",
        show_default=False,
    ),
]
FolderArgument = Annotated[
    str, typer.Argument(metavar="FOLDER", help="The dataset's folder.", show_default=False)
]
EpisodesOption = Annotated[
    str | None,
    typer.Option("--episodes", metavar="LIST", help="Episodes such as 0,4,7-9. Default: all."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
]

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def expanded(path: Path | None) -> Path | None:
    """Return a path without ``~``: shells leave it in ``--out=~/folder``."""
    return None if path is None else path.expanduser()


def parse_size_option(text: str) -> int:
    """Return the bytes of a size such as 50GB.

    Raises:
        typer.BadParameter: The text is not a size.
    """
    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def parse_picture_size(text: str) -> tuple[int, int]:
    """Return the height and width of a text such as 240x320.

    Raises:
        typer.BadParameter: The text is not a size.
    """
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size: write 240x320.", param_hint="'--size'")
    return int(match[1]), int(match[2])


KeepBytesOption = Annotated[
    int,
    typer.Option(
        parser=parse_size_option,
        metavar="SIZE",
        help="How much may stay, such as 50GB.",
        show_default=False,
    ),
]


def select_episodes(dataset: Dataset, episodes: str | None) -> Dataset:
    """Return the view of the episodes that were asked for, or the whole dataset.

    Raises:
        typer.BadParameter: The text is not a list of episodes.
        EpisodeNotFoundError: An episode does not exist.
    """
    return dataset if episodes is None else dataset.select(parse_episode_list(episodes))


def parse_episodes_option(episodes: str | None, option: str = "--episodes") -> list[int] | None:
    """Return the numbers of the episodes that were asked for; None for all.

    Raises:
        typer.BadParameter: The text is not a list of episodes.
    """
    return None if episodes is None else parse_episode_list(episodes, option)


def parse_episode_list(episodes: str, option: str = "--episodes") -> list[int]:
    """Return the numbers of a list of episodes.

    Raises:
        typer.BadParameter: The text is not a list of episodes.
    """
    try:
        return parse_episodes(episodes)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error
