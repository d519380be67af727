"""How a dataset is opened: by its path, its view's name, or a pickle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.opened import Opened, find_manifest
from roboreel.memory.budget import parse_size, process_budget

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["open_dataset", "reopen"]


def open_dataset(
    path: str | os.PathLike[str],
    *,
    memory: int | str | None = None,
    decode_threads: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    numbers: Literal["in place", "mapped"] = "in place",
    view: str | None = None,
) -> Dataset:
    """Open a LeRobot dataset (v2.0, v2.1 or v3.0) in place.

    Only metadata is read: no data or video file is opened, and nothing is written.

    Args:
        path: The folder that holds ``meta/info.json``; or ``hf://datasets/owner/name[@revision]``,
            for a dataset that was downloaded before.
        memory: Limit of the memory budget, such as ``"2GB"``. Process-wide; the latest call wins.
            Default 512 MiB.
        decode_threads: Threads that decode images; one per core by default.
        cache: A training cache of this dataset, made by `Dataset.materialize`. What it holds is
            read from its mapped shards, and images have its size unless you ask for another.
        numbers: ``"mapped"`` reads numbers from an uncompressed copy below ``~/.cache/roboreel``, or
            ``$ROBOREEL_CACHE``, which is written now unless it is there, and again when the dataset
            has changed. Worth it where numbers do not fit in half of the budget and are read at
            random; `Dataset.memory` says so, and what the copy takes. A ``cache`` always has one.
        view: The name of a view that `save_view` saved; by default all episodes.

    Raises:
        NotADatasetError: There is no dataset at this path.
        UnsupportedVersionError: Its version is not supported.
        MetadataError: A metadata file cannot be understood.
        CacheError: The cache does not exist, or was made from another state of the dataset; or the
            disk has no space for mapped numbers.
        ViewError: There is no saved view of this name.
        StaleDatasetError: The episodes of the view have changed since it was saved.
    """
    if memory is not None:
        process_budget().limit_bytes = parse_size(memory)
    if numbers not in ("in place", "mapped"):
        raise ValueError(f"numbers is 'in place' or 'mapped', not {numbers!r}.")
    manifest = find_manifest(path)
    if numbers == "mapped" and cache is None:
        # Imported here: opening in place needs no shards.
        from roboreel.dataset.cache.build import map_numbers

        cache = map_numbers(Dataset(Opened(manifest, decode_threads, None)))
    opened = Opened(manifest, decode_threads, None if cache is None else Path(cache).expanduser())
    if cache is not None:
        _ = opened.reader  # A cache that does not fit is refused now, not at the first read.
    dataset = Dataset(opened)
    if view is None:
        return dataset
    from roboreel.dataset.saved_views import read_view

    return Dataset(opened, read_view(dataset, view))


def reopen(path: Path, settings: Mapping[str, Any], bits: NDArray[np.uint8] | None) -> Dataset:
    """Return the dataset or view that a pickle describes; ``bits`` has a bit per episode."""
    dataset = open_dataset(path, **settings)
    if bits is None:
        return dataset
    chosen = np.unpackbits(bits, count=len(dataset.manifest.episodes)).astype(bool)
    return dataset._view(np.flatnonzero(chosen))
