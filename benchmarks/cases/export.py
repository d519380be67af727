"""roboreel exports episodes to Rerun."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def export(meter: Meter, root: str, out: str) -> None:
    """Write every episode to a recording of its own."""
    with meter.step("import"):
        import_module("roboreel.dataset.reader")  # Otherwise loaded when the first row is read.
        with suppress(ModuleNotFoundError):
            import_module("pandas")  # Otherwise loaded by pyarrow, for the first list it converts.
        from roboreel import open_dataset
        from roboreel.rerun import export_episodes
    dataset = open_dataset(root)
    with meter.step("episode", count=len(dataset.episodes)):
        paths = export_episodes(dataset, out, overwrite=True)
    meter.note(frames=len(dataset), megabytes=sum(Path(p).stat().st_size for p in paths) / 1e6)
