"""Findings that are known: kept in a file, and left out from then on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.errors import MetadataError, MissingFileError
from roboreel.files import write_atomically

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from roboreel.check.result import Findings
    from roboreel.findings import Finding

__all__ = ["fingerprint", "read_baseline", "without_known", "write_baseline"]

_VERSION = 1


def fingerprint(found: Finding) -> str:
    """Return what stays the same of a finding from run to run: its code and its place.

    The message is no part of it: it has counts and times, which change with every new episode.
    """
    place = (found.code, found.file, found.episode, found.feature)
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:32]


def read_baseline(path: str | os.PathLike[str]) -> frozenset[str]:
    """Return the fingerprints of the findings that a file lists.

    Raises:
        MissingFileError: There is no such file.
        MetadataError: It is not a baseline.
    """
    try:
        raw = json.loads(Path(path).read_bytes())
        return frozenset(entry["fingerprint"] for entry in raw["findings"])
    except FileNotFoundError as error:
        raise MissingFileError(
            f"There is no baseline. Write one with --write-baseline: {str(path)!r}."
        ) from error
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise MetadataError(f"Not a baseline of `roboreel check`: {str(path)!r}.") from error


def write_baseline(path: str | os.PathLike[str], findings: Findings) -> None:
    """Write all findings of a run, known ones too, to a file by atomic rename.

    The entries are sorted and have a line each, so that a change is easy to review.
    """
    everything = [*findings.found, *findings.known]
    entries = sorted(
        {
            fingerprint(found): json.dumps(
                {
                    "code": found.code,
                    "file": found.file,
                    "episode": found.episode,
                    "feature": found.feature,
                    "fingerprint": fingerprint(found),
                }
            )
            for found in everything
        }.values()
    )
    lines = ",\n    ".join(entries)
    body = f"\n    {lines}\n  " if entries else ""
    text = f'{{\n  "version": {_VERSION},\n  "findings": [{body}]\n}}\n'
    write_atomically(Path(path), text)


def without_known(findings: Findings, known: Collection[str]) -> Findings:
    """Return the findings that a baseline does not list; the others become `Findings.known`."""
    listed = [fingerprint(found) in known for found in findings.found]
    pairs = list(zip(findings.found, listed, strict=True))
    return replace(
        findings,
        found=tuple(found for found, is_known in pairs if not is_known),
        known=(*findings.known, *(found for found, is_known in pairs if is_known)),
    )
