"""After a crash: finish what was decided, and save what there is of the open episode."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from roboreel.commit import (
    Workshop,
    damaged_commit,
    finish_commit,
    has_commit,
    locked,
    set_aside_commit,
)
from roboreel.errors import DatasetError, RecordingError, UnsupportedVersionError
from roboreel.files import copy_tree, make_folder, remove_leftovers, remove_tree, sync_directory
from roboreel.format import read_manifest
from roboreel.format.append_v3 import check_appendable
from roboreel.format.hub import writable_folder
from roboreel.format.info import read_info
from roboreel.format.ledger import Ledger
from roboreel.format.strays import find_strays
from roboreel.record.episode import drop_folder
from roboreel.record.held import held_folder
from roboreel.record.remains import RECOVERED, read_remains
from roboreel.record.saving import save_episodes
from roboreel.record.totals import Totals

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from roboreel.record.remains import Remains
    from roboreel.schema import Manifest

OpenEpisodeChoice = Literal["keep", "discard", "raise"]
"""What becomes of an episode that was open when its recorder ended."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found after a crash, and what became of it."""

    saved_episodes: int
    """Episodes that had been saved."""
    finished: bool
    """Whether a change had been decided, and has now been finished."""
    found_frames: int
    """Frames of the open episode that are in its journal."""
    kept_frames: int
    """How many of them are now an episode: those with an image of every camera, or none if the
    episode was discarded."""
    set_aside: tuple[str, ...]
    """Paths of what belongs to no episode, moved to ``.recording/aside``."""
    discarded: bool = False
    """Whether the open episode was dropped, as asked."""
    problems: tuple[str, ...] = ()
    """What could not be kept, and why, a sentence each."""

    def sentences(self, *, dry_run: bool = False) -> list[str]:
        """Return what became of the open episode, or would become of it."""
        if not self.found_frames:
            return list(self.problems)
        found = f"An episode was open, of which {self.found_frames} frames were written down."
        would = "would be" if dry_run else "was"
        if self.discarded:
            return [f"{found} It {would} discarded."]
        if not self.kept_frames:
            return [f"{found} None of them could be kept.", *self.problems]
        verb = "would become" if dry_run else "became"
        kept = f"{self.kept_frames} of them have all their images and {verb}"
        says = f"episode {self.saved_episodes}; {RECOVERED!r} is true in its metadata."
        return [f"{found} {kept} {says}", *self.problems]


def recover_dataset(
    path: str | os.PathLike[str],
    *,
    discard: bool = False,
    dry_run: bool = False,
    any_owner: bool = False,
) -> Recovery:
    """Save what a crash left of a recording; nothing else is deleted that is not saved.

    Args:
        path: The dataset's folder.
        discard: Whether to drop the open episode instead.
        dry_run: Whether only to say what would be done.
        any_owner: Whether to finish a change that another user of this machine had decided.

    Raises:
        DatasetInUseError: Another process changes the dataset.
        ForeignChangeError: Another user had decided the change that was interrupted.
        UnsafePathError: A file or folder of the dataset is a symbolic link.
        NotADatasetError: There is no dataset at this path.
    """
    root = writable_folder(path)
    read_info(root)  # before the lock, which makes a folder
    with locked(Workshop(root)):
        choice: OpenEpisodeChoice = "discard" if discard else "keep"
        decided = has_commit(Workshop(root))
        try:
            return recover(root, open_episode=choice, dry_run=dry_run, any_owner=any_owner)
        except UnsupportedVersionError:
            # Others are not recorded, but edited: what was decided is finished by now.
            if not decided or has_commit(Workshop(root)):
                raise
            return Recovery(len(read_manifest(root).episodes), True, 0, 0, ())


def recover(
    root: Path,
    *,
    open_episode: OpenEpisodeChoice = "keep",
    dry_run: bool = False,
    any_owner: bool = False,
) -> Recovery:
    """Do what `recover_dataset` does, under a lock that the caller holds.

    Raises:
        RecordingError: There is an open episode, and ``open_episode`` is ``"raise"``.
    """
    workshop = Workshop(root)
    damaged = damaged_commit(workshop)
    finished = _finish_change(workshop, dry_run=dry_run, any_owner=any_owner)
    manifest = read_manifest(root, unfinished=dry_run)
    check_appendable(manifest)
    # Files of a commit that is not finished yet are not strays.
    strays = [] if dry_run and finished else find_strays(manifest)
    with _scratch(workshop) as scratch:
        remains = read_remains(manifest, scratch)
        if open_episode == "raise" and len(remains.rows):
            raise RecordingError(_ask(remains, root))
        discard = open_episode == "discard"
        kept, problems = (0, ()) if discard else (remains.kept, _problems(remains))
        if not dry_run:
            for stray in strays:
                _set_aside(root, root / stray)
            if not discard:
                kept, problems = _save(remains, manifest)
            drop_folder(remains.folder)
    aside = [*([damaged] if damaged else []), *strays, *([_name(remains)] if problems else [])]
    return Recovery(
        len(manifest.episodes),
        finished,
        len(remains.rows),
        kept,
        tuple(aside),
        discarded=discard and len(remains.rows) > 0,
        problems=problems,
    )


def _finish_change(workshop: Workshop, *, dry_run: bool, any_owner: bool) -> bool:
    """Finish a change that was decided, if there is one; return whether there was."""
    damaged = damaged_commit(workshop) is not None
    if dry_run:
        return not damaged and has_commit(workshop)
    if damaged:
        set_aside_commit(workshop)
    return finish_commit(workshop, any_owner=any_owner)


def check_choice(open_episode: str) -> None:
    """Raise unless something is one of the choices for an open episode.

    Raises:
        RecordingError: It is not.
    """
    choices = get_args(OpenEpisodeChoice)
    if open_episode not in choices:
        raise RecordingError(f"open_episode is {open_episode!r}: give one of {list(choices)}.")


def _save(remains: Remains, manifest: Manifest) -> tuple[int, tuple[str, ...]]:
    """Save the complete frames as an episode; return how many they are, and what was set aside."""
    kept, problems = remains.kept, _problems(remains)
    finished = None
    if kept:
        try:
            finished = remains.finish(manifest)
        except DatasetError as error:
            # Whatever it is: recording must be able to go on.
            kept = 0
            problems = (f"The open episode cannot be used: {error}", *problems)
    if problems:
        # Copied, not moved: the journal must stay until its frames are saved.
        copy_tree(remains.folder, _aside(manifest.root) / remains.folder.name)
    if finished is not None:
        totals = Totals.restore(manifest)
        ledger = save_episodes(Ledger.of(manifest), totals, [finished])
        totals.remember(manifest.root, ledger.num_episodes, ledger.num_rows, numbers=False)
    return kept, problems


def _problems(remains: Remains) -> tuple[str, ...]:
    """Return why some of an open episode cannot be kept, in a sentence; nothing if all of it is."""
    if remains.is_whole or not remains.folder.exists():
        return ()
    lost = len(remains.rows) - remains.kept
    what = f"{lost} frames lack an image" if lost else "Some bytes are damaged, or lack their frame"
    return (f"{what}: all that was written of the episode is kept in .recording/aside.",)


def _name(remains: Remains) -> str:
    return f"{remains.folder.parent.name}/{remains.folder.name}"


def _ask(remains: Remains, root: Path) -> str:
    return (
        f"An episode is open: {len(remains.rows)} frames were written down, and {remains.kept} of "
        "them have all their images. Give open_episode='keep' to save those, or 'discard' to drop "
        f"the episode, {str(root)!r}."
    )


@contextmanager
def _scratch(workshop: Workshop) -> Iterator[Path]:
    """Yield a temporary folder; what dead processes left of theirs is removed."""
    folder = workshop.path / "salvage"
    remove_leftovers(workshop.path)
    for left in (folder, workshop.path / "gone", held_folder(workshop.root)):
        remove_tree(left, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        remove_tree(folder, ignore_errors=True)


def _set_aside(root: Path, path: Path) -> None:
    target = _aside(root) / path.relative_to(root)
    make_folder(target.parent)
    path.replace(target)
    sync_directory(target.parent)
    sync_directory(path.parent)


def _aside(root: Path) -> Path:
    folder = Workshop(root).path / "aside" / uuid.uuid4().hex[:8]
    make_folder(folder)
    return folder
