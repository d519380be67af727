"""roboreel writes a stream of pictures as shards, and reads them as values and as Arrow."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.pictures import checksum, pictures
from benchmarks.workload import BATCH, batches, random_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.meter import Meter


def write_and_read(meter: Meter, count: int, reads: int) -> None:
    """Write pictures; read them one by one, in batches, and all in sequence."""
    from roboreel.shards import Image, open_shards, write_shards

    path = Path(tempfile.gettempdir(), "shards")
    with meter.step("write", count):
        write_shards(pictures(count), {"image": Image(), "number": "int64"}, path)
    store = open_shards(path)
    chosen = random_rows(len(store), reads)
    for row in chosen:  # Once unmeasured, so that all contenders find warm pages.
        store[row]
    with meter.step("one row", reads):
        for row in chosen:
            store[row]
    grouped = batches(chosen)
    with meter.step(f"a row, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            store.take(batch)
    with meter.step("a row, in sequence", count):
        for _ in store.iter_batches(BATCH):
            pass
    meter.note(rows=len(store), checksum=checksum(store.take(chosen[:BATCH])["image"]))


def arrow_door(meter: Meter, count: int, passes: int) -> None:
    """Write pictures; read them as record batches, slices of the table, and tables of rows."""
    from roboreel.shards import open_shards

    store = open_shards(_written(count))
    _measure_arrow(meter, passes, store.to_batches, lambda: store.table, store.take_table)
    _measure_runs(meter, len(store), store.take_table)


def pyarrow_map(meter: Meter, count: int, passes: int) -> None:
    """Do the same with the files mapped by pyarrow itself: the limit."""
    import pyarrow as pa

    files = sorted(_written(count).glob("generation-*/*.arrow"))
    readers = [pa.ipc.open_file(pa.memory_map(str(file))) for file in files]

    def record_batches() -> Iterator[Any]:
        for reader in readers:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    def table() -> Any:  # noqa: ANN401  # pyarrow is untyped
        return pa.Table.from_batches(record_batches())

    whole = table()
    _measure_arrow(meter, passes, record_batches, table, lambda rows: whole.take(pa.array(rows)))
    _measure_runs(meter, len(whole), lambda rows: whole.slice(rows.start, len(rows)))


def _written(count: int) -> Path:
    from roboreel.shards import Image, write_shards

    path = Path(tempfile.gettempdir(), "shards")
    write_shards(pictures(count), {"image": Image(), "number": "int64"}, path)
    return path


def _measure_arrow(
    meter: Meter,
    passes: int,
    record_batches: Callable[[], Iterable[Any]],
    whole: Callable[[], Any],
    take: Callable[[list[int]], Any],
) -> None:
    # Once unmeasured, so that all contenders find warm pages.
    count = sum(batch.num_rows for batch in record_batches())
    with meter.step("a row, in record batches", count * passes):
        for _ in range(passes):
            for _ in record_batches():
                pass
    with meter.step("a row, in the whole table", count * passes):
        for _ in range(passes):
            whole()
    table, starts = whole(), range(0, count - BATCH + 1, BATCH)
    with meter.step(f"a row, in slices of {BATCH}", len(starts) * BATCH * passes):
        for _ in range(passes):
            for start in starts:
                table.slice(start, BATCH)
    grouped = batches(random_rows(count, min(count, 4_096)))
    with meter.step(f"a row, in tables of {BATCH} random rows", BATCH * len(grouped)):
        for rows in grouped:
            take(rows)
    meter.note(rows=count, checksum=checksum(take(grouped[0])["image"].to_pylist()))


def _measure_runs(meter: Meter, count: int, take: Callable[[range], Any]) -> None:
    runs = [range(start, start + BATCH) for start in range(0, count - BATCH + 1, BATCH)]
    with meter.step(f"a row, in tables of {BATCH} rows in a row", BATCH * len(runs)):
        for run in runs:
            take(run)
