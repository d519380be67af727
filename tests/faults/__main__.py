"""Stops every writer at every call that changes a file, in every way, and checks what is left.

``python -m tests.faults`` does it all; ``--points 12`` takes so many of each scenario. Points that were
found good are noted in ``.crash/`` and not done again until the code changes. Ends with 1 if anything was
lost.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests import PROJECT
from tests.faults.library import build
from tests.faults.mutants import MUTANTS, mutated

if TYPE_CHECKING:
    from tests.faults.scenario import Scenario

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""A process that forks must not have started any."""


def main() -> None:
    """Read the arguments; start again with the library loaded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", help="names of scenarios, in this order")
    parser.add_argument("--points", type=int, help="so many points of each scenario, spread out")
    parser.add_argument("--every", action="store_true", help="all writes of a run of writes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--state", type=Path, help="where good points are noted")
    parser.add_argument("--ways", nargs="*", help="such as kill, eio, strict")
    parser.add_argument(
        "--mutant", choices=MUTANTS, help="a fault of the commit that must be found"
    )
    parser.add_argument("--counts", type=Path, help="a file that counts are added to")
    given = parser.parse_args()
    if "LD_PRELOAD" in os.environ:
        sys.exit(run(given))
    with TemporaryDirectory() as folder:
        environment = {**os.environ, **ONE_THREAD, "LD_PRELOAD": str(build(Path(folder)))}
        command = [sys.executable, "-m", "tests.faults", *sys.argv[1:]]
        sys.exit(subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode)


def run(given: argparse.Namespace) -> int:
    """Try the points of all scenarios."""
    from tests.faults.bringing import SCENARIOS as BRINGING
    from tests.faults.campaign import Campaign
    from tests.faults.changing import SCENARIOS as CHANGING
    from tests.faults.copying import SCENARIOS as COPYING
    from tests.faults.editing_jobs import SCENARIOS as EDITING_JOBS
    from tests.faults.mirroring import SCENARIOS as MIRRORING
    from tests.faults.products import SCENARIOS as PRODUCTS
    from tests.faults.products import start_hub
    from tests.faults.recording import SCENARIOS as RECORDING
    from tests.faults.working import SCENARIOS as WORKING

    every = [
        *RECORDING,
        *CHANGING,
        *COPYING,
        *BRINGING,
        *PRODUCTS,
        *WORKING,
        *EDITING_JOBS,
        *MIRRORING,
    ]
    known = {scenario.name: scenario for scenario in every}
    chosen = [known[name] for name in given.only or known]
    mutants = [given.mutant] if given.mutant is not None else []
    if not given.only and not mutants:
        mutants = list(MUTANTS)
    if given.mutant is not None:
        chosen = []
    problems = 0
    fast = Path("/dev/shm")
    with TemporaryDirectory(dir=fast if os.access(fast, os.W_OK) else None) as scratch:
        wants_hub = any(scenario.name == "download" for scenario in chosen)
        hub = start_hub(Path(scratch) / "hub" / "dataset") if wants_hub else None
        try:
            for scenario in chosen:
                problems += Campaign(scenario, Path(scratch), given).run()
            for mutant in mutants:
                problems += not finds(mutant, known["edit, video"], Path(scratch), given)
        finally:
            if hub is not None:
                os.kill(hub, signal.SIGKILL)
                os.waitpid(hub, 0)
    return int(problems > 0)


def finds(mutant: str, scenario: Scenario, scratch: Path, given: argparse.Namespace) -> bool:
    """Return whether the rig finds a fault of the commit."""
    from tests.faults.campaign import Campaign

    alone = {**vars(given), "mutant": mutant, "state": None, "counts": None}
    campaign = Campaign(mutated(scenario, mutant), scratch, argparse.Namespace(**alone))
    with redirect_stdout(StringIO()):
        campaign.run()
    found = len(campaign.problems)
    print(f"mutant: {mutant}: {f'found {found} times' if found else 'NOT FOUND'}", flush=True)
    return found > 0


if __name__ == "__main__":
    main()
