"""Metadata files on a server that cannot list them: each possible name is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import RemoteError
from roboreel.threads import ThreadPool

if TYPE_CHECKING:
    from roboreel.mirror.client import Client
    from roboreel.mirror.file_table import RemoteFile

# No dataset has it. A server that finds it has every file, and would never run out of tables.
_ABSENT = "meta/episodes/chunk-000/no-such-file.parquet"

_NAMES = (
    "meta/stats.json",
    "meta/tasks.parquet",
    "meta/subtasks.parquet",
    "meta/tasks.jsonl",
    "meta/episodes.jsonl",
    "meta/episodes_stats.jsonl",
)


def guess_metadata(client: Client) -> list[RemoteFile]:
    """Return the metadata files that exist, apart from info.json.

    The tables of episodes are counted up until one is missing: ``chunk-000/file-000``, …

    Raises:
        RemoteError: The server answers to any name.
    """
    with ThreadPool(1 + len(_NAMES), "roboreel-find") as pool:
        absent, *asked = pool.map(client.find, (_ABSENT, *_NAMES))
    if absent is not None:
        raise RemoteError(
            f"The server has a page for every name, so it cannot say which files exist: {client.url!r}."
        )
    found = [file for file in asked if file is not None]
    chunk = number = 0
    while True:
        name = f"meta/episodes/chunk-{chunk:03d}/file-{number:03d}.parquet"
        file = client.find(name)
        if file is not None:
            found.append(file)
            number += 1
        elif number:
            chunk, number = chunk + 1, 0
        else:
            return found
