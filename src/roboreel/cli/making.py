"""roboreel merge, convert and split: new datasets from old ones, by copying."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roboreel.cli.arguments import DatasetArgument, DryRunOption, JsonOption, YesOption
from roboreel.cli.changing import (
    WHERE,
    EditOptions,
    LinkOption,
    ReencodeOption,
    apply_plan,
    carry_out,
    with_options,
)
from roboreel.cli.confirm import confirm
from roboreel.cli.console import print_json, print_line
from roboreel.edit.converting import plan_conversion, plan_split
from roboreel.edit.merging import plan_merge

__all__ = ["convert", "merge", "split"]

OutArgument = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="A new folder.", show_default=False)
]
_OPTIONS: dict[str, Any] = {
    "link": LinkOption,
    **WHERE,
    "yes": YesOption,
    "dry_run": DryRunOption,
    "as_json": JsonOption,
}


def _merge(
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
) -> None:
    """Merge datasets into a new one, by copying."""


def _run_merge(options: EditOptions, **given: Any) -> None:  # noqa: ANN401  # as typer parsed them
    plan = plan_merge(
        given["paths"],
        given["out"],
        rename=_pairs(given["rename"], "--rename"),
        drop=given["drop"],
        pad={name: _number(value) for name, value in _pairs(given["pad"], "--pad").items()},
        fps=given["fps"],
        link=options.link,
    )
    carry_out(plan, options)


def _convert(
    path: DatasetArgument,
    to: Annotated[
        str, typer.Option(metavar="VERSION", help="2.0, 2.1 or 3.0.", show_default=False)
    ],
    out: OutArgument,
) -> None:
    """Convert a dataset to another version, by copying."""


def _run_convert(options: EditOptions, **given: Any) -> None:  # noqa: ANN401  # as typer parsed them
    plan = plan_conversion(
        given["path"], given["to"], given["out"], reencode=options.reencode, link=options.link
    )
    carry_out(plan, options, verify=True)


def _split(
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
) -> None:
    """Split a dataset into several, by whole episodes."""


def _run_split(options: EditOptions, **given: Any) -> None:  # noqa: ANN401  # as typer parsed them
    shares = {name: _number(value) for name, value in _pairs(given["shares"], "SHARE").items()}
    ways = {name: given[name] for name in ("by", "stratify", "seed")}
    try:
        plans = plan_split(given["path"], shares, given["out"], link=options.link, **ways)
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise typer.BadParameter(str(error)) from error
    lines = [line for name, plan in plans.items() for line in (f"{name}:", *plan.lines())]
    done = confirm(lines, yes=options.yes, dry_run=options.dry_run, as_json=options.as_json)
    if done:
        for plan in plans.values():
            apply_plan(plan, options.where)
    if options.as_json:
        print_json({name: {**plan.to_json(), "done": done} for name, plan in plans.items()})
    elif done:
        for name, plan in plans.items():
            noun = "episode" if plan.num_episodes == 1 else "episodes"
            print_line(f"{name}: {plan.num_episodes:,} {noun} in {plan.out}")


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


for _made, _name in ((_merge, "merge"), (_convert, "convert"), (_split, "split")):
    _made.__name__ = _name
merge = with_options(_merge, _run_merge, _OPTIONS)
convert = with_options(_convert, _run_convert, {"reencode": ReencodeOption, **_OPTIONS})
split = with_options(_split, _run_split, {k: v for k, v in _OPTIONS.items() if k not in WHERE})
