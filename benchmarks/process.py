"""Run a case in a process of its own and bring back what it cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.memory import anonymous_bytes
from benchmarks.meter import Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["PROJECT", "CaseError", "Measurement", "peak_bytes", "run_case"]

PROJECT = Path(__file__).resolve().parents[1]
_INTERVAL_S = 0.01
# Walking the page tables of a large process takes milliseconds and holds a lock of that process,
# so the sampler is idle for at least this many times what its last sample took.
_IDLE_SHARE = 20


class CaseError(Exception):
    """A case did not come to its end."""


@dataclass(frozen=True)
class Measurement:
    """What one run of a case cost."""

    steps: tuple[Step, ...]
    peaks: tuple[int | None, ...]
    """Most anonymous bytes above the start of each step."""
    notes: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def run_case(
    python: str | Path,
    module: str,
    function: str,
    arguments: Mapping[str, Any],
    *,
    home: Path,
    watch: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    checkout: Path = PROJECT,
) -> Measurement:
    """Run ``module.function(meter, **arguments)`` under an interpreter; return what it cost.

    Args:
        python: Interpreter: this one, or the peers'.
        module: Where the case is; imported there, so it must import only that contender.
        function: The case. Its first argument is a `Meter`.
        arguments: The others; anything that JSON can carry.
        home: Folder for all that the process caches and all its temporary files. Empty for a
            first run, the same again for a second. Its growth counts as disk use.
        watch: Further folders whose growth counts, such as the dataset's.
        environment: Variables to set, such as ``OMP_NUM_THREADS``.
        checkout: The checkout of roboreel whose package and cases are run.

    Raises:
        CaseError: The process failed; the message ends with what it printed last.
    """
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as desk:
        job, answer, log = (Path(desk, name) for name in ("job", "answer", "log"))
        watched = [str(folder) for folder in (home, *watch)]
        job.write_text(
            json.dumps(
                {"module": module, "function": function, "arguments": arguments, "watch": watched}
            )
        )
        command = [str(python), "-m", "benchmarks.worker", str(job), str(answer)]
        variables = _environment(python, home, environment or {}, checkout)
        samples = _run_sampled(command, variables, log, checkout)
        if not answer.exists():
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise CaseError(f"{module}.{function} failed under {Path(python).name}:\n{tail}")
        return _measurement(json.loads(answer.read_text()), samples)


def peak_bytes(step: Step, samples: Sequence[tuple[float, int]]) -> int | None:
    """Return the most memory above the start of a step, from samples and from its two edges."""
    if step.memory_before is None or step.memory_after is None:
        return None
    inside = [size for moment, size in samples if step.start_s <= moment <= step.stop_s]
    return max(step.memory_before, step.memory_after, *inside) - step.memory_before


def _measurement(answer: Mapping[str, Any], samples: Sequence[tuple[float, int]]) -> Measurement:
    steps = tuple(Step(**step) for step in answer["steps"])
    peaks = tuple(peak_bytes(step, samples) for step in steps)
    return Measurement(steps, peaks, answer["notes"], answer["versions"])


def _run_sampled(
    command: Sequence[str], environment: Mapping[str, str], log: Path, checkout: Path
) -> list[tuple[float, int]]:
    """Run a command to its end; return its memory over time, seen from outside.

    From outside, because a sampling thread would add to the CPU time that is being measured.
    """
    samples: list[tuple[float, int]] = []
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, env=dict(environment), stdout=output, stderr=output, cwd=checkout
        ) as process,
    ):
        try:
            while process.poll() is None:
                moment = time.monotonic()
                size = anonymous_bytes(process.pid)
                if size is not None:
                    samples.append((moment, size))
                time.sleep(max(_INTERVAL_S, _IDLE_SHARE * (time.monotonic() - moment)))
        finally:
            process.kill()
    return samples


def _environment(
    python: str | Path, home: Path, further: Mapping[str, str], checkout: Path
) -> dict[str, str]:
    # The peers' interpreter gets this package and nothing of ours; our own keeps its path.
    inherited = os.environ.get("PYTHONPATH", "") if str(python) == sys.executable else ""
    if checkout != PROJECT:
        inherited = str(checkout / "src")
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    # Bytecode is kept, as for any installed package, whatever is the custom here.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(checkout), inherited))),
        "HF_HOME": str(home / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "XDG_CACHE_HOME": str(home / "cache"),
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary)),
        **further,
    }
