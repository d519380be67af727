"""How a mirror is opened: by an address, or by the folder that stands for one."""

from __future__ import annotations

import atexit
import json
import os
import secrets
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from roboreel.errors import DatasetError, MirrorError, NotADatasetError
from roboreel.files import draft_folder, remove_leftovers, remove_tree, write_atomically
from roboreel.io.reading import read_file
from roboreel.io.sources import add_source, drop_source, source_of
from roboreel.mirror.addresses import client_module, parse_address, version_of
from roboreel.mirror.connection import Connection
from roboreel.mirror.file_table import FileTable
from roboreel.mirror.tree import make_places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from roboreel.mirror.addresses import Address
    from roboreel.mirror.client import Client
    from roboreel.mirror.file_table import RemoteFile
    from roboreel.mirror.home import MirrorHome
    from roboreel.mirror.mirror import Mirror

_DEFAULT = Connection()
# All of these are fetched at once when a dataset is opened, unless they are large.
_METADATA = "meta/"
_MOST_METADATA_BYTES = 64 * 2**20


def open_mirror(url: str, connection: Connection = _DEFAULT) -> Path:
    """Open the mirror of a remote dataset, and return the folder that stands for it.

    Args:
        url: The address of the dataset.
        connection: Where the mirror lies, and how to connect.

    Raises:
        NotADatasetError: There is no dataset at the address.
        RemoteError: It cannot be reached.
    """
    address = parse_address(url)
    opened_home = _home(connection.mirror, connection.limit_bytes)
    client, endpoint = _connect(address, connection.options)
    listed = client.list_files()
    files = _listed(listed, address) if listed is not None else _asked(client, address)
    version = version_of(files)
    # Without a version, nothing says that what another opening fetched is still right.
    name = address.mirror_name(endpoint, version or secrets.token_hex(16))
    about = {"url": client.url, "is_listed": listed is not None, "version": version}
    _make(opened_home, name, files, about)
    mirror = _open(opened_home, name, files, about, client)
    if version is None:
        atexit.register(_remove, mirror, os.getpid())
    _fetch_metadata(mirror)
    return mirror.folder.tree


def open_tree(tree: Path, connection: Connection = _DEFAULT) -> Path:
    """Open the mirror that a folder stands for, as it was listed when it was made.

    Raises:
        MirrorError: What describes it is damaged, or it was made elsewhere.
    """
    tree = tree.resolve()
    if source_of(tree) is not None:
        return tree
    path = tree.parent / "mirror.json"
    try:
        about = json.loads(read_file(path, "description of the mirror"))
        address, about["is_listed"] = parse_address(about["url"]), bool(about["is_listed"])
        is_ours = about["inode"] == tree.stat().st_ino
    except (
        OSError, DatasetError, ValueError, KeyError, TypeError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise MirrorError(f"Not a mirror ({error!r}): {str(path)!r}.") from error
    if not is_ours:  # Opening a folder that somebody sent must not call whom they choose.
        raise MirrorError(
            "The folder is a copy of a mirror that was made elsewhere. Open the dataset by its "
            f"address, {address.plain!r}: {str(tree)!r}."
        )
    home = _home(tree.parent.parent, connection.limit_bytes)
    client, _ = _connect(address, connection.options)
    table = FileTable(tree.parent / "table.jsonl")
    files = [table[number].file for number in range(len(table))]
    return _open(home, tree.parent.name, files, about, client).folder.tree


def find_mirror(folder: Path) -> Path | None:
    """Return the folder of a mirror that a path leads to; None if it does not."""
    tree = folder.absolute()
    return tree if tree.name == "files" and (tree.parent / "mirror.json").is_file() else None


def mirror_of(path: Path) -> Mirror | None:
    """Return the open mirror that a path is part of; None for plain folders."""
    return cast("Mirror | None", source_of(path))


def _home(path: str | os.PathLike[str] | None, limit_bytes: int | None) -> MirrorHome:
    # Imported here: datasets in folders need none of it.
    from roboreel.mirror.home import open_home

    return open_home(path, limit_bytes)


def _connect(address: Address, options: Mapping[str, Any]) -> tuple[Client, str]:
    module: Any = import_module(client_module(address.scheme))
    connected: tuple[Client, str] = module.connect(address, options)
    return connected


def _listed(files: list[RemoteFile], address: Address) -> list[RemoteFile]:
    """Return what was listed, if it is a dataset."""
    names = {file.name for file in files}
    if "meta/info.json" in names or "meta_data/info.json" in names:
        return files
    inside = sorted(name for name in names if name.endswith("/meta/info.json"))[:5]
    raise NotADatasetError(
        f"No LeRobot dataset at {address.plain!r}: "
        + (
            "nothing lies below it."
            if not names
            else f"it has no meta/info.json, but {', '.join(inside)}."
            if inside
            else f"{len(names)} files lie below it, and none is meta/info.json."
        )
    )


def _asked(client: Client, address: Address) -> list[RemoteFile]:
    """Return the metadata files of a dataset on a server that has no list."""
    found = client.find("meta/info.json")
    if found is None:
        raise NotADatasetError(
            f"No LeRobot dataset at {address.plain!r}: it has no meta/info.json."
        )
    # Imported here: a server with a list needs no guessing.
    from roboreel.mirror.guessing import guess_metadata

    return [found, *guess_metadata(client)]


def _make(
    home: MirrorHome, name: str, files: Sequence[RemoteFile], about: Mapping[str, Any]
) -> None:
    """Make the folder of a mirror, complete or not at all, unless it is there."""
    final = home.path / name
    remove_leftovers(home.path)
    if (final / "mirror.json").is_file():
        return
    with draft_folder(final) as draft:
        draft.chmod(0o700)
        for part in (draft / "files", draft / "bytes"):
            part.mkdir(mode=0o700)
        make_places(draft / "files", files)
        FileTable(draft / "table.jsonl").add(files)
        said = {**about, "inode": (draft / "files").stat().st_ino}
        write_atomically(draft / "mirror.json", json.dumps(said), sync=False)
        with home.locked():
            if not final.exists():
                draft.rename(final)


def _open(
    home: MirrorHome,
    name: str,
    files: Sequence[RemoteFile],
    about: Mapping[str, Any],
    client: Client,
) -> Mirror:
    """Open a mirror, or one of this process's own if it cannot be shared."""
    from roboreel.mirror.mirror import Mirror

    is_own = not home.folder(name).use.hold()
    if is_own:
        name = f"{name}-{secrets.token_hex(4)}"
        _make(home, name, files, about)
    folder = home.folder(name)
    folder.refresh()
    with home.locked():
        folder.doubt_if_restarted()
    mirror = Mirror(home, folder, client, client.url, is_listed=about["is_listed"])
    add_source(mirror)
    if is_own:
        atexit.register(_remove, mirror, os.getpid())
    return mirror


def _fetch_metadata(mirror: Mirror) -> None:
    """Fetch what opening a dataset reads, in one round."""
    tree, table = mirror.folder.tree, mirror.folder.table
    files = [table[number].file for number in range(len(table))]
    wanted = {
        tree / file.name: [(0, file.size_bytes)]
        for file in files
        if file.name.startswith(_METADATA)
        and "stats" not in file.name
        and file.size_bytes <= _MOST_METADATA_BYTES
    }
    mirror.fetch(wanted)


def _remove(mirror: Mirror, process: int) -> None:
    """Remove a mirror that nobody else may use; a forked child leaves it to its parent."""
    if os.getpid() != process:
        return
    drop_source(mirror.root)
    mirror.home.forget(mirror.folder.path.name)
    remove_tree(mirror.folder.path, ignore_errors=True)
