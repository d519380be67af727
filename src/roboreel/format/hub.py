"""Where datasets are on this machine: folders, downloads from the Hub, and mirrors."""

from __future__ import annotations

import os
import re
from pathlib import Path

from roboreel.errors import DatasetError, NotADatasetError
from roboreel.io.reading import read_file
from roboreel.io.sources import refuse_source
from roboreel.mirror.addresses import is_address
from roboreel.mirror.connection import Connection
from roboreel.mirror.opening import find_mirror, open_mirror, open_tree

SCHEME = "hf://datasets/"

_NOT_SAID = Connection()
_REPO_ID = re.compile(r"[\w.-]+/[\w.-]+")
# Datasets on the Hub have a tag for each version that they are available in.
_TAGS = ("main", "v3.0", "v2.1", "v2.0")


def dataset_folder(path: str | os.PathLike[str], connection: Connection = _NOT_SAID) -> Path:
    """Return the folder of a dataset that is given by its path or by its address.

    For a dataset elsewhere that is the folder of its mirror. What was downloaded from the Hub is
    found before the Hub is asked.

    Args:
        path: A folder or an address.
        connection: How a remote dataset is reached.

    Raises:
        NotADatasetError: There is no dataset at the address.
        RemoteError: It cannot be reached.
    """
    if isinstance(path, str) and path.startswith(SCHEME):
        return _downloaded_or_mirrored(path, connection)
    if isinstance(path, str) and is_address(path):
        if path.startswith("hf://"):  # As a Path it would be a folder "hf:" with one slash less.
            raise NotADatasetError(_no_address(path))
        return open_mirror(path, connection)
    folder = Path(path).expanduser()
    tree = find_mirror(folder)
    return folder if tree is None else open_tree(tree, connection)


def _downloaded_or_mirrored(address: str, connection: Connection) -> Path:
    """Return the folder of a dataset of the Hub: what was downloaded, or else its mirror."""
    try:
        return find_dataset(*parse_hub_url(address))
    except NotADatasetError as error:
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise NotADatasetError(
                f"{error} It is not looked for on the Hub: HF_HUB_OFFLINE is set."
            ) from None
        try:
            return open_mirror(address, connection)
        except ModuleNotFoundError as missing:
            raise NotADatasetError(
                f"{error} To read it from the Hub in place, install {missing.name!r}: "
                "pip install 'roboreel[remote]'."
            ) from None


def writable_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a dataset that is to be written.

    Raises:
        NotADatasetError: It is an address.
        RemoteError: It is the mirror of a remote dataset.
    """
    if is_address(path):
        raise NotADatasetError(f"A dataset is written to a folder on this machine: not {path!r}.")
    folder = Path(path).expanduser()
    if find_mirror(folder) is not None:
        refuse_source(open_tree(folder.absolute()), "written")
    return folder


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
