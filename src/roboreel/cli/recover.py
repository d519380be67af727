"""roboreel recover: what a crash left of a recording."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from roboreel.cli.arguments import DryRunOption, FolderArgument, JsonOption
from roboreel.cli.console import print_json, print_line
from roboreel.record.recover import Recovery, recover_dataset

__all__ = ["recover"]


def recover(
    path: FolderArgument,
    any_owner: Annotated[
        bool,
        typer.Option(
            "--any-owner", help="Finish an interrupted change of another user of this machine."
        ),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recover the episode that was open when a recorder crashed. Nothing is deleted."""
    found = recover_dataset(path, dry_run=dry_run, any_owner=any_owner)
    if as_json:
        print_json({**asdict(found), "dry_run": dry_run})
        return
    for line in _sentences(found, dry_run=dry_run):
        print_line(line)


def _sentences(found: Recovery, *, dry_run: bool) -> list[str]:
    lines = [f"{found.saved_episodes} episodes are saved."]
    if found.finished:
        verb = "would be finished" if dry_run else "was finished"
        lines.append(f"A change that had been decided {verb}.")
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
