"""How a dataset is opened: by its path, its view's name, or a pickle."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.opened import Opened, find_manifest, open_beside
from roboreel.errors import StaleDatasetError
from roboreel.io.budget import parse_size, process_budget
from roboreel.mirror.connection import Connection

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.schema import ManifestState


def open_dataset(
    path: str | os.PathLike[str],
    *,
    memory: int | str | None = None,
    decode_threads: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    numbers: Literal["in place", "mapped"] = "in place",
    view: str | None = None,
    mirror: str | os.PathLike[str] | None = None,
    mirror_limit: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Open a LeRobot dataset (v2.0, v2.1 or v3.0) in place.

    Only metadata is read: no data or video file is opened, and nothing is written. Of a remote
    dataset, metadata is fetched now and the rest when it is needed, by spans of bytes: see
    docs/remote.md.

    Args:
        path: The folder that holds ``meta/info.json``; or its address: ``s3://``, ``gs://``,
            ``az://``, ``https://``, or ``hf://datasets/owner/name[@revision]``, which is found where
            it was downloaded before the Hub is asked.
        memory: Limit of the memory budget, such as ``"2GB"``. Process-wide; the latest call wins,
            with a warning if that leaves less to other open datasets. Default 512 MiB.
        decode_threads: Threads that decode images; one per core by default.
        cache: A training cache of this dataset, made by `Dataset.materialize`. What it holds is
            read from its mapped shards, and images have its size unless you ask for another.
        numbers: ``"mapped"`` reads numbers from an uncompressed copy below ``~/.cache/roboreel``, or
            ``$ROBOREEL_CACHE``, which is written now unless it is there, and again when the dataset
            has changed. Worth it where numbers do not fit in half of the budget and are read at
            random; `Dataset.memory` says so, and what the copy takes. A ``cache`` always has one.
        view: The name of a view that `save_view` saved; by default all episodes.
        mirror: A folder that keeps what is fetched of remote datasets, for all processes of the
            machine. Default: ``~/.cache/roboreel/remote``.
        mirror_limit: The most that all mirrors in this folder may take, such as ``"50GB"``, which is
            the default. What was not used for longest is removed. The latest call in a process wins.
        storage_options: How to connect to a remote dataset: see docs/remote.md. Secrets in it are
            never shown, and never pickled.

    Raises:
        NotADatasetError: There is no dataset at this path.
        RemoteError: A remote dataset cannot be reached.
        UnsupportedVersionError: Its version is not supported.
        MetadataError: A metadata file cannot be understood.
        CacheError: The cache does not exist, or was made from another state of the dataset; or the
            disk has no space for mapped numbers.
        ViewError: There is no saved view of this name.
        StaleDatasetError: The episodes of the view have changed since it was saved.
    """
    limit_before = process_budget().limit_bytes
    if memory is not None:
        process_budget().limit_bytes = parse_size(memory)
    if numbers not in ("in place", "mapped"):
        raise ValueError(f"numbers is 'in place' or 'mapped', not {numbers!r}.")
    limit_bytes = None if mirror_limit is None else parse_size(mirror_limit)
    connection = Connection(mirror, limit_bytes, dict(storage_options or {}))
    manifest = find_manifest(path, connection)
    if memory is not None and parse_size(memory) < limit_before:
        _warn_of_less_memory(parse_size(memory), limit_before, manifest.root)
    if numbers == "mapped" and cache is None:
        # Imported here: opening in place needs no shards.
        from roboreel.dataset.cache.build import map_numbers

        cache = map_numbers(Dataset(Opened(manifest, decode_threads, None)))
    place = None if cache is None else Path(cache).expanduser()
    opened = Opened(manifest, decode_threads, place, connection)
    if cache is not None:
        _ = opened.reader  # A cache that does not fit is refused now, not at the first read.
    dataset = Dataset(opened)
    if view is None:
        return dataset
    from roboreel.dataset.saved_views import read_view

    return Dataset(opened, read_view(dataset, view))


def _warn_of_less_memory(limit_bytes: int, before: int, root: Path) -> None:
    others = open_beside(root)
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        warnings.warn(
            f"The memory budget is {limit_bytes / 1e6:,.0f} MB from now on, and was "
            f"{before / 1e6:,.0f} MB: all datasets of a process share it, so reads of others "
            f"that are open may become slower. Give `memory=` once, for all of them: "
            f"{str(others[0])!r}{more}.",
            UserWarning,
            stacklevel=3,
        )


def reopen(
    path: Path,
    settings: Mapping[str, Any],
    bits: NDArray[np.uint8] | None,
    known: tuple[int, str, ManifestState | None],
) -> Dataset:
    """Return the dataset or view that a pickle describes.

    Args:
        path: Where it lies.
        settings: Arguments of `open_dataset`.
        bits: The episodes of a view, a bit for each.
        known: How many episodes there were, their fingerprint, and the dataset's state.

    Raises:
        StaleDatasetError: It has changed since it was pickled.
    """
    # Imported here: a dataset that is opened by its path is not compared.
    from roboreel.frames.unchanged import is_still

    connection: Connection | None = settings.get("connection")
    told = {name: value for name, value in settings.items() if name != "connection"}
    if connection is not None:
        told["storage_options"], told["mirror_limit"] = connection.options, connection.limit_bytes
    dataset = open_dataset(path, **told)
    if not is_still(dataset.manifest, *known):
        raise StaleDatasetError(
            "The dataset was changed after it was handed to this process, so samples would be "
            f"those of other episodes. Open it again: {str(path)!r}."
        )
    if bits is None:
        return dataset
    chosen = np.unpackbits(bits, count=len(dataset.manifest.episodes)).astype(bool)
    return dataset._view(np.flatnonzero(chosen))
