"""Findings as commands of GitHub Actions, which show them beside a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.findings import SEVERITIES
from roboreel.text import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.check.result import Findings
    from roboreel.findings import Finding

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def format_github(findings: Findings) -> str:
    """Return one command per code, the worst first: GitHub shows ten of each kind.

    Paths are relative to the working directory where that is possible.
    """
    groups = sorted(
        findings.by_code().values(), key=lambda group: SEVERITIES.index(_worst(group).severity)
    )
    return "\n".join(_command(findings, group) for group in groups)


def _command(findings: Findings, group: Sequence[Finding]) -> str:
    found = _worst(group)
    more = f" (and {len(group) - 1:,} more)" if len(group) > 1 else ""
    fields = {"title": f"{found.code} {found.rule.name}"}
    if found.file is not None:
        fields["file"] = _relative(findings.root / found.file)
    settings = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in fields.items())
    return f"::{_COMMANDS[found.severity]} {settings}::{_escaped(found.message + more)}"


def _worst(group: Sequence[Finding]) -> Finding:
    return min(group, key=lambda found: SEVERITIES.index(found.severity))


def _relative(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def _escaped(text: str, special: str = "") -> str:
    text = "\n".join(readable(line) for line in text.split("\n"))
    for char in f"%\n{special}":
        text = text.replace(char, f"%{ord(char):02X}")
    return text
