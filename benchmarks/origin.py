"""Where a result comes from: which code, on what kind of machine, how much of it there was."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.memory import SOURCE

__all__ = ["Origin"]

_PROJECT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class _HostTime:
    """Time of all cores since the start of the machine, in ticks."""

    wanted: int
    """When there was something to do."""
    stolen: int
    """When there was, and the host had given the core to others."""

    @classmethod
    def now(cls) -> _HostTime | None:
        """Return the time up to now; None where the system does not tell."""
        facts = Path("/proc/stat")
        if not facts.exists():
            return None
        user, nice, system, _idle, _waiting, *interrupts, stolen = map(
            int, facts.read_text().split(maxsplit=9)[1:9]
        )
        return cls(user + nice + system + sum(interrupts) + stolen, stolen)

    def stolen_share_since(self, before: _HostTime) -> float:
        """Return which share of the time that was wanted since then went to others."""
        return (self.stolen - before.stolen) / max(1, self.wanted - before.wanted)


@dataclass(frozen=True, slots=True)
class Origin:
    """What is measured, and since when; made before the measurement."""

    code: str | None
    """The commit, and whether it was changed; None outside of git."""
    began: _HostTime | None

    @classmethod
    def now(cls) -> Origin:
        """Return the origin of a measurement that begins now."""
        return cls(_code(), _HostTime.now())

    def facts(self) -> dict[str, object]:
        """Return what a reader needs to judge the numbers; nothing that tells which machine it is."""
        machine: dict[str, str | float] = {
            "cpu": _cpu_model(),
            "cores": os.cpu_count() or 0,
            "system": platform.system(),
            "architecture": platform.machine(),
            "memory_source": SOURCE,
        }
        now = _HostTime.now()
        if self.began is not None and now is not None:
            machine["stolen_share"] = round(now.stolen_share_since(self.began), 4)
        return {"code": self.code, "machine": machine}


def _code() -> str | None:
    git = shutil.which("git")
    if git is None or not (_PROJECT / ".git").exists():
        return None

    def ask(*words: str) -> str:
        command = [git, "-C", str(_PROJECT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    commit = ask("rev-parse", "--short", "HEAD")
    changed = ask("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
    return f"{commit}, changed" if changed else commit


def _cpu_model() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
