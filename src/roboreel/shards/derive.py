"""The rows of a store as they are copied into another one, and how that goes on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from roboreel.shards.store import Store

    Progress: TypeAlias = bool | Callable[[int, int], None]

BATCH_ROWS = 1000
_MOST_BATCH_BYTES = 64 * 1024**2


def rows_in(store: Store, limit_bytes: int) -> int:
    """Return how many rows of the usual size fit into a batch."""
    first = store.take_table(range(min(8, len(store)))).nbytes / max(1, min(8, len(store)))
    return max(1, int(min(limit_bytes, _MOST_BATCH_BYTES) / max(1.0, first)))


def copied(store: Store, rows: int, progress: Progress) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a store, so many in a batch."""
    starts = range(0, len(store), rows)
    for start in counted(starts, len(starts), progress):
        span = range(start, min(start + rows, len(store)))
        yield from store.take_table(span).combine_chunks().to_batches()


def counted(items: Iterable[Any], total: int, progress: Progress) -> Iterator[Any]:
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
