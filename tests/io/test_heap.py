"""Memory that was freed serves the next batch."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from roboreel.io.heap import keep_freed_memory

def faults_of_batches():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        batch = [bytes(40_000) for _ in range(64)]
        del batch
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "kept":
    keep_freed_memory()
faults_of_batches()
print(faults_of_batches())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="Other C libraries decide otherwise.")
def test_the_pages_of_a_batch_are_not_fetched_anew_for_the_next():
    faults = {
        when: int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, when], check=True, capture_output=True, text=True
            ).stdout
        )
        for when in ("kept", "given back")
    }
    # A batch has 625 pages; 50 batches are read.
    assert faults["kept"] < 1000
    assert faults["given back"] > 10 * faults["kept"]
