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
    """Write pictures; pass over them as record batches, and take slices of the table."""
    from roboreel.shards import open_shards

    path = _written(count)

    def tables() -> Iterator[Any]:
        for start in range(0, count - BATCH + 1, BATCH):
            yield store.take_table(range(start, start + BATCH))

    store = open_shards(path)
    _measure_arrow(meter, count, passes, store.to_batches, tables)


def pyarrow_map(meter: Meter, count: int, passes: int) -> None:
    """Do the same with the files mapped by pyarrow itself: the limit."""
    import pyarrow as pa

    folder = _written(count)
    files = sorted(folder.glob("generation-*/*.arrow"))

    readers = [pa.ipc.open_file(pa.memory_map(str(file))) for file in files]

    def record_batches() -> Iterator[Any]:
        for reader in readers:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    table = pa.Table.from_batches(record_batches())

    def tables() -> Iterator[Any]:
        for start in range(0, count - BATCH + 1, BATCH):
            yield table.slice(start, BATCH)

    _measure_arrow(meter, count, passes, record_batches, tables)


def _written(count: int) -> Path:
    from roboreel.shards import Image, write_shards

    path = Path(tempfile.gettempdir(), "shards")
    write_shards(pictures(count), {"image": Image(), "number": "int64"}, path)
    return path


def _measure_arrow(
    meter: Meter,
    count: int,
    passes: int,
    record_batches: Callable[[], Iterable[Any]],
    tables: Callable[[], Iterable[Any]],
) -> None:
    rows = 0
    for _ in record_batches():  # Once unmeasured, so that all contenders find warm pages.
        pass
    with meter.step("a row, in record batches", count * passes):
        for _ in range(passes):
            rows = sum(batch.num_rows for batch in record_batches())
    with meter.step(f"a row, in tables of {BATCH}", count // BATCH * BATCH * passes):
        for _ in range(passes):
            for _ in tables():
                pass
    first = next(iter(tables()))
    meter.note(rows=rows, checksum=checksum(first["image"].to_pylist()))
