"""roboreel merge, convert and split: new datasets from old ones, by copying."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roboreel.cli.arguments import DatasetArgument
from roboreel.cli.carrying_out import Where
from roboreel.cli.changing import LinkOption, ReencodeOption, apply_plan, carry_out
from roboreel.cli.confirm import Asking, confirm
from roboreel.cli.console import print_json, print_line
from roboreel.cli.groups import grouped
from roboreel.edit.converting import plan_conversion, plan_split
from roboreel.edit.merging import plan_merge
from roboreel.words import counted

OutArgument = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="A new folder.", show_default=False)
]


@grouped
def merge(
    paths: Annotated[
        list[str], typer.Argument(metavar="DATASET...", help="Two or more.", show_default=False)
    ],
    out: OutArgument,
    rename: Annotated[
        list[str],
        typer.Option(metavar="OLD=NEW", help="Rename a feature wherever it occurs; repeatable."),
    ] = [],  # noqa: B006  # typer copies it
    drop: Annotated[
        list[str], typer.Option(metavar="FEATURE", help="Leave this feature out; repeatable.")
    ] = [],  # noqa: B006
    pad: Annotated[
        list[str],
        typer.Option(
            metavar="FEATURE=VALUE", help="Fill in a feature that some datasets lack; repeatable."
        ),
    ] = [],  # noqa: B006
    fps: Annotated[
        float | None, typer.Option(help="Resample all datasets to this rate; re-encodes video.")
    ] = None,
    link: LinkOption = False,
    where: Where = Where(),
    asking: Asking = Asking(),
) -> None:
    """Merge datasets into a new one, by copying."""
    plan = plan_merge(
        paths,
        out,
        rename=_pairs(rename, "--rename"),
        drop=drop,
        pad={name: _number(value) for name, value in _pairs(pad, "--pad").items()},
        fps=fps,
        link=link,
    )
    carry_out(plan, where, asking)


@grouped
def convert(
    path: DatasetArgument,
    to: Annotated[
        str, typer.Option(metavar="VERSION", help="2.0, 2.1 or 3.0.", show_default=False)
    ],
    out: OutArgument,
    reencode: ReencodeOption = False,
    link: LinkOption = False,
    where: Where = Where(),
    asking: Asking = Asking(),
) -> None:
    """Convert a dataset to another version, by copying."""
    plan = plan_conversion(path, to, out, reencode=reencode, link=link)
    carry_out(plan, where, asking, verify=True)


@grouped
def split(
    path: DatasetArgument,
    shares: Annotated[
        list[str],
        typer.Argument(metavar="NAME=SHARE...", help="train=0.9 val=0.1", show_default=False),
    ],
    out: OutArgument,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Keep episodes with equal values of it in one part."),
    ] = None,
    stratify: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Spread each of its values over all parts.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives another split.")] = 0,
    link: LinkOption = False,
    asking: Asking = Asking(),
) -> None:
    """Split a dataset into several, by whole episodes."""
    parts = {name: _number(value) for name, value in _pairs(shares, "SHARE").items()}
    try:
        plans = plan_split(path, parts, out, by=by, stratify=stratify, seed=seed, link=link)
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise typer.BadParameter(str(error)) from error
    lines = [line for name, plan in plans.items() for line in (f"{name}:", *plan.lines())]
    done = confirm(lines, asking)
    if done:
        for plan in plans.values():
            apply_plan(plan, Where())
    if asking.as_json:
        print_json({name: {**plan.to_json(), "done": done} for name, plan in plans.items()})
    elif done:
        for name, plan in plans.items():
            print_line(f"{name}: {counted(plan.num_episodes, 'episode')} in {plan.out}")


def _pairs(words: list[str], option: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if any(not sign or not name or not value for name, sign, value in pairs):
        raise typer.BadParameter(f"NAME=VALUE was expected: {words}", param_hint=f"'{option}'")
    return {name: value for name, _, value in pairs}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"a number was expected, not {text!r}") from None
