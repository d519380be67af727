"""roboreel check: everything that is wrong with a dataset."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer
from typer.core import TyperCommand

from roboreel import __version__
from roboreel.check import Findings, check_dataset
from roboreel.check.baseline import read_baseline, without_known, write_baseline
from roboreel.check.check_job import findings_of, plan_check
from roboreel.check.github import format_github
from roboreel.check.sarif import to_sarif
from roboreel.check.text import format_text
from roboreel.cli.arguments import (
    DatasetArgument,
    EpisodesOption,
    parse_codes_option,
    parse_episodes_option,
)
from roboreel.cli.carrying_out import (
    AddressOption,
    JobOption,
    OnName,
    OnOption,
    ShardsOption,
    Where,
    WorkersOption,
)
from roboreel.cli.console import ProgressReport, literal, output, print_json, print_line
from roboreel.errors import DatasetError
from roboreel.jobs.execute import SMALL_S

if TYPE_CHECKING:
    from roboreel.findings import Tier

__all__ = ["CheckCommand", "check", "print_findings"]

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


class TierName(str, Enum):
    """The values of --tier."""

    METADATA = "metadata"
    NUMBERS = "numbers"
    INDEX = "index"
    DEEP = "deep"


class SeverityName(str, Enum):
    """The values of --fail-on."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FormatName(str, Enum):
    """The values of --format."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


_SHORT = {"--deep": "--tier=deep", "--json": "--format=json"}


class CheckCommand(TyperCommand):
    """A command with short forms: ``--deep``, and ``--json`` as other commands have it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  # click's, or typer's own
        """Parse what was typed."""
        return super().parse_args(ctx, [_SHORT.get(arg, arg) for arg in args])


def check(
    path: DatasetArgument,
    tier: Annotated[
        TierName | None,
        typer.Option(
            help="What to read. metadata: meta/ and file names. numbers: every row. index: the "
            "tables of the videos too. deep: every image; --deep is short for it. Default: index."
        ),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="CODES", help="Look for these only: RR101,RR5.")
    ] = "",
    ignore: Annotated[str, typer.Option(metavar="CODES", help="Do not look for these.")] = "",
    episodes: EpisodesOption = None,
    form: Annotated[
        FormatName,
        typer.Option("--format", help="How to print the findings; --json is short for json."),
    ] = FormatName.TEXT,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Leave out the findings that this file lists."),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--write-baseline", help="Write all findings to the --baseline file."),
    ] = False,
    fail_on: Annotated[
        SeverityName, typer.Option(help="Exit with 1 if there are findings as severe as this.")
    ] = SeverityName.ERROR,
    workers: WorkersOption = None,
    on: OnOption = OnName.LOCAL,
    address: AddressOption = None,
    shards: ShardsOption = 64,
    job: JobOption = None,
) -> None:
    """Find what is wrong with a dataset. Nothing is changed.

    Exit codes: 0 clean; 1 findings; 2 something could not be checked.
    """
    if update and baseline is None:
        raise typer.BadParameter("Name the file with --baseline.", param_hint="'--write-baseline'")
    known = {} if baseline is None or update else read_baseline(baseline)
    asked: Asked = {
        "tier": None if tier is None else tier.value,
        "only": parse_codes_option(only, "--only"),
        "ignore": parse_codes_option(ignore, "--ignore"),
        "episodes": parse_episodes_option(episodes),
    }
    findings = _find(path, asked, Where(workers, on, address, shards, job))
    if update and baseline is not None:
        write_baseline(baseline, findings)
        print_line(f"{len(findings)} findings are listed in {str(baseline)!r}.")
        return
    findings = without_known(findings, known)
    _print(findings, form)
    raise typer.Exit(findings.exit_code(fail_on.value))


class Asked(TypedDict):
    """What to look for: arguments of `check_dataset`."""

    tier: Tier | None
    only: list[str]
    ignore: list[str]
    episodes: list[int] | None


def _find(path: str, asked: Asked, where: Where) -> Findings:
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


def _print(findings: Findings, form: FormatName) -> None:
    if form is FormatName.JSON:
        print_json(findings.to_json())
    elif form is FormatName.SARIF:
        print_json(to_sarif(findings, version=__version__))
    elif form is FormatName.GITHUB:
        print(format_github(findings))
    else:
        print_findings(findings)
