"""Modules of the tests, run where LeRobot is installed."""

import os
import subprocess

import pytest

from benchmarks.peers import peers_python
from tests import PROJECT


def run_lerobot(lerobot, folder, *words):
    """Run a module of the tests in the environment of a LeRobot version."""
    python = peers_python(lerobot)
    if python is None:
        pytest.skip(f"there is no environment of LeRobot {lerobot}: run `make interop`")
    environment = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [str(python), "-m", *map(str, words)],
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
