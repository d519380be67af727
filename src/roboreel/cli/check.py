"""roboreel check: everything that is wrong with a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from roboreel import __version__
from roboreel.check import Findings, check_dataset
from roboreel.check.baseline import read_baseline, without_known, write_baseline
from roboreel.check.check_job import findings_of, plan_check
from roboreel.check.formats import format_github, to_sarif
from roboreel.check.text import format_text
from roboreel.cli.arguments import (
    DatasetArgument,
    EpisodesOption,
    parse_episodes_option,
)
from roboreel.cli.carrying_out import Where
from roboreel.cli.codes import parse_codes_option
from roboreel.cli.console import ProgressReport, literal, output, print_json, print_line
from roboreel.cli.groups import grouped
from roboreel.errors import DatasetError
from roboreel.findings import Severity, Tier
from roboreel.jobs.execute import SMALL_S

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@dataclass(frozen=True, slots=True)
class What:
    """What to look for: a group of options."""

    tier: Annotated[
        Tier | None,
        typer.Option(
            help="What to read. metadata: meta/ and file names. numbers: every row. index: the "
            "tables of the videos too. deep: every image. Default: index."
        ),
    ] = None
    deep: Annotated[bool, typer.Option("--deep", help="Short for --tier deep.")] = False
    only: Annotated[str, typer.Option(metavar="CODES", help="Look for these only: RR101,RR5.")] = ""
    ignore: Annotated[str, typer.Option(metavar="CODES", help="Do not look for these.")] = ""
    episodes: EpisodesOption = None

    def asked(self) -> dict[str, Any]:
        """Return the arguments of `check_dataset`."""
        return {
            "tier": "deep" if self.deep else self.tier,
            "only": parse_codes_option(self.only, "--only"),
            "ignore": parse_codes_option(self.ignore, "--ignore"),
            "episodes": parse_episodes_option(self.episodes),
        }


@grouped
def check(
    path: DatasetArgument,
    what: What = What(),
    form: Annotated[
        Literal["text", "json", "sarif", "github"],
        typer.Option("--format", help="How to print the findings."),
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Leave out the findings that this file lists."),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--write-baseline", help="Write all findings to the --baseline file."),
    ] = False,
    fail_on: Annotated[
        Severity, typer.Option(help="Exit with 1 if there are findings as severe as this.")
    ] = "error",
    where: Where = Where(),
) -> None:
    """Find what is wrong with a dataset. Nothing is changed.

    Exit codes: 0 clean; 1 findings; 2 something could not be checked.
    """
    if update and baseline is None:
        raise typer.BadParameter("Name the file with --baseline.", param_hint="'--write-baseline'")
    known = {} if baseline is None or update else read_baseline(baseline)
    findings = _find(path, what.asked(), where)
    if update and baseline is not None:
        write_baseline(baseline, findings)
        print_line(f"{len(findings)} findings are listed in {str(baseline)!r}.")
        return
    findings = without_known(findings, known)
    _print(findings, "json" if as_json else form)
    raise typer.Exit(findings.exit_code(fail_on))


def _find(path: str, asked: dict[str, Any], where: Where) -> Findings:
    """Check a dataset: in this process if that is quick, and as a job otherwise."""
    try:
        plan = plan_check(path, **asked)
    except DatasetError:  # which is a finding, or told in a sentence
        plan = None
    if plan is not None and (where.is_chosen or plan.total_cost >= SMALL_S):
        name = f"check-{Path(plan.options['path']).name}"
        return findings_of(where.carry_out(plan, name))
    with ProgressReport() as progress:
        return check_dataset(path, **asked, on_progress=progress.show)


def print_findings(findings: Findings) -> None:
    """Print findings for people."""
    for line in format_text(findings, width=min(output.width, 100)).splitlines():
        style = _STYLES.get(line.split(" ", 1)[0])
        output.print(literal(line), style=style, soft_wrap=True)


def _print(findings: Findings, form: str) -> None:
    if form == "json":
        print_json(findings.to_json())
    elif form == "sarif":
        print_json(to_sarif(findings, version=__version__))
    elif form == "github":
        print(format_github(findings))
    else:
        print_findings(findings)
