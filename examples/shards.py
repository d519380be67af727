"""Write a stream of examples as memory-mapped Arrow shards; read rows, batches and splits.

Run it with ``python examples/shards.py [FOLDER]``. Without a folder, a temporary one is used.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.shards import ClassLabel, Image, Sequence, open_shards, write_shards

if TYPE_CHECKING:
    from collections.abc import Iterator

FEATURES = {
    "image": Image(),  # pixels become PNG; encoded bytes are stored as they are
    "shape": ClassLabel(["disc", "square"]),
    "state": Sequence("float32", 7),
    "reward": "float32",
}


def main() -> None:
    """Write examples of a toy simulator and read them in several ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--examples", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_and_read(options.folder or Path(scratch, "shapes"), options.examples)


def write_and_read(folder: Path, count: int) -> None:
    """Write a store with little memory, then open it by memory map."""
    # With a source, a second run finds what the first one wrote instead of simulating again.
    write_shards(simulate(count), FEATURES, folder, source={"examples": count, "seed": 0})

    store = open_shards(folder)
    print(store)
    print("as stored:", {name: type(value).__name__ for name, value in store[5].items()})
    print("decoded:", store.decoded()[5]["image"].shape)
    print("rewards:", store[[9, 2, 2]]["reward"])

    training, test = store.split(test=0.1, seed=0)
    print(f"{len(training)} rows for training, {len(test)} for testing")
    batches = training.decoded().iter_batches(64, shuffle=True, seed=7)
    brightest = max(float(np.mean(batch["image"][0])) for batch in batches)
    print(f"brightest first image of a batch: {brightest:.0f}")


def simulate(count: int) -> Iterator[dict[str, Any]]:
    """Yield examples: an image, the shape in it, numbers."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:64, :64]
    for _ in range(count):
        row, column, size = rng.integers(16, 48, 2).tolist() + rng.integers(4, 16, 1).tolist()
        shape = "disc" if rng.random() < 0.5 else "square"
        if shape == "disc":
            inside = (rows - row) ** 2 + (columns - column) ** 2 < size**2
        else:
            inside = np.maximum(abs(rows - row), abs(columns - column)) < size
        image = np.where(inside[..., None], rng.integers(64, 255, 3), 32).astype(np.uint8)
        state = rng.standard_normal(7, dtype=np.float32)
        yield {"image": image, "shape": shape, "state": state, "reward": float(state[0])}


if __name__ == "__main__":
    main()
