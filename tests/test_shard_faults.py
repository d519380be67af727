"""A writer that dies at any step leaves the old store or the new one, and no lasting litter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Runs in a process of its own, without threads, so that forking it hundreds of times is safe.
# Each child dies, as if by SIGKILL, at its n-th step: an open, write, sync, rename or removal.
SCRIPT = r"""
import os, sys
from pathlib import Path
from roboreel.shards import open_shards, validate_shards, write_shards
from roboreel.shards.write import ShardFile

FEATURES = {"data": "bytes", "n": "int64"}
STEPS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")

def write(path, version):
    rows = ({"data": bytes([version]) * 50, "n": 100 * version + n} for n in range(6))
    write_shards(rows, FEATURES, path, shard_size=600, batch_size=3)

def die_at(step, root):
    count = iter(range(10**9))
    def tick():
        if next(count) == step:
            os._exit(9)
    def on_event(event, arguments):
        if event in STEPS and str(root) in str(arguments[0]):
            tick()
    sys.addaudithook(on_event)
    plain_write = ShardFile.write
    def torn_write(file, data):
        plain_write(file, bytes(data)[: len(data) // 2])
        file._file.flush()
        tick()
        return plain_write(file, bytes(data)[len(data) // 2 :])
    ShardFile.write, os.fsync = torn_write, lambda handle: tick()

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def versions(path):
    return {int(row["n"]) // 100 for row in open_shards(path)}, len(open_shards(path))

def check_old_or_new(path, old, new):
    try:
        found = versions(path)
    except FileNotFoundError:
        assert old is None, "the old store is gone"
        return
    assert found in [({version}, 6) for version in (old, new) if version is not None], found
    assert validate_shards(path, checksums=True) == []

def check_next_write(path):
    write(path, 3)
    assert versions(path) == ({3}, 6)
    names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("gen"))
    assert names == ["current", "write.lock"], names
    assert len(list(path.glob("generation-*"))) == 1

def main(root, old):
    os.fsync = lambda handle: None  # What a dead process has written, the system still has.
    for step in range(10**9):
        path = root / f"{step}"
        if old is not None:
            assert in_child(lambda: write(path, old)) == 0
        died = in_child(lambda: (die_at(step, path), write(path, 2)))
        assert died in (0, 9), died
        assert in_child(lambda: (check_old_or_new(path, old, 2), check_next_write(path))) == 0
        if died == 0:
            print(step)
            return

main(Path(sys.argv[1]), eval(sys.argv[2]))
"""


@pytest.mark.parametrize("old", ["None", "1"])
def test_death_at_any_step_leaves_the_old_store_or_the_new(tmp_path, old):
    source = Path(__file__).parents[1] / "src"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), old],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40
