"""The budget counts what is there: the process measured from outside, over epochs and threads."""

import re
from pathlib import Path

import pytest

from benchmarks.datasets import Shape, write_v30
from benchmarks.loader_datasets import generate
from tests.factory import write_dataset
from tests.memory_of import peak_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/smaps_rollup").exists(), reason="needs the /proc of Linux"
    ),
]

_BUDGET_BYTES = 64_000_000
# Stacks and free heap of up to eight threads, and modules that are imported late.
_SLACK_BYTES = 8_000_000
_PROGRAM = """
import os, sys, warnings
import av, imagecodecs, numpy, pyarrow.parquet
import roboreel as reel
from roboreel.loading import Loader
from roboreel.io.budget import process_budget
from roboreel.io.heap import return_freed_memory
from tests.memory_of import anonymous_bytes
warnings.simplefilter("ignore")
root, tiny, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
for _ in Loader(reel.open_dataset(tiny), 4):  # Imports what is imported late.
    pass
process_budget().clear()
return_freed_memory()
print("ready", flush=True)
sys.stdin.readline()
before = anonymous_bytes(os.getpid())
dataset = reel.open_dataset(root, memory="64MB", decode_threads=threads)
loader = Loader(dataset, 16, shuffle=True, threads=threads, prefetch=threads)
for epoch in range(3):
    for number, batch in enumerate(loader):
        size = sum(value.nbytes for value in batch.values() if hasattr(value, "nbytes"))
        if number == 30:
            break
    batch = value = None
    taken = anonymous_bytes(os.getpid()) - before
    print("epoch", taken, dataset.memory.held_bytes, size, flush=True)
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    write_dataset(root, [12, 12])
    return root


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Numbers of 48 MB in 600 files, and of 115 MB in 800 row groups; two cameras."""
    root = tmp_path_factory.mktemp("measured")
    small = Shape(600, mean_length=100, width=100, cameras=0, episodes_per_data_file=1)
    groups = Shape(800, mean_length=60, width=300, cameras=0, episodes_per_data_file=20)
    return {
        "small files": write_v30(root / "small", small),
        "row groups": write_v30(root / "groups", groups),
        "cameras": generate(root / "cameras", episodes=3, frames=60, size=(240, 320)),
    }


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("kind", ["small files", "row groups", "cameras"])
def test_memory_stays_within_the_budget_is_flat_and_is_what_is_counted(
    kind, threads, datasets, tiny
):
    peak, printed = peak_of(_PROGRAM, str(datasets[kind]), str(tiny), str(threads), seconds=300)
    assert "Traceback" not in printed, printed
    epochs = [tuple(map(int, found)) for found in re.findall(r"epoch (\d+) (\d+) (\d+)", printed)]
    taken, counted, batch_bytes = epochs[-1]
    in_flight = (threads + 2) * batch_bytes
    assert peak < 1.25 * _BUDGET_BYTES + in_flight, (peak, epochs)
    assert taken <= 1.1 * epochs[1][0] + _SLACK_BYTES, epochs
    assert abs(taken - counted) <= 0.25 * taken + _SLACK_BYTES, epochs
