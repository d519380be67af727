"""Memory: one batch while writing, none that is anonymous while reading."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PROJECT

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="needs smaps_rollup"
)

COMMON = r"""
import os, sys, threading
import numpy as np
from roboreel.shards import Image, open_shards, write_shards

def anonymous_bytes():
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024

BATCH, COUNT, SIZE = 200, 4000, 40_000
blob = os.urandom(SIZE * 4)
path = sys.argv[1]
"""

WRITE = (
    COMMON
    + r"""
base = peak = None
def examples():
    global base, peak
    for n in range(COUNT):
        if n == BATCH // 2:
            base = peak = anonymous_bytes() - BATCH // 2 * SIZE
        if n % 50 == 49 and n > BATCH:
            peak = max(peak, anonymous_bytes())
        yield {"image": blob[n % 1000 : n % 1000 + SIZE], "n": n}
plain = __import__("roboreel.shards.write", fromlist=["ShardFile"]).ShardFile
write = plain.write_batch
def write_batch(file, batch):
    global peak
    peak = max(peak, anonymous_bytes())
    write(file, batch)
plain.write_batch = write_batch
write_shards(examples(), {"image": Image(), "n": "int64"}, path, batch_size=BATCH, shard_size="20MB")
print((peak - base) / (BATCH * SIZE))
"""
)

DERIVE = (
    COMMON
    + r"""
store = open_shards(path)
base = peak = 0
def watch(done, total):
    global base, peak
    if base == 0:
        base = peak = anonymous_bytes()
    if done % 100 == 0 or done == total:
        peak = max(peak, anonymous_bytes())
for derive in (
    lambda: store.map(dict, path + "-map", batch_size=BATCH, shard_size="20MB", progress=watch),
    lambda: store.flatten(path + "-flat", batch_size=BATCH, shard_size="20MB", progress=watch),
):
    assert len(derive()) == COUNT
print((peak - base) / (BATCH * SIZE))
"""
)

READ = (
    COMMON
    + r"""
store = open_shards(path)
store[0]
base = anonymous_bytes()
for row in np.random.default_rng(0).integers(0, len(store), 5000):
    store[row]
for batch in store.iter_batches(16, shuffle=True, seed=0):
    pass
del batch
print((anonymous_bytes() - base) / 1e6)
"""
)


def run(script: str, path: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.long
def test_writing_and_deriving_hold_few_batches_and_reading_none(tmp_path):
    # The examples of a batch, their copy in Arrow, and what its buffers reserve while they grow:
    # 2.5 batches were measured. All examples are 20.
    assert run(WRITE, tmp_path / "s") < 5
    assert run(DERIVE, tmp_path / "s") < 5
    assert run(READ, tmp_path / "s") < 10  # of 160 MB
