"""roboreel repair: what is wrong with a dataset, made right."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roboreel.check.text import format_text
from roboreel.cli.arguments import (
    DatasetArgument,
    EpisodesOption,
    parse_episodes_option,
)
from roboreel.cli.codes import parse_codes_option
from roboreel.cli.confirm import Asking, confirm
from roboreel.cli.console import ProgressReport, output, print_json, print_line
from roboreel.cli.groups import grouped
from roboreel.repair import repair_dataset
from roboreel.repair.planning import ON_REQUEST
from roboreel.words import counted, enumerated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roboreel.findings import Finding
    from roboreel.repair import Repaired, RepairPlan


@dataclass(frozen=True, slots=True)
class Chosen:
    """The changes that are made only on request: a group of options."""

    trust_values: Annotated[
        bool,
        typer.Option(
            "--trust-values", help="Compute statistics anew that contradict the values, too."
        ),
    ] = False
    set_aside: Annotated[
        bool,
        typer.Option("--set-aside", help="Set data files of unlisted episodes aside, too."),
    ] = False
    recover: Annotated[
        Path | None,
        typer.Option(
            "--recover-unlisted", metavar="DIR", help="Write unlisted episodes to a dataset here."
        ),
    ] = None


@grouped
def repair(
    path: DatasetArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write a repaired copy here; this dataset is not changed."
        ),
    ] = None,
    only: Annotated[str, typer.Option(metavar="CODES", help="Repair these only: RR101,RR5.")] = "",
    ignore: Annotated[str, typer.Option(metavar="CODES", help="Leave these alone.")] = "",
    episodes: EpisodesOption = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Decode every image: for the statistics of cameras.")
    ] = False,
    chosen: Chosen = Chosen(),
    drop: Annotated[
        str | None,
        typer.Option("--drop-episodes", metavar="LIST", help="Delete these episodes afterwards."),
    ] = None,
    asking: Asking = Asking(),
) -> None:
    """Repair what `roboreel check` finds. Replaced files can be restored with `roboreel undo`.

    Exit codes: 0 all is repaired; 1 something remains; 2 it could not be done.
    """
    with ProgressReport() as progress:

        def agree(plan: RepairPlan) -> bool:
            progress.pause()
            return confirm(plan.lines(), asking)

        done = repair_dataset(
            path,
            out=out,
            drop=parse_episodes_option(drop, "--drop-episodes") or (),
            agree=agree,
            only=parse_codes_option(only, "--only"),
            ignore=parse_codes_option(ignore, "--ignore"),
            episodes=parse_episodes_option(episodes),
            deep=deep,
            recover=chosen.recover,
            trust_values=chosen.trust_values,
            set_aside=chosen.set_aside,
            on_progress=progress.show,
        )
    left = done.last.remaining if asking.dry_run else done.remaining
    if asking.as_json:
        print_json({**_as_json(done, left), "dry_run": asking.dry_run})
    else:
        recovers = chosen.recover is not None
        _print_result(done, left, dry_run=asking.dry_run, wants_recovery=recovers)
    raise typer.Exit(1 if _serious(left) else 0)


def _serious(left: Iterable[Finding]) -> list[Finding]:
    """Return the errors and warnings: a note is no damage."""
    return [one for one in left if one.severity != "note"]


def _print_result(
    done: Repaired, left: Iterable[Finding], *, dry_run: bool, wants_recovery: bool
) -> None:
    if not done.plans and not done.last:
        print_line("There is nothing to repair.")
    if done.plans:
        print_line(f"Repaired {counted(len(done.cured), 'finding')}.")
    serious = _serious(left)
    if serious:
        print_line("These cannot be repaired:" if dry_run else "These remain:")
        findings = replace(done.last.findings, found=tuple(serious))
        for line in format_text(findings, width=min(output.width, 100)).splitlines():
            print_line(line)
    later = sorted({one.code for one in left if one.fixable and one.code in ON_REQUEST})
    if later:
        print_line(f"Only when asked for: --only {','.join(later)}.")
    doubted = set(done.last.contradictions)
    if not (dry_run and done.last):  # A plan that was shown has said it.
        for line in done.last.unlisted_lines:
            print_line(line)
        if doubted:
            print_line(done.last.belief)
    if wants_recovery and not any(plan.unlisted for plan in (*done.plans, done.last)):
        print_line("There are no data files of unlisted episodes to recover.")
    later_ones = {*ON_REQUEST, "RR105"}
    images = sorted({one.code for one in left if one.fixable and one not in doubted} - later_ones)
    if images:
        print_line(f"{enumerated(images)}: images must be decoded, use --deep.")


def _as_json(done: Repaired, left: Iterable[Finding]) -> dict[str, object]:
    plans = [*done.plans, *([done.last] if done.last and not done.plans else [])]
    return {
        "path": str(done.last.root),
        "contradictions": [asdict(one) for one in done.last.contradictions],
        "belief": done.last.belief,
        "unlisted": [one.to_json() for one in (*done.plans, done.last)[0].unlisted],
        "rounds": [plan.to_json() for plan in plans],
        "remaining": [asdict(one) for one in left],
    }
