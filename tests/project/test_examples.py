"""Every script of examples/ runs to its end, and so does the code of the guide pages."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from tests import PROJECT

SCRIPTS = sorted((PROJECT / "examples").glob("*.py"))
# Small sizes; a script that is not listed runs as it is.
ARGUMENTS = {
    "demo": ["demo", "--episodes", "2", "--frames", "20"],
    "export_to_rerun": ["arm", "recordings"],
    "import_recordings": ["recordings"],
    "record": ["my_arm"],
    "read_batches": ["--batches", "2", "--batch-size", "4"],
    "read_remote": ["arm"],
    "train_bc": ["--episodes", "2", "--steps", "20", "--batch-size", "8"],
    "shards": ["shapes", "--examples", "100"],
}
# What a script needs beside the core, by the module that it imports.
EXTRAS = {
    "roboreel.torch": "torch",
    "roboreel.lerobot": "torch",
    "roboreel.huggingface": "datasets",
    "roboreel.rerun": "rerun",
}


def run(script, arguments, folder):
    paths = [str(PROJECT / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_example_runs(script, tmp_path):
    text = script.read_text(encoding="utf-8")
    for module, package in EXTRAS.items():
        if module in text and find_spec(package) is None:
            pytest.skip(f"{script.name} needs {package}")
    arguments = ARGUMENTS.get(script.stem, [])
    if "arm" in arguments:
        make_demo_dataset(tmp_path / "arm", DemoSpec(2, 20, size=(48, 64), codec="h264"))
    done = run(script, arguments, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_small_sizes_are_given_to_scripts_that_exist():
    assert set(ARGUMENTS) <= {script.stem for script in SCRIPTS}


def test_a_second_run_of_the_shards_finds_the_store_of_the_first(tmp_path):
    arguments = ["shapes", "--examples", "40"]
    outputs = []
    for _ in range(2):
        done = run(PROJECT / "examples" / "shards.py", arguments, tmp_path)
        files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.arrow")}
        outputs.append((done.stdout, files))
    assert outputs[0][1]
    assert outputs[0] == outputs[1]


def test_rewritten_pictures_are_read_in_one_piece_and_nothing_else_has_changed(tmp_path):
    root = make_demo_dataset(
        tmp_path / "arm", DemoSpec(2, 20, cameras=1, size=(48, 64), store="image")
    )
    for path in root.glob("data/*/*.parquet"):
        pq.write_table(pq.read_table(path), path, compression="gzip", row_group_size=15)
    before = reel.open_dataset(root)
    old = before.read(range(len(before)))
    assert "page 100%" in before.memory.paths["observation.images.front"]
    run(PROJECT / "examples" / "rewrite_pictures.py", [str(root)], tmp_path)
    after = reel.open_dataset(root)
    new = after.read(range(len(after)))
    assert "extent 100%" in after.memory.paths["observation.images.front"]
    assert old.keys() == new.keys()
    for name in old:
        np.testing.assert_array_equal(old[name], new[name])
