"""Where datasets from the Hugging Face Hub are on this machine: paths only, no network."""

from __future__ import annotations

import os
import re
from pathlib import Path

from roboreel.errors import DatasetError, NotADatasetError
from roboreel.spans.reading import read_file

__all__ = [
    "SCHEME",
    "dataset_folder",
    "find_dataset",
    "hub_folder",
    "is_repo_id",
    "parse_hub_url",
    "writable_folder",
]

SCHEME = "hf://datasets/"

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_REPO_ID = re.compile(r"[\w.-]+/[\w.-]+")
# Datasets on the Hub have a tag for each version that they are available in.
_TAGS = ("main", "v3.0", "v2.1", "v2.0")


def dataset_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a dataset that is given by its path or by its address on the Hub.

    Raises:
        NotADatasetError: The address is of a dataset that is not on this machine, or it is not one
            of a dataset on the Hub.
    """
    if isinstance(path, str) and path.startswith(SCHEME):
        return find_dataset(*parse_hub_url(path))
    if isinstance(path, str) and _ADDRESS.match(path):
        # As a Path it would be a folder "hf:" with one slash less.
        raise NotADatasetError(_no_address(path))
    return Path(path).expanduser()


def writable_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a dataset that is to be written.

    Raises:
        NotADatasetError: It is an address.
    """
    if isinstance(path, str) and _ADDRESS.match(path):
        raise NotADatasetError(f"A dataset is written to a folder on this machine: not {path!r}.")
    return Path(path).expanduser()


def parse_hub_url(url: str) -> tuple[str, str | None]:
    """Return the id and the revision in ``hf://datasets/owner/name[@revision]``.

    Examples:
        >>> parse_hub_url("hf://datasets/lerobot/pusht@v3.0")
        ('lerobot/pusht', 'v3.0')
    """
    repo_id, _, revision = url.removeprefix(SCHEME).rstrip("/").partition("@")
    _check_id(repo_id)
    return repo_id, revision or None


def find_dataset(repo_id: str, revision: str | None = None) -> Path:
    """Return the folder of a dataset that was recorded or downloaded before.

    It is looked for in LeRobot's home, then in the Hub's snapshots. For a given revision snapshots
    come first, since a folder in LeRobot's home does not say which revision it is.

    Raises:
        NotADatasetError: It is in neither.
    """
    _check_id(repo_id)
    home = lerobot_home() / repo_id
    snapshots = _snapshots(hub_folder(repo_id), revision)
    for folder in [home, *snapshots] if revision is None else [*snapshots, home]:
        if (folder / "meta" / "info.json").is_file():
            return folder
    version = "" if revision is None else f" at revision {revision!r}"
    raise NotADatasetError(
        f"{repo_id!r}{version} is not on this machine. Fetch it with "
        f"roboreel.huggingface.download({repo_id!r}). Looked in "
        f"{str(home)!r} and {str(hub_folder(repo_id))!r}."
    )


def lerobot_home() -> Path:
    """Return where LeRobot keeps its datasets."""
    return _folder("HF_LEROBOT_HOME", _hf_home() / "lerobot")


def hub_folder(repo_id: str) -> Path:
    """Return where the Hub's cache keeps the snapshots of a dataset."""
    cache = _folder("HF_HUB_CACHE", _folder("HUGGINGFACE_HUB_CACHE", _hf_home() / "hub"))
    return cache / f"datasets--{repo_id.replace('/', '--')}"


def _hf_home() -> Path:
    return _folder("HF_HOME", _folder("XDG_CACHE_HOME", Path("~/.cache")) / "huggingface")


def _folder(variable: str, default: Path) -> Path:
    return Path(os.environ.get(variable) or default).expanduser()


def _snapshots(folder: Path, revision: str | None) -> list[Path]:
    """Return the snapshots that qualify, the best first."""
    named = [revision] if revision is not None else list(_TAGS)
    commits = [commit for name in named if (commit := _read_ref(folder, name)) is not None]
    if revision is not None:
        return [folder / "snapshots" / name for name in [*commits, revision] if _is_plain(name)]
    others = (folder / "snapshots").glob("*") if (folder / "snapshots").is_dir() else ()
    newest = sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)
    return [*(folder / "snapshots" / commit for commit in commits), *newest]


def _read_ref(folder: Path, name: str) -> str | None:
    if ".." in name.split("/"):
        return None
    try:
        commit = read_file(folder / "refs" / name, "reference", most_bytes=4096).decode().strip()
    except (DatasetError, UnicodeDecodeError):
        return None
    return commit if _is_plain(commit) else None


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"[\w.-]+", name) is not None and name not in (".", "..")


def is_repo_id(text: str) -> bool:
    """Whether a text has the form of a dataset's id on the Hub, ``owner/name``."""
    return _REPO_ID.fullmatch(text) is not None and not {".", ".."} & set(text.split("/"))


def _no_address(address: str) -> str:
    repo_id = address.removeprefix("hf://").rstrip("/")
    if address.startswith("hf://") and is_repo_id(repo_id.partition("@")[0]):
        return f"No dataset at {address!r}: write '{SCHEME}{repo_id}'."
    return f"No dataset at {address!r}: give a folder, or '{SCHEME}owner/name'."


def _check_id(repo_id: str) -> None:
    if not is_repo_id(repo_id):
        raise NotADatasetError(
            f"{repo_id!r} is not the id of a dataset on the Hub: give 'owner/name'."
        )
