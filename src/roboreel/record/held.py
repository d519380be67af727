"""Finished episodes that wait, so that one commit saves several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.commit import Workshop
from roboreel.files import remove_tree
from roboreel.format.episode_metadata import check_metadata, column_types

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.format.episode_metadata import Value
    from roboreel.format.ledger import Ledger
    from roboreel.record.episode import FinishedEpisode, OpenEpisode


def held_folder(root: Path) -> Path:
    """Return the folder of a dataset's held episodes. What a dead process left there is of no use."""
    return Workshop(root).path / "held"


class HeldEpisodes:
    """Episodes that are complete, but not saved yet.

    Args:
        ledger: What the dataset holds before them.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.episodes: list[FinishedEpisode] = []
        self.size_bytes = 0
        """What they will take in the data file, about."""
        self._folder = held_folder(ledger.about.root)
        self._types = column_types(ledger)

    def __len__(self) -> int:
        return len(self.episodes)

    def check(self, metadata: Mapping[str, object]) -> dict[str, Value]:
        """Return what the episode table will say of the next episode.

        Raises:
            FrameError: A name is taken, or a value is not of its column's type.
        """
        return check_metadata(self._types, metadata)

    def take(self, episode: OpenEpisode, finished: FinishedEpisode) -> None:
        """Take an episode over; its files make room for those of the next one."""
        if not self.episodes:
            remove_tree(self._folder, ignore_errors=True)
            self._folder.mkdir()
        moved = episode.move(finished, self._folder / f"{len(self.episodes):05d}")
        self._types |= {name: type(value) for name, value in moved.metadata.items()}
        self.episodes.append(moved)
        self.size_bytes += moved.size_bytes

    def clear(self) -> None:
        """Remove the files, once the episodes are saved."""
        remove_tree(self._folder, ignore_errors=True)
