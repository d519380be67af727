"""Metadata files on a server that has no list: asked for by the names that they can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.threads import ThreadPool

if TYPE_CHECKING:
    from roboreel.mirror.client import Client
    from roboreel.mirror.file_table import RemoteFile

__all__ = ["guess_metadata"]

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
    """
    with ThreadPool(len(_NAMES), "roboreel-find") as pool:
        asked = list(pool.map(client.find, _NAMES))
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
