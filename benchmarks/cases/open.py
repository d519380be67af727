"""roboreel opens a dataset."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def import_library(meter: Meter) -> None:
    """Import the part that opens: the package itself loads its parts when first used."""
    with meter.step("import"):
        import_module("roboreel.dataset")


def open_and_look(meter: Meter, root: str) -> None:
    """Open a dataset and look at one episode in its middle."""
    from roboreel import open_dataset

    with meter.step("open"):
        dataset = open_dataset(root)
        middle = dataset.episodes[len(dataset.episodes) // 2]
    meter.note(frames=len(dataset), episodes=len(dataset.episodes), middle=middle.start)
