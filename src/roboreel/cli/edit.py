"""roboreel edit: episodes, tasks and features change, and what stays is not touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from roboreel.cli.arguments import (
    EpisodesOption,
    FolderArgument,
    parse_episode_list,
    parse_episodes_option,
    parse_picture_size,
)
from roboreel.cli.changing import edits
from roboreel.cli.commands import group_of
from roboreel.edit import Edit, edit_dataset
from roboreel.edit.recipe_file import replay_operations
from roboreel.errors import EditError
from roboreel.parquet.json_text import parse_json
from roboreel.video.encoding import Encoding

edit = group_of("edit")

ListArgument = Annotated[
    str, typer.Argument(metavar="LIST", help="Episodes such as 0,4,7-9.", show_default=False)
]
EpisodeArgument = Annotated[
    int, typer.Argument(metavar="EPISODE", help="The episode's number.", show_default=False)
]
FeatureArgument = Annotated[
    str, typer.Argument(metavar="FEATURE", help="A feature.", show_default=False)
]
CameraArgument = Annotated[
    str, typer.Argument(metavar="CAMERA", help="A camera stored as video.", show_default=False)
]


@edit.command()
@edits
def delete(path: FolderArgument, episodes: ListArgument) -> Edit:
    """Delete episodes. Those behind them get lower numbers."""
    return edit_dataset(path).delete(parse_episode_list(episodes, "LIST"))


@edit.command()
@edits
def keep(
    path: FolderArgument,
    episodes: EpisodesOption = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Episodes such as 'success and length > 90'."),
    ] = None,
) -> Edit:
    """Keep some episodes and delete the others."""
    if episodes is None and where is None:
        raise typer.BadParameter("give --episodes or --where")
    return edit_dataset(path).keep(parse_episodes_option(episodes), where=where)


@edit.command()
@edits
def trim(
    path: FolderArgument,
    episodes: Annotated[
        str | None,
        typer.Argument(
            metavar="[LIST]", help="Episodes such as 0,4,7-9. Default with --idle: all."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="First frame to keep: 1.2s, or its number."),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", help="Frame after the last one to keep: 8s, or its number."
        ),
    ] = None,
    idle: Annotated[
        bool, typer.Option("--idle", help="Trim where nothing moves, at the start and the end.")
    ] = False,
) -> Edit:
    """Cut off the start or the end of episodes."""
    numbers = parse_episodes_option(episodes, "LIST")
    made = edit_dataset(path)
    if idle:
        return made.trim_idle(numbers)
    if numbers is None or (start is None and stop is None):
        raise typer.BadParameter("give episodes and --from or --to, or use --idle")
    given = {**_moment(start, "start"), **_moment(stop, "stop")}
    for number in numbers:
        made = made.trim(number, **given)  # type: ignore[arg-type]  # seconds or frames
    return made


@edit.command()
@edits
def cut(
    path: FolderArgument,
    episode: EpisodeArgument,
    at: Annotated[
        str,
        typer.Option(metavar="TIME", help="First frame of the second part: 4.0s, or its number."),
    ],
) -> Edit:
    """Make two episodes of one."""
    return edit_dataset(path).cut(episode, **_moment(at, "at"))  # type: ignore[arg-type]


@edit.command()
@edits
def task(
    path: FolderArgument,
    text: Annotated[str, typer.Argument(metavar="TASK", help="The new task.", show_default=False)],
    episodes: EpisodesOption = None,
    replace: Annotated[
        str | None, typer.Option(metavar="TASK", help="Only where this is the task.")
    ] = None,
) -> Edit:
    """Give episodes another task, or replace one."""
    made, numbers = edit_dataset(path), parse_episodes_option(episodes)
    if replace is not None:
        return made.replace_task(replace, text, numbers)
    every = made.source.manifest.episodes.number.tolist()
    return made.set_task(every if numbers is None else numbers, text)


@edit.command("set")
@edits
def set_(
    path: FolderArgument,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...", help="success=true, operator=Ann.", show_default=False
        ),
    ],
    episodes: EpisodesOption = None,
) -> Edit:
    """Set values of episodes: true, false, null, numbers, texts."""
    pairs = [value.partition("=") for value in values]
    if any(not sign for _, sign, _ in pairs):
        raise typer.BadParameter(f"NAME=VALUE was expected: {values}")
    columns = {name: _value(text) for name, _, text in pairs}
    return edit_dataset(path).set(parse_episodes_option(episodes), columns)


@edit.command()
@edits
def rename(
    path: FolderArgument,
    feature: FeatureArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its new name.", show_default=False)],
) -> Edit:
    """Give a feature another name."""
    return edit_dataset(path).rename(feature, name)


@edit.command()
@edits
def remove(path: FolderArgument, feature: FeatureArgument) -> Edit:
    """Remove a feature."""
    return edit_dataset(path).remove(feature)


@edit.command()
@edits
def reencode(
    path: FolderArgument,
    camera: CameraArgument,
    codec: Annotated[str, typer.Option(help="av1, h264 or hevc.")] = "av1",
    gop: Annotated[int, typer.Option(help="Images from one keyframe to the next.")] = 2,
    crf: Annotated[float | None, typer.Option(help="Quality; lower is better.")] = None,
) -> Edit:
    """Encode the video of a camera again: pixels change."""
    encoding = Encoding(codec, keyframe_distance=gop, crf=crf)  # type: ignore[arg-type]  # checked there
    return edit_dataset(path).reencode(camera, encoding)


@edit.command()
@edits
def resize(
    path: FolderArgument,
    camera: CameraArgument,
    size: Annotated[
        str, typer.Option(metavar="HxW", help="Height and width: 240x320.", show_default=False)
    ],
) -> Edit:
    """Scale the video of a camera and encode it again."""
    return edit_dataset(path).resize(camera, *parse_picture_size(size))


@edit.command()
@edits
def resample(
    path: FolderArgument, fps: Annotated[float, typer.Option(help="Frames per second.")]
) -> Edit:
    """Change the rate: the nearest frames, encoded again."""
    return edit_dataset(path).resample(fps)


@edit.command()
@edits
def scrub(path: FolderArgument) -> Edit:
    """Erase images of deleted episodes from video files."""
    return edit_dataset(path).scrub()


@edit.command("apply")
@edits
def apply_(
    path: FolderArgument,
    recipe: Annotated[
        Path, typer.Option(metavar="FILE", help="A JSON file of operations.", show_default=False)
    ],
) -> Edit:
    """Carry out the operations of a file, all at once."""
    made = edit_dataset(path)
    try:
        said = parse_json(recipe.read_bytes())
    except (ValueError, RecursionError) as error:
        raise EditError(f"Not JSON ({error}): {str(recipe)!r}.") from error
    return replay_operations(made, said)


def _moment(text: str | None, name: str) -> dict[str, float | int]:
    """Return a time in seconds, or a frame, under the name of the argument that takes it."""
    if text is None:
        return {}
    number = text.removesuffix("s").strip()
    try:
        return {f"{name}_s": float(number)} if text.endswith("s") else {name: int(number)}
    except ValueError:
        raise typer.BadParameter(
            f"give a time such as 1.2s, or the number of a frame, not {text!r}"
        ) from None


def _value(text: str) -> bool | int | float | str | None:
    """Return what a text stands for: JSON's values, or itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, bool | int | float | str) else text
