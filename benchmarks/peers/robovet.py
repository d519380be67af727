"""robovet checks a dataset, from an environment of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.meter import Meter

CONTENDER = "robovet 0.2.2"
_PROJECT = Path(__file__).resolve().parents[2]


def robovet_python() -> Path | None:
    """Return the interpreter that has robovet: of ``$ROBOREEL_ROBOVET``, or of .venv-robovet."""
    inside = Path("Scripts", "python.exe") if sys.platform == "win32" else Path("bin", "python")
    python = Path(os.environ.get("ROBOREEL_ROBOVET") or _PROJECT / ".venv-robovet") / inside
    return python if python.exists() else None


def check(meter: Meter, root: str, tier: str) -> None:
    """Check a dataset as ``robovet doctor`` does, and count what is worse than information."""
    with meter.step("import"):
        from robovet.checks import Severity, run_doctor
        from robovet.dataset import load_dataset
    with meter.step("check"):
        dataset = load_dataset(Path(root))
        report = run_doctor(dataset, max_episodes=None, meta_only=tier == "metadata")
    meter.note(findings=sum(result.severity >= Severity.WARN for result in report.results))
