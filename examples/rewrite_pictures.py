"""Store the pictures of a dataset uncompressed inside its Parquet files, so that reads are one copy.

For datasets whose pictures are on the rung ``page`` or ``row group``: see docs/reading.md. Run it
with ``python examples/rewrite_pictures.py DATASET``. Without a dataset, a small one is made.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset


def main() -> None:
    """Rewrite the data files of a dataset, and say on which rung its pictures are then."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", nargs="?", type=Path)
    path = parser.parse_args().dataset
    with tempfile.TemporaryDirectory() as scratch:
        path = path or make_demo_dataset(
            Path(scratch, "arm"), DemoSpec(2, 20, size=(96, 128), store="image")
        )
        dataset = reel.open_dataset(path)
        pictures = {
            f"{camera}.bytes"
            for camera in dataset.cameras
            if dataset.features[camera].dtype == "image"
        }
        for file in sorted(path.glob("data/**/*.parquet")):
            rewrite(file, pictures)
        dataset = reel.open_dataset(path)
        dataset.read([0], dataset.cameras)
        print(dataset.memory)


def rewrite(path: Path, pictures: set[str]) -> None:
    """Write a Parquet file again: the same rows and row groups, pictures without compression."""
    old = pq.ParquetFile(path)
    columns = [old.schema.column(number).path for number in range(len(old.schema))]
    beside = path.with_name(f".{path.name}.tmp")
    with pq.ParquetWriter(
        beside,
        old.schema_arrow,
        compression={column: "none" if column in pictures else "snappy" for column in columns},
        use_dictionary=[column for column in columns if column not in pictures],
    ) as writer:
        for group in range(old.num_row_groups):
            writer.write_table(old.read_row_group(group))
    old.close()
    beside.replace(path)


if __name__ == "__main__":
    main()
