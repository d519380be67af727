"""LeRobot's own tests and training, with the drop-in in the place of its dataset."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from benchmarks.peers import peers_python
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from tests import PROJECT

pytestmark = pytest.mark.interop

CHECKOUT = "ROBOREEL_LEROBOT_CHECKOUT"
"""Names a clone of LeRobot's repository, with its tags."""
both_versions = pytest.mark.parametrize("version", ["0.4.4", "0.6.1"])


def beside(version: str, arguments: list[str], paths: list[Path], tmp_path: Path) -> str:
    """Run Python in the environment of a LeRobot version, in the first folder; return its output."""
    python = peers_python(version)
    if python is None:
        pytest.skip(f"there is no environment with LeRobot {version}")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment |= {"HF_HOME": str(tmp_path / "hf"), "HF_LEROBOT_HOME": str(tmp_path / "lerobot")}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [str(python), *arguments],
        env=environment, cwd=paths[0], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@both_versions
def test_lerobots_own_tests_pass_or_are_listed(version, tmp_path):
    checkout = os.environ.get(CHECKOUT)
    if not checkout:
        pytest.skip(f"{CHECKOUT} names no clone of LeRobot's repository")
    command = ["git", "-C", checkout, "archive", f"v{version}", "tests", "pyproject.toml"]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path / "theirs", filter="data")
    said = beside(
        version,
        ["-m", "pytest", "-p", "lerobot_dropin", "-q", "--tb=short", "tests/datasets"],
        [tmp_path / "theirs", PROJECT / "tests/interop/dropin", PROJECT / "src", PROJECT],
        tmp_path,
    )
    counts = said.rpartition("tests that open a dataset: ")[2].partition("\n")[0]
    print(f"LeRobot {version}: {counts}", file=sys.stderr)
    passed, _, _, _, failed, _ = counts.split()
    assert int(passed) > 40
    assert int(failed) == 0


@both_versions
@pytest.mark.parametrize("policy", ["act", "diffusion"])
def test_policies_of_lerobot_have_the_same_losses_on_both(version, policy, tmp_path):
    spec = DemoSpec(episodes=3, frames=30, size=(96, 96), cameras=1)
    root = str(make_demo_dataset(tmp_path / "arm", spec))
    theirs, ours = (
        json.loads(
            beside(
                version,
                ["-W", "ignore", "-m", "tests.interop.lerobot_training", whose, policy, root],
                [PROJECT, PROJECT / "src"],
                tmp_path,
            ).splitlines()[-1]
        )
        for whose in ("lerobot", "roboreel")
    )
    assert len(theirs) == 20
    assert theirs[-1] != theirs[0]
    assert ours == theirs
