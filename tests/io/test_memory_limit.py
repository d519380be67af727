"""The budget holds for what files unpack to, measured from outside of the process."""

from pathlib import Path

import pytest

from benchmarks.datasets import Shape, write_v30
from roboreel.parquet.reader import ParquetReader
from tests.bombs import BOMBS
from tests.memory_of import peak_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="needs the /proc of Linux"
)

_BUDGET_BYTES = 64_000_000
_SLOW = ("constants",)
# A batch of windows that a thread holds: its values, rows and masks.
_BATCH_BYTES = 2_000_000
_PRINTED = {
    "texts": "read note",
    "constants": "read observation.state",
    "pictures": "refused camera A row group",
    "shapes": "refused observation.state 'observation.state' has the wrong shape",
    "tasks": "refused The values of 'task' take more than",
    # Two copies of the page, and a row: no part of it is small enough to be read alone.
    "packed": "refused observation.state The values of 'observation.state' may take 15",
    "lists": "read note",
}
_PROGRAM = """
import sys
import av, imagecodecs, numpy, pyarrow.parquet
import roboreel as reel
import roboreel.dataset
from roboreel.errors import DatasetError
print("ready")
sys.stdin.readline()
try:
    dataset = reel.open_dataset(sys.argv[1], memory="64MB")
except DatasetError as error:
    print("refused", error)
    sys.exit()
last = len(dataset) - 1
for name in dataset.features:
    try:
        dataset.read([0, last // 2, last], [name])
        print("read", name)
    except DatasetError as error:
        print("refused", name, error)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in _SLOW else n for n in BOMBS]
)
def test_a_small_file_cannot_take_much_memory(name, tmp_path):
    BOMBS[name](tmp_path)
    peak, printed = peak_of(_PROGRAM, str(tmp_path), seconds=300)
    assert _PRINTED[name] in printed, printed
    assert "Traceback" not in printed, printed
    assert peak < 1.25 * _BUDGET_BYTES, printed


_CHECK = """
import sys
import av, imagecodecs, numpy, pyarrow.parquet
from roboreel.check import check_dataset
from roboreel.io.budget import process_budget
process_budget().limit_bytes = 64_000_000
print("ready")
sys.stdin.readline()
print([found.message for found in check_dataset(sys.argv[1])])
"""


def test_a_check_keeps_to_the_budget_and_says_what_it_could_not_read(tmp_path):
    BOMBS["packed"](tmp_path)
    peak, printed = peak_of(_CHECK, str(tmp_path), seconds=300)
    assert "The values of 'observation.state' may take 15" in printed, printed
    assert peak < 1.25 * _BUDGET_BYTES, printed


def test_the_packed_values_lie_in_one_page_that_is_larger_than_the_budget(tmp_path):
    BOMBS["packed"](tmp_path)
    (path,) = tmp_path.glob("data/*/*.parquet")
    bound = ParquetReader(path).bound([0], ["observation.state"])
    assert bound.pages > 2 * _BUDGET_BYTES
    assert bound.one < 4096
    assert path.stat().st_size < 1_000_000


def test_the_measurement_sees_memory_that_is_taken():
    taken = "print('ready')\ninput()\nheld = bytearray(50_000_000)\nimport time; time.sleep(2)"
    peak, _ = peak_of(taken, seconds=60)
    assert 45_000_000 < peak < 60_000_000


_WINDOWS = """
import sys, warnings
from concurrent.futures import ThreadPoolExecutor
import av, imagecodecs, numpy as np, pyarrow.parquet
import roboreel as reel
import roboreel.dataset.reader
warnings.simplefilter("ignore")
print("ready")
sys.stdin.readline()
dataset = reel.open_dataset(sys.argv[1], memory="64MB")
rng = np.random.default_rng(0)

def read(rows):
    dataset.read(rows, windows={"observation.state": range(20), "action": range(20)})

with ThreadPoolExecutor(int(sys.argv[2])) as pool:
    for epoch in range(3):
        list(pool.map(read, rng.integers(0, len(dataset), (20, 32))))
print("counted", dataset.memory.held_bytes)
"""


@pytest.fixture(scope="module")
def many_row_groups(tmp_path_factory):
    """40 files of 20 row groups each: footers that take 9 MB, and 115 MB of numbers."""
    root = tmp_path_factory.mktemp("many") / "dataset"
    shape = Shape(800, mean_length=60, width=300, cameras=0, episodes_per_data_file=20)
    return write_v30(root, shape)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 8])
def test_numbers_beyond_the_budget_stay_within_it(threads, many_row_groups):
    peak, printed = peak_of(_WINDOWS, str(many_row_groups), str(threads), seconds=300)
    assert "Traceback" not in printed, printed
    assert peak < 2 * _BUDGET_BYTES + threads * _BATCH_BYTES, (peak, printed)
