"""What a committed job has made, as the command that planned it prints it."""

from __future__ import annotations

from typing import Any

import typer

from roboreel.check.check_job import findings_of
from roboreel.cli.check import print_findings
from roboreel.cli.console import print_json, print_line
from roboreel.cli.stats import print_stats
from roboreel.dataset.statistics_job import stats_of
from roboreel.words import counted

__all__ = ["print_result"]


def print_result(operation: str, result: Any, *, as_json: bool) -> None:  # noqa: ANN401
    """Print the result of an operation.

    Args:
        operation: Its name, as in the plan.
        result: What its commit returned.
        as_json: Whether to print plain values.

    Raises:
        typer.Exit: A check found errors.
    """
    kind = operation.partition(":")[0]
    if kind == "roboreel.check.check_job":
        findings = findings_of(result)
        if as_json:
            print_json(findings.to_json())
        else:
            print_findings(findings)
        raise typer.Exit(findings.exit_code())
    if as_json:
        print_json(result)
    elif kind == "roboreel.dataset.statistics_job":
        print_stats(stats_of(result))
    elif kind == "roboreel.dataset.cache.build_job":
        print_line(f"Built: {result['path']}")
    elif kind == "roboreel.edit.edit_job":
        print_line(f"Written: {counted(result['episodes'], 'episode')} to {result['path']}.")
    else:
        print_line("Committed.")
