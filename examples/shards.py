"""Store a stream of examples as mapped Arrow shards, and read rows, batches and splits of it.

Run it with ``python examples/shards.py [FOLDER]``. Without a folder, a temporary one is used.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import roboreel as reel

if TYPE_CHECKING:
    from collections.abc import Iterator

FEATURES = {
    "image": reel.Image(),  # pixels become PNG; bytes of a PNG or JPEG stay as they are
    "shape": reel.ClassLabel(["disc", "square"]),
    "state": reel.Sequence("float32", 7),
    "reward": "float32",
}


def main() -> None:
    """Write examples of a toy simulator, and read them in several ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--examples", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_and_read(options.folder or Path(scratch, "shapes"), options.examples)


def write_and_read(folder: Path, count: int) -> None:
    """Write a store at one batch of memory; open it by memory map."""
    # With a source, a second run finds what the first one wrote, and does not simulate again.
    reel.write_shards(simulate(count), FEATURES, folder, source={"examples": count, "seed": 0})

    store = reel.open_shards(folder)
    print(store)
    print("as stored:", {name: type(value).__name__ for name, value in store[5].items()})
    print("decoded:", store.decoded()[5]["image"].shape)
    print("rewards:", store.take([9, 2, 2], features=["reward"])["reward"])

    training, test = store.split(test=0.1, seed=0)
    print(f"{len(training)} rows to train on, {len(test)} to test on")
    batches = training.decoded().iter_batches(64, shuffle=True, seed=7)
    brightest = max(float(np.mean(batch["image"][0])) for batch in batches)
    print(f"brightest first image of a batch: {brightest:.0f}")


def simulate(count: int) -> Iterator[dict[str, Any]]:
    """Yield what a simulator would: an image, what is in it, numbers."""
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
