"""New stores from old ones: rows that are kept, and rows that are written anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from roboreel.shards.write import checked_limits, publish_batches, write_shards

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from roboreel.shards.store import Store
    from roboreel.shards.write import WriteOptions

    Progress: TypeAlias = bool | Callable[[int, int], None]

_BATCH_ROWS = 1000
_MOST_BATCH_BYTES = 64 * 1024**2


def matching_rows(store: Store, keep: Callable[[Any], object]) -> NDArray[np.int64]:
    """Return the numbers of the rows that a function wants to keep.

    Raises:
        TypeError: It returned something else than True or False.
    """
    kept = np.zeros(len(store), bool)
    for row, values in enumerate(store):
        answer = keep(values)
        if not isinstance(answer, bool | np.bool_):
            raise TypeError(f"The filter returned {answer!r} for row {row}: not True or False.")
        kept[row] = answer
    return np.flatnonzero(kept)


def write_mapped(
    store: Store,
    function: Callable[[dict[str, Any]], Mapping[str, object]],
    path: str | os.PathLike[str],
    features: Mapping[str, object] | None,
    source: Mapping[str, Any] | None,
    progress: Progress,
    options: WriteOptions,
) -> None:
    """Write what a function makes of each row: see `Store.map`."""
    identity = store.identity
    made_from = None if source is None or identity is None else {"store": identity, "map": source}
    write_shards(
        (function(row) for row in _counted(store, len(store), progress)),
        store.features if features is None else features,
        path,
        source=made_from,
        **options,
    )


def write_copy(
    store: Store, path: str | os.PathLike[str], progress: Progress, options: WriteOptions
) -> None:
    """Write the rows of a store as a store of their own: see `Store.flatten`."""
    identity = store.identity
    limit_bytes = checked_limits(options.get("shard_size", "256MB"), options.get("batch_size", 1))
    rows = min(options.get("batch_size", _BATCH_ROWS), _rows_in(store, limit_bytes))
    publish_batches(
        lambda: _copied(store, rows, progress),
        store.features,
        Path(path),
        source=None if identity is None else {"store": identity, "flatten": True},
        limit_bytes=limit_bytes,
        overwrite=options.get("overwrite", False),
    )


def _rows_in(store: Store, limit_bytes: int) -> int:
    """Return how many rows of the usual size fit into a batch."""
    first = store.take_table(range(min(8, len(store)))).nbytes / max(1, min(8, len(store)))
    return max(1, int(min(limit_bytes, _MOST_BATCH_BYTES) / max(1.0, first)))


def _copied(store: Store, rows: int, progress: Progress) -> Iterator[pa.RecordBatch]:
    starts = range(0, len(store), rows)
    for start in _counted(starts, len(starts), progress):
        span = range(start, min(start + rows, len(store)))
        yield from store.take_table(span).combine_chunks().to_batches()


def _counted(items: Iterable[Any], total: int, progress: Progress) -> Iterator[Any]:
    """Yield items and report how many of them are done."""
    report = _print_progress if progress is True else progress
    for done, item in enumerate(items):
        yield item
        if report:
            report(done + 1, total)


def _print_progress(done: int, total: int) -> None:
    if done % max(1, total // 100) == 0 or done == total:
        filled = 30 * done // max(1, total)
        end = "\n" if done == total else ""
        print(  # noqa: T201  # asked for
            f"\r[{'#' * filled}{'.' * (30 - filled)}] {done:,} of {total:,}",
            end=end,
            file=sys.stderr,
            flush=True,
        )
