"""Jobs and samples on a Ray cluster of two nodes, in a network of its own: Ray listens everywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ["same_bytes", "reads_samples", "writes_datasets", "failing_task", "edits_in_place"]
SLOW = [
    "same_edits",
    "same_imports",
    "failed_write_leaves_nothing",
    "full_disk",
    "same_task_twice",
    "straggler",
    "killed_node",
    "killed_driver",
    "trains",
]


def _has_own_network() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    tried = subprocess.run(
        ["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True, check=False
    )
    return tried.returncode == 0


needs_ray = pytest.mark.skipif(
    find_spec("ray") is None or find_spec("torch") is None or not _has_own_network(),
    reason="needs Ray, torch, and the right to make a network namespace",
)


def carry_out(folder: Path, names: list[str]) -> dict[str, str]:
    """Run cases on one cluster, and return why each failed, if it did."""
    inside = 'ip link set lo up && exec "$0" -m tests.ray.ray_cases "$@"'
    command = ["unshare", "-n", "sh", "-c", inside, sys.executable, str(folder), *names]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path[1:], str(PROJECT)])}
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    results = folder / "results.json"
    assert results.exists(), done.stdout[-2000:] + done.stderr[-4000:]
    read: dict[str, str] = json.loads(results.read_text())
    return read


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return carry_out(tmp_path_factory.mktemp("ray"), QUICK)


@needs_ray
@pytest.mark.parametrize("name", QUICK)
def test_on_a_cluster_of_two_nodes(quick, name):
    assert quick[name] == ""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    return carry_out(tmp_path_factory.mktemp("ray"), SLOW)


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_on_a_cluster_that_loses_parts(slow, name):
    assert slow[name] == ""


def test_without_ray_the_error_says_how_to_install_it():
    code = "import sys; sys.modules['ray'] = None; import roboreel.ray"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'roboreel[ray]'" in done.stderr
