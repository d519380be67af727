"""What other stores do with a stream of pictures; runs in the peers' environment."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.pictures import PICTURE_BYTES, checksum, pictures
from benchmarks.workload import BATCH, batches, random_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.meter import Meter

FLAT = "flat mmap"
HF_DATASETS = "HF datasets"
LANCE = "Lance"


def flat(meter: Meter, count: int, reads: int) -> None:
    """Write pictures of one size one after another, and slice the map: the limit."""
    path = Path(tempfile.gettempdir(), "flat")
    with meter.step("write", count), path.open("wb") as file:
        for example in pictures(count):
            file.write(example["image"])
    with path.open("rb") as written:
        mapped = mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ)

    def one(row: int) -> bytes:
        return mapped[row * PICTURE_BYTES : (row + 1) * PICTURE_BYTES]

    def many(rows: Iterable[int]) -> list[bytes]:
        return [one(row) for row in rows]

    spans = (range(start, min(start + BATCH, count)) for start in range(0, count, BATCH))
    _read(meter, count, reads, one, many, map(many, spans))


def hf_datasets(meter: Meter, count: int, reads: int) -> None:
    """Write pictures with ``Dataset.from_generator``; read them as Python values."""
    from datasets import Dataset, Features, Value

    features = Features({"image": Value("large_binary"), "number": Value("int64")})
    with meter.step("write", count):
        table: Any = Dataset.from_generator(
            pictures, features=features, gen_kwargs={"count": count}
        )
    _read(
        meter,
        count,
        reads,
        lambda row: table[row]["image"],
        lambda rows: table[rows]["image"],
        table.iter(BATCH),
    )


def lance(meter: Meter, count: int, reads: int) -> None:
    """Write pictures as a Lance dataset; take rows from it."""
    import pyarrow as pa
    from lance import write_dataset

    schema = pa.schema([("image", pa.large_binary()), ("number", pa.int64())])
    path = Path(tempfile.gettempdir(), "pictures.lance")
    with meter.step("write", count):
        table: Any = write_dataset(_record_batches(schema, count), path, schema=schema)
    _read(
        meter,
        count,
        reads,
        lambda row: table.take([row]).to_pylist()[0]["image"],
        lambda rows: table.take(rows).column("image").to_pylist(),
        (batch.to_pydict() for batch in table.to_batches(batch_size=BATCH)),
    )


def _record_batches(schema: Any, count: int) -> Iterator[Any]:  # noqa: ANN401  # pyarrow is untyped
    import pyarrow as pa

    examples: list[dict[str, Any]] = []
    for example in pictures(count):
        examples.append(example)
        if len(examples) == 1000 or example["number"] == count - 1:
            yield pa.RecordBatch.from_pylist(examples, schema)
            examples.clear()


def _read(
    meter: Meter,
    count: int,
    reads: int,
    one: Callable[[int], bytes],
    many: Callable[[list[int]], list[bytes]],
    sequence: Iterable[object],
) -> None:
    chosen = random_rows(count, reads)
    for row in chosen:  # Once unmeasured, so that all contenders find warm pages.
        one(row)
    with meter.step("one row", reads):
        for row in chosen:
            one(row)
    grouped = batches(chosen)
    with meter.step(f"a row, in batches of {BATCH}", BATCH * len(grouped)):
        for batch in grouped:
            many(batch)
    with meter.step("a row, in sequence", count):
        for _ in sequence:
            pass
    meter.note(rows=count, checksum=checksum(many(chosen[:BATCH])))
