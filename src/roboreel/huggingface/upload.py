"""Uploads of datasets, as one commit each."""

from __future__ import annotations

from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import huggingface_hub
from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError

from roboreel.files import walk
from roboreel.format import read_manifest
from roboreel.format.paths import FOLDERS

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from roboreel.schema import Manifest

_CARD = "README.md"


def push(
    path: str | os.PathLike[str],
    repo_id: str,
    *,
    revision: str | None = None,
    private: bool | None = None,
    token: str | bool | None = None,
    tag_version: bool = True,
    videos: bool = True,
    patterns: Sequence[str] | None = None,
    card: Mapping[str, Any] | None = None,
) -> str:
    """Upload a dataset to the Hub as one commit, so that nobody sees half of it.

    Files that the Hub has are not sent again, so an interrupted upload resumes with the file that
    it was at. Files below ``data/``, ``videos/`` and ``meta/`` that the dataset no longer has are
    removed, since LeRobot reads whatever lies there. Hidden files and folders are left out, such
    as ``.roboreel`` and ``.recording``. Set ``HF_HUB_DISABLE_PROGRESS_BARS`` to hide the bars.

    Args:
        path: The dataset's folder.
        repo_id: Its id on the Hub; the repository is made if there is none.
        revision: A branch, made if there is none. Default: ``"main"``.
        private: Whether a new repository is private. Default: what the owner has set.
        token: A token of the Hub. Default: that of `huggingface_hub`.
        tag_version: Whether to set the tag, such as ``v3.0``, by which LeRobot finds a dataset.
        videos: Whether to upload videos.
        patterns: Upload only files that match one of these, such as ``"meta/*"``.
        card: Keys of the dataset card that is made if there is no README.md.

    Returns:
        The address of the commit.

    Raises:
        NotADatasetError: There is no dataset at this path.
    """
    root = Path(path).expanduser()
    manifest = read_manifest(root)
    api = huggingface_hub.HfApi(token=token)
    api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
    if revision is not None:
        api.create_branch(repo_id, branch=revision, repo_type="dataset", exist_ok=True)
    listed = set(api.list_repo_files(repo_id, revision=revision, repo_type="dataset"))
    is_whole = videos and patterns is None
    sent = [file for file in _own_files(root) if _is_wanted(file, videos, patterns)]
    operations: list[Any] = [
        huggingface_hub.CommitOperationAdd(path_in_repo=file, path_or_fileobj=root / file)
        for file in sent
    ]
    if _CARD not in listed and _CARD not in sent:
        text = _card_of(manifest, card or {})
        operations.append(huggingface_hub.CommitOperationAdd(_CARD, text.encode()))
    if is_whole:
        stale = sorted(f for f in listed - set(sent) if f.split("/")[0] in FOLDERS)
        operations += [huggingface_hub.CommitOperationDelete(file) for file in stale]
    commit = api.create_commit(
        repo_id,
        operations,
        commit_message=f"Upload {len(manifest.episodes)} episodes with roboreel",
        repo_type="dataset",
        revision=revision,
    )
    if tag_version:
        _set_tag(api, repo_id, manifest.version, revision)
    return str(commit.commit_url)


def _own_files(root: Path) -> list[str]:
    """Return the files of a folder, hidden ones left out, relative to it."""
    files = (path.relative_to(root) for path in walk(root) if path.is_file())
    return [f.as_posix() for f in files if not any(part.startswith(".") for part in f.parts)]


def _is_wanted(file: str, videos: bool, patterns: Sequence[str] | None) -> bool:
    # LeRobot leaves "images/" behind, its pictures that wait to become video.
    if file.startswith("images/") or (file.startswith("videos/") and not videos):
        return False
    return patterns is None or any(fnmatch(file, pattern) for pattern in patterns)


def _card_of(manifest: Manifest, keys: Mapping[str, Any]) -> str:
    about = {
        "license": "apache-2.0",
        "task_categories": ["robotics"],
        "configs": [{"config_name": "default", "data_files": "data/*/*.parquet"}],
        **{name: value for name, value in keys.items() if value},
    }
    about["tags"] = list(dict.fromkeys(["LeRobot", *about.get("tags", ())]))
    head = huggingface_hub.DatasetCardData(**about).to_yaml()
    table = manifest.episodes
    return (
        f"---\n{head}\n---\n\nA LeRobot dataset ({manifest.version}): {len(table)} episodes, "
        f"{table.num_rows} frames at {manifest.fps:g} fps, "
        f"{manifest.robot_type or 'robot not named'}.\n"
    )


def _set_tag(api: Any, repo_id: str, tag: str, revision: str | None) -> None:  # noqa: ANN401
    """Move a tag to the newest commit."""
    with suppress(RevisionNotFoundError, EntryNotFoundError):  # the first upload
        api.delete_tag(repo_id, tag=tag, repo_type="dataset")
    api.create_tag(repo_id, tag=tag, revision=revision, repo_type="dataset")
