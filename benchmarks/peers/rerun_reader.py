"""Rerun's own reader of LeRobot datasets exports episodes; it lives in our environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.meter import Meter

CONTENDER = "rerun's LeRobotReader"


def export(meter: Meter, root: str, out: str, frames: int) -> None:
    """Write every episode to a recording of its own."""
    with meter.step("import"):
        from rerun.experimental import LeRobotReader
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    reader = LeRobotReader(root)
    episodes = reader.episodes()
    with meter.step("episode", count=len(episodes)):
        for episode in episodes:
            reader.stream(episode).write_rrd(
                folder / f"{episode}.rrd", application_id="peer", recording_id=f"peer {episode}"
            )
    size_bytes = sum(path.stat().st_size for path in folder.glob("*.rrd"))
    meter.note(frames=frames, megabytes=size_bytes / 1e6)
