"""roboreel recover: what a crash left of a recording."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape

from roboreel.cli.console import output
from roboreel.record.recover import Recovery, recover_dataset

__all__ = ["recover"]


def recover(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Say what would be done, and do nothing."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Bring back the episode that was open when a recorder died; nothing is deleted."""
    found = recover_dataset(path, dry_run=dry_run)
    if as_json:
        print(json.dumps({**asdict(found), "dry_run": dry_run}, indent=2))
        return
    for line in _sentences(found, dry_run=dry_run):
        output.print(escape(line), soft_wrap=True)


def _sentences(found: Recovery, *, dry_run: bool) -> list[str]:
    lines = [f"{found.saved_episodes} episodes are saved."]
    if found.finished:
        verb = "would be finished" if dry_run else "was finished"
        lines.append(f"A save or a compaction that had been decided {verb}.")
    if found.found_frames:
        verb = "would become" if dry_run else "became"
        lines.append(
            f"An episode was open: {found.found_frames} frames were written down, and "
            f"{found.kept_frames} of them have all their images; they {verb} an episode."
            if found.kept_frames
            else f"An episode was open: of {found.found_frames} frames none has all its images."
        )
    else:
        lines.append("No episode was open.")
    aside = "Would be set" if dry_run else "Set"
    return lines + [f"{aside} aside in .recording/aside: {path}" for path in found.set_aside]
