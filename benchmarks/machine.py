"""What kind of machine a result comes from; nothing that tells which one."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from benchmarks.memory import SOURCE

__all__ = ["machine"]


def machine() -> dict[str, str | int]:
    """Return the facts that a reader needs to judge a number."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": platform.system(),
        "architecture": platform.machine(),
        "memory_source": SOURCE,
    }


def _cpu_model() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
