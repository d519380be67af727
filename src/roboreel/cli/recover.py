"""roboreel recover: what a crash left of a recording."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from roboreel.cli.arguments import DryRunOption, FolderArgument, JsonOption
from roboreel.cli.console import print_json, print_line
from roboreel.record.recover import Recovery, recover_dataset


def recover(
    path: FolderArgument,
    discard: Annotated[
        bool, typer.Option("--discard", help="Drop the episode that was open.")
    ] = False,
    any_owner: Annotated[
        bool,
        typer.Option(
            "--any-owner", help="Finish an interrupted change of another user of this machine."
        ),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recover the episode that was open when a recorder crashed. Saved episodes are not touched.

    What can be kept becomes an episode, with 'recovered' true in its metadata. With --discard the
    open episode is deleted instead.
    """
    found = recover_dataset(path, discard=discard, dry_run=dry_run, any_owner=any_owner)
    if as_json:
        print_json({**asdict(found), "dry_run": dry_run})
        return
    for line in _sentences(found, dry_run=dry_run):
        print_line(line)


def _sentences(found: Recovery, *, dry_run: bool) -> list[str]:
    saved = found.saved_episodes
    lines = ["1 episode is saved." if saved == 1 else f"{saved} episodes are saved."]
    if found.finished:
        verb = "would be finished" if dry_run else "was finished"
        lines.append(f"A change that had been decided {verb}.")
    lines += found.sentences(dry_run=dry_run) or ["No episode was open."]
    aside = "Would be set" if dry_run else "Set"
    return lines + [f"{aside} aside in .recording/aside: {path}" for path in found.set_aside]
