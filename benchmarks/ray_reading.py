"""A dataset read by Ray Data, by either reader, and the CPU time that Ray's workers took for it.

``python -m benchmarks.ray_reading roboreel|lerobot DATASET CAMERAS`` prints JSON. Ray listens on all interfaces, so
`in_own_network` runs it in a network namespace.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["can_run", "in_own_network"]

_INSIDE = 'ip link set lo up && exec "$0" -m benchmarks.ray_reading "$@"'
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def can_run(python: Path | str) -> bool:
    """Whether an interpreter has Ray, and this machine gives a process a network of its own."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    tried = [
        ["unshare", "-n", "ip", "link", "set", "lo", "up"],
        [str(python), "-c", "import ray.data"],
    ]
    return all(
        subprocess.run(one, capture_output=True, check=False).returncode == 0 for one in tried
    )


def in_own_network(reader: str, root: str, cameras: int) -> dict[str, float]:
    """Read a dataset in a process with a network of its own, and return what that took."""
    given = [sys.executable, reader, root, str(cameras)]
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", _INSIDE, *given], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, float] = json.loads(lines[-1])
    return found


def _declare_missing_operator() -> None:
    from benchmarks.peers.lerobot import declare_missing_operator

    declare_missing_operator()


def _rows(reader: str, root: str) -> Any:  # noqa: ANN401  # a dataset of Ray
    import ray.data

    if reader == "lerobot":
        return ray.data.read_lerobot(root)
    import roboreel.ray
    from roboreel import open_dataset

    return roboreel.ray.read(open_dataset(root))


def _read(reader: str, root: str) -> int:
    return sum(len(batch["index"]) for batch in _rows(reader, root).iter_batches(batch_size=64))


def _workers_cpu_s() -> float:
    """Return the CPU time of Ray's workers that descend from this process."""
    parents, times, names = {}, {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            names[folder.name] = (folder / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        parents[folder.name], times[folder.name] = fields[1], int(fields[11]) + int(fields[12])
    mine = {str(os.getpid())}
    for _ in range(6):
        mine |= {number for number, parent in parents.items() if parent in mine}
    return sum(times[n] for n in mine if n in names and names[n].startswith(b"ray::")) / _TICKS


def main() -> None:
    """Read once to start everything, then again, measured."""
    import ray

    reader, root, cameras = sys.argv[1:]
    # Workers at the priority of the benchmark, or other work on the machine starves them.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # so Ray spells it
    hook = {"worker_process_setup_hook": _declare_missing_operator}
    if reader == "lerobot":
        _declare_missing_operator()
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=2 * 1024**3,
        runtime_env=hook if reader == "lerobot" else None,
    )
    _read(reader, root)
    before, start_s = _workers_cpu_s(), time.monotonic()
    frames = _read(reader, root)
    taken = {"cpu_s": _workers_cpu_s() - before, "wall_s": time.monotonic() - start_s}
    print(json.dumps({"images": frames * int(cameras), **taken}))


if __name__ == "__main__":
    main()
