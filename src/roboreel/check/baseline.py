"""Findings that are known: kept in a file, and left out from then on."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import MetadataError, MissingFileError
from roboreel.files import write_atomically
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from roboreel.check.result import Findings
    from roboreel.findings import Finding

_VERSION = 1


def fingerprint(found: Finding) -> str:
    """Return what stays the same of a finding from run to run: code, severity and place.

    The message is no part of it: it has counts and times, which change with every new episode.
    """
    place = (found.code, found.severity, found.file, found.episode, found.feature)
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:32]


def read_baseline(path: str | os.PathLike[str]) -> Counter[str]:
    """Return the fingerprints of the findings that a file lists, and how often it does.

    Raises:
        MissingFileError: There is no such file.
        MetadataError: It is not a baseline.
    """
    try:
        raw = json.loads(read_file(Path(path).expanduser(), "baseline"))
        return Counter(str(entry["fingerprint"]) for entry in raw["findings"])
    except MissingFileError as error:
        raise MissingFileError(
            f"There is no baseline. Write one with --write-baseline: {str(path)!r}."
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MetadataError(f"Not a baseline of `roboreel check`: {str(path)!r}.") from error


def write_baseline(path: str | os.PathLike[str], findings: Findings) -> None:
    """Write all findings of a run, known ones too, to a file by atomic rename.

    The entries are sorted and have a line each, so that a change is easy to review.
    """
    entries = sorted(
        json.dumps(
            {
                "code": found.code,
                "severity": found.severity,
                "file": found.file,
                "episode": found.episode,
                "feature": found.feature,
                "fingerprint": fingerprint(found),
            }
        )
        for found in (*findings.found, *findings.known)
    )
    lines = ",\n    ".join(entries)
    body = f"\n    {lines}\n  " if entries else ""
    text = f'{{\n  "version": {_VERSION},\n  "findings": [{body}]\n}}\n'
    write_atomically(Path(path).expanduser(), text)


def without_known(findings: Findings, baseline: Mapping[str, int]) -> Findings:
    """Return the findings that a baseline does not list; the others become `Findings.known`.

    Of several with the same fingerprint, as many are known as the baseline lists.
    """
    left = Counter(baseline)
    new: list[Finding] = []
    known = list(findings.known)
    for found in findings.found:
        key = fingerprint(found)
        (known if left[key] > 0 else new).append(found)
        left[key] -= 1
    return replace(findings, found=tuple(new), known=tuple(known))
