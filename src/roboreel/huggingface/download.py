"""Downloads of datasets, or of the files of some episodes."""

from __future__ import annotations

from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

import huggingface_hub
import numpy as np

from roboreel.errors import MissingFileError
from roboreel.format import read_manifest
from roboreel.format.paths import METADATA_FOLDER

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from roboreel.schema import Manifest


def download(
    repo_id: str,
    *,
    episodes: Iterable[int] | None = None,
    revision: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """Download a dataset from the Hub, or only the files of some episodes.

    All metadata is downloaded first: it names the other files. Files that exist are not downloaded
    again, and interrupted downloads resume. If ``HF_HUB_OFFLINE`` is set, nothing is downloaded:
    the call only checks that all files exist. Set ``HF_HUB_DISABLE_PROGRESS_BARS`` to hide the
    progress bar.

    Args:
        repo_id: The dataset's id on the Hub.
        episodes: Episode numbers. Default: all.
        revision: A branch, tag or commit. Default: ``"main"``.
        root: A folder for the files. Default: the Hub's cache, where
            ``open_dataset("hf://datasets/…")`` finds them.

    Returns:
        The dataset's folder, for `open_dataset`.

    Raises:
        EpisodeNotFoundError: An episode does not exist.
        MissingFileError: A file of these episodes is not on the Hub.
    """
    folder = _fetch(repo_id, [f"{METADATA_FOLDER}/*"], revision, root)
    manifest = read_manifest(folder)
    if episodes is None:
        positions = np.arange(len(manifest.episodes), dtype=np.int64)
    else:
        positions = manifest.episodes.positions_of(list(episodes))
    files = files_of_episodes(manifest, positions.tolist())
    offline = huggingface_hub.constants.HF_HUB_OFFLINE
    if not offline and any(not (folder / file).exists() for file in files):
        folder = _fetch(repo_id, [escape(file) for file in files], revision, root)
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        raise MissingFileError(
            f"{len(missing)} of {len(files)} files of {repo_id!r} could not be downloaded, the first "
            f"being {missing[0]!r}. If HF_HUB_OFFLINE is set, unset it and retry: {str(folder)!r}."
        )
    return folder


def files_of_episodes(manifest: Manifest, positions: Sequence[int]) -> list[str]:
    """Return the data and video files of some episodes, relative to the dataset's folder."""
    table = manifest.episodes
    files = {manifest.data_files[int(table.data_file[place])]: None for place in positions}
    for camera, clips in table.clips.items():
        held = {int(clips.file[place]) for place in positions}
        files |= {manifest.video_files[camera][file]: None for file in sorted(held) if file >= 0}
    return list(files)


def _fetch(
    repo_id: str,
    patterns: Sequence[str],
    revision: str | None,
    root: str | os.PathLike[str] | None,
) -> Path:
    return Path(
        huggingface_hub.snapshot_download(
            repo_id,
            repo_type="dataset",
            revision=revision,
            local_dir=root,
            allow_patterns=list(patterns),
        )
    )
