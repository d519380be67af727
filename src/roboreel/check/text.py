"""Findings as text for a terminal: grouped by code, the worst first."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from roboreel.check.ledger import NEEDS_TIER, ROUTINE
from roboreel.findings import SEVERITIES
from roboreel.text import readable
from roboreel.words import counted, enumerated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roboreel.check.result import Findings
    from roboreel.findings import Finding

_MOST_SHOWN = 3
_MOST_NUMBERS = 8
_HINTS = {
    "metadata": ("Data and video files were not opened", "--tier index"),
    "numbers": ("Video files were not opened", "--tier index"),
    "index": ("Images were not decoded", "--deep"),
}


def format_text(findings: Findings, *, width: int = 80) -> str:
    """Return findings as lines of at most ``width`` columns, except for paths that are longer."""
    return "\n".join(_lines(findings, width))


def one_line_each(findings: Findings, *, most: int) -> Iterator[str]:
    """Yield lines of findings with code and place, the worst first; a few of each code."""
    for severity in SEVERITIES:
        for code, group in findings.by_code().items():
            chosen = [found for found in group if found.severity == severity]
            for found in chosen[:most]:
                place = "" if found.file is None else f" ({found.file})"
                yield f"{severity} {code}: {message_of(found)}{place}"
            if len(chosen) > most:
                yield f"{severity} {code}: {_more(chosen[most:])}"


def message_of(found: Finding) -> str:
    """Return what a finding says, with its episode."""
    episode = found.episode
    if episode is None or re.search(
        rf"\bepisodes? (\d+(, | and ))*{episode}\b", found.message, re.IGNORECASE
    ):
        return found.message
    return f"Episode {episode}: {found.message}"


def _lines(findings: Findings, width: int) -> Iterator[str]:
    groups = findings.by_code().values()
    for severity in SEVERITIES:
        for group in groups:
            chosen = [found for found in group if found.severity == severity]
            if chosen:
                yield from _group(chosen, width)
                yield ""
    for sentence in (summary(findings), *unchecked(findings)):
        yield from _wrapped(sentence, width)


def _group(group: Sequence[Finding], width: int) -> Iterator[str]:
    rule = group[0].rule
    count = f" ({len(group):,} times)" if len(group) > 1 else ""
    yield f"{group[0].severity} {rule.code} {rule.name}{count}"
    for found in group[:_MOST_SHOWN]:
        yield from _wrapped(message_of(found), width, "  ")
        if found.file is not None:
            yield f"    {readable(found.file)}"
    if len(group) > _MOST_SHOWN:
        yield from _wrapped(_more(group[_MOST_SHOWN:]), width, "  ")


def _more(rest: Sequence[Finding]) -> str:
    """Return where the findings are that are not shown."""
    episodes = list(dict.fromkeys(found.episode for found in rest if found.episode is not None))
    if episodes:
        noun = "episode" if len(episodes) == 1 else "episodes"
        return f"and {len(rest):,} more, in {noun} {enumerated(episodes, _MOST_NUMBERS)}."
    return f"and {len(rest):,} more."


def summary(findings: Findings) -> str:
    """Return how much was found, and by how many rules."""
    counts = [counted(count, name) for name, count in findings.counts.items() if count]
    found = f"Found {enumerated(counts)}" if counts else "No problems found"
    fixable = sum(found.fixable for found in findings)
    parts = [f"{found} ({counted(len(findings.checked), 'rule')} checked)."]
    if fixable:
        parts.append(f"`roboreel repair` may fix {counted(fixable, 'finding')}.")
    if findings.known:
        parts.append(f"The baseline lists {counted(len(findings.known), 'more finding')}.")
    return " ".join(parts)


def unchecked(findings: Findings, *, command: str = "") -> Iterator[str]:
    """Yield what a reader might take for checked and is not, with the option of `command` for it."""
    reasons: dict[str, list[str]] = {}
    for code, reason in findings.not_checked.items():
        if not reason.startswith(ROUTINE):
            reasons.setdefault(reason, []).append(code)
    for why, codes in reasons.items():
        yield f"Not checked: {enumerated(codes)}. {why}"
    left = any(reason.startswith(NEEDS_TIER) for reason in findings.not_checked.values())
    if left and findings.tier in _HINTS:
        says, option = _HINTS[findings.tier]
        yield f"{says}: use {command}{option}."


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        readable(text),
        max(width, 40),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
