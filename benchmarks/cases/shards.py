"""roboreel writes a stream of pictures as shards, and reads them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.pictures import checksum, pictures
from benchmarks.workload import BATCH, batches, random_rows

if TYPE_CHECKING:
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
