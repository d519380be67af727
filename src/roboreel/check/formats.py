"""Findings in the formats of other tools: GitHub Actions, and SARIF 2.1.0 for editors and hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from roboreel.check.baseline import fingerprint
from roboreel.findings import RULES, SEVERITIES
from roboreel.format.paths import INFO_PATH
from roboreel.text import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roboreel.check.result import Findings
    from roboreel.findings import Finding, Rule

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


# SARIF.

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "DATASET"
# GitHub refuses a run with more.
_MOST_RESULTS = 25_000


def to_sarif(findings: Findings, *, version: str) -> dict[str, Any]:
    """Return findings as a SARIF log with one run.

    Paths are relative to the dataset's folder, which the run gives as the base ``DATASET``. Beyond
    25,000 results the least severe are left out, since GitHub refuses more.

    Args:
        findings: The result of a check.
        version: The version of roboreel.
    """
    codes = list(RULES)
    ordered = sorted(findings, key=lambda found: SEVERITIES.index(found.severity))
    run = {
        "tool": {
            "driver": {
                "name": "roboreel",
                "semanticVersion": version,
                "rules": [_rule(rule) for rule in RULES.values()],
            }
        },
        "originalUriBaseIds": {_ROOT: {"uri": f"{findings.root.resolve().as_uri()}/"}},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {
                        "level": "note",
                        "message": {"text": f"{code} was not checked. {reason}"},
                        "associatedRule": {"id": code, "index": codes.index(code)},
                    }
                    for code, reason in findings.not_checked.items()
                ],
            }
        ],
        "results": [_result(found, codes.index(found.code)) for found in ordered[:_MOST_RESULTS]],
        "properties": {"numFindings": len(findings)},
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": f"See docs/checks/{rule.code}.md for cause, harm and cure."},
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tier": rule.tier},
    }


def _result(found: Finding, index: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            # A code host shows nothing without a file and a line.
            "artifactLocation": {"uri": quote(found.file or INFO_PATH), "uriBaseId": _ROOT},
            "region": {"startLine": 1},
        }
    }
    names = {"episode": found.episode, "feature": found.feature}
    logical = [
        {"name": str(name), "kind": kind} for kind, name in names.items() if name is not None
    ]
    if logical:
        location["logicalLocations"] = logical
    properties: dict[str, Any] = {"fixable": found.fixable}
    if found.rows is not None:
        properties["rows"] = list(found.rows)
    return {
        "ruleId": found.code,
        "ruleIndex": index,
        "level": found.severity,
        "message": {"text": found.message},
        "locations": [location],
        "partialFingerprints": {"roboreel/v1": fingerprint(found)},
        "properties": properties,
    }
