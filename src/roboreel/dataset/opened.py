"""What a dataset and all its views share."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roboreel.errors import NotADatasetError
from roboreel.format import read_manifest
from roboreel.format.episode_table import episode_list
from roboreel.format.hub import SCHEME, dataset_folder, is_repo_id
from roboreel.io.budget import process_budget
from roboreel.mirror.connection import Connection

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from roboreel.dataset.reader import Reader
    from roboreel.format.episode_list import EpisodeList
    from roboreel.frames.unchanged import Unchanged
    from roboreel.schema import Manifest, ManifestState

_open: weakref.WeakSet[Opened] = weakref.WeakSet()


@dataclass(frozen=True, eq=False)
class Opened:
    """An open dataset: its manifest, and what is read on demand."""

    manifest: Manifest
    decode_threads: int | None
    cache: Path | None
    connection: Connection | None = None
    """How a remote dataset is reached."""

    def __post_init__(self) -> None:
        _open.add(self)

    @cached_property
    def reader(self) -> Reader:
        """Reads frames."""
        # Imported at the first read: looking at a dataset needs no decoder.
        from roboreel.dataset.reader import open_reader

        return open_reader(self.manifest, process_budget(), self.decode_threads, self.cache)

    @cached_property
    def unchanged(self) -> Unchanged:
        """Looks whether the dataset is still what it was."""
        # Imported here: looking at a dataset needs neither.
        from roboreel.frames.unchanged import Unchanged

        return Unchanged(self.manifest)

    @cached_property
    def known(self) -> tuple[int, str, ManifestState | None]:
        """The number of episodes, their fingerprint and the dataset's state, to be compared later."""
        from roboreel.frames.unchanged import fingerprint

        count = len(self.manifest.episodes)
        return count, fingerprint(self.manifest, count), self.manifest.state

    @cached_property
    def episode_metadata(self) -> dict[str, list[Any]]:
        """Further columns of the episode table, a value for each episode."""
        return self.episode_list.columns()

    @cached_property
    def episode_list(self) -> EpisodeList:
        """What the metadata lists of each episode."""
        return episode_list(self.manifest)


def open_beside(root: Path) -> list[Path]:
    """Return the folders of the datasets that are open in this process, other than one."""
    gc.collect()  # Datasets that nobody uses any more may wait for the collector.
    return sorted({opened.manifest.root for opened in _open} - {root})


def find_manifest(path: str | os.PathLike[str], connection: Connection | None = None) -> Manifest:
    """Return the manifest of the dataset at a path or an address.

    Raises:
        NotADatasetError: There is no dataset.
    """
    connection = connection or Connection()
    folder = dataset_folder(path, connection)
    try:
        return read_manifest(folder)
    except NotADatasetError as error:
        if folder.exists() or not is_repo_id(str(path)):
            raise
        raise NotADatasetError(
            f"{error} For the dataset {str(path)!r} of the Hugging Face Hub, write "
            f"{SCHEME + str(path)!r}."
        ) from None
