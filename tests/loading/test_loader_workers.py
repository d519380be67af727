"""Worker processes give what threads give, and leave nothing behind."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import SampleError, WorkerError
from roboreel.loading import Loader, Samples
from roboreel.loading.ahead import ReadAhead, choose_workers
from roboreel.loading.workers import segments
from roboreel.loading.workers.blocks import SharedBlocks
from roboreel.loading.workers.transfer import Receiver, Sender
from roboreel.schema import Feature
from roboreel.shards import Array, open_shards, write_shards
from tests.factory import NUMBERS, write_dataset
from tests.loading.worker_transforms import (
    RefuseRows,
    end_at_row_nine,
    jitter,
    jitter_tensors,
    read_slowly,
    return_a_function,
)

LENGTHS = [3, 1, 7, 2, 5]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and unnamed files")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("workers") / "dataset"
    features = {**NUMBERS, "camera": Feature("image", (8, 12, 3))}
    write_dataset(root, LENGTHS, features=features)
    return reel.open_dataset(root)


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for first, second in zip(one, other, strict=True):
            assert_same(first, second)
    elif hasattr(one, "dtype"):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert bool((one == other).all())
        assert not isinstance(other, np.ndarray) or other.flags.writeable
    else:
        assert one == other


def test_batches_are_those_of_threads_also_after_resuming(dataset):
    samples = Samples(dataset, {"action": reel.Window(frames=range(4))})

    def loader(**options):
        return Loader(samples, 4, shuffle=True, seed=5, transform=jitter, **options)

    threads = loader()
    expected = [list(threads), list(threads)]
    first = loader(workers=2)
    for one, other in zip(expected[0], first, strict=True):
        assert_same(one, other)
    batches = iter(first)
    for one in expected[1][:2]:
        assert_same(one, next(batches))
    batches.close()
    resumed = loader(workers=1)
    resumed.load_state_dict(first.state_dict())
    for one, other in zip(expected[1][2:], resumed, strict=True):
        assert_same(one, other)
    assert resumed.state_dict() == threads.state_dict()
    assert multiprocessing.active_children() == []


def test_mixtures_stores_and_replay_buffers_are_read_by_workers(dataset, tmp_path):
    arrays = [np.full(2, n, np.float32) for n in range(6)]
    features = {"action": Array((2,), "float32")}
    write_shards(({"action": array} for array in arrays), features, tmp_path / "store")
    ring = {"action": Feature("float32", (2,))}
    with reel.ReplayBuffer(tmp_path / "ring", capacity=20, features=ring, fps=10) as buffer:
        buffer.add_episode({"action": np.stack(arrays)})
        mixture = reel.Mixture(
            {dataset: 0.4, open_shards(tmp_path / "store"): 0.3, buffer: 0.3},
            features={"action": "action"},
        )
        assert_workers_agree(mixture)


def assert_workers_agree(mixture):
    samples = Samples(mixture, features=["action"])
    expected = list(Loader(samples, 5, shuffle=True))
    for one, other in zip(expected, Loader(samples, 5, shuffle=True, workers=1), strict=True):
        assert_same(one, other)


def test_samples_that_fail_in_a_worker_are_counted_here(dataset):
    samples = Samples(dataset, features=["index"], transform=RefuseRows(6, 9))
    loader = Loader(samples, 4, on_error="skip", drop_last=False, workers=1)
    with pytest.warns(RuntimeWarning, match="left out. Sample") as warned:
        rows = [row for batch in loader for row in batch["index"].tolist()]
    assert rows == [*range(6), 7, 8, *range(10, 18)]
    assert list(loader.skipped) == [6, 9]
    assert len(warned) == 2


def test_an_error_of_a_worker_comes_in_its_place_with_its_traceback(dataset):
    samples = Samples(dataset, features=["index"], transform=RefuseRows(9))
    batches = iter(Loader(samples, 4, workers=1))
    assert [next(batches)["index"].tolist()[0] for _ in range(2)] == [0, 4]
    with pytest.raises(SampleError, match=r"^Sample 9: .*a bad sample") as caught:
        next(batches)
    assert "worker_transforms.py" in str(caught.value.__cause__)
    assert multiprocessing.active_children() == []


def test_what_cannot_be_sent_is_said_and_the_worker_goes_on(dataset):
    loader = Loader(Samples(dataset, features=["index"]), 9, transform=return_a_function, workers=1)
    with pytest.raises(SampleError, match="A batch cannot be sent from its worker"):
        next(iter(loader))


@POSIX
def test_a_killed_worker_is_an_error_and_no_hang(dataset):
    samples = Samples(dataset, features=["index"], transform=end_at_row_nine)
    batches = iter(Loader(samples, 4, workers=2))
    assert [int(next(batches)["index"][0]) for _ in range(2)] == [0, 4]
    with pytest.raises(WorkerError, match=r"ended by SIGKILL.*Samples: 8, 9, 10, 11"):
        next(batches)
    assert multiprocessing.active_children() == []


def test_an_abandoned_iterator_leaves_no_process_and_no_memory(dataset):
    gc.collect()
    before = shared_memory()
    batches = iter(Loader(dataset, 4, transform=jitter, workers=1))
    kept = next(batches)
    copy = {name: value.copy() for name, value in kept.items() if name == "noise"}
    del batches
    gc.collect()
    assert multiprocessing.active_children() == []
    assert_same(copy["noise"], kept["noise"])  # What the caller holds outlives the worker.
    del kept
    gc.collect()
    assert shared_memory() <= before


@POSIX
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_child_forked_inside_the_loop_never_waits_nor_disturbs_the_parent(dataset, workers):
    samples = Samples(dataset, features=["index"])
    batches = iter(Loader(samples, 3, transform=read_slowly, workers=workers))
    taken = [next(batches)["index"].tolist()]
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(go_on_in_child(batches, workers))
    taken += [batch["index"].tolist() for batch in batches]
    assert taken == np.arange(18).reshape(6, 3).tolist()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def go_on_in_child(batches, workers):
    try:
        rows = [row for batch in batches for row in batch["index"].tolist()]
    except WorkerError as error:
        return 0 if workers and "forked inside a loop" in str(error) else 2
    return int(rows != [*range(3, 18)])


@POSIX
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_begins_a_loop_of_its_own(dataset):
    loader = Loader(Samples(dataset, features=["index"]), 9, workers=1)
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        loader.set_epoch(0)
        os._exit(int(next(iter(loader))["index"].tolist() != [*range(9)]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(batches)["index"].tolist() == [*range(9, 18)]


def shared_memory():
    """Return the shared memory that this process maps; it has no name outside of it."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    return {line for line in lines if "memfd:roboreel" in line}


@POSIX
def test_an_interrupt_ends_the_workers_too(dataset):
    code = f"""
import sys, roboreel
sys.path.insert(0, {str(Path.cwd())!r})
from roboreel.loading import Loader, Samples
from tests.loading.worker_transforms import read_slowly
if __name__ == "__main__":
    samples = Samples(roboreel.open_dataset({str(dataset.path)!r}), features=["index"])
    while True:
        for batch in Loader(samples, 1, transform=read_slowly, workers=1):
            print("batch", flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "batch\n"
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == -signal.SIGINT
    assert errors.count("KeyboardInterrupt") == 1  # That of the loop, and none of a worker.
    deadline = time.monotonic() + 60
    while is_any_left(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_any_left(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_functions_that_cannot_be_pickled_are_refused_before_a_process_starts(dataset):
    loader = Loader(Samples(dataset), 4, transform=lambda batch: batch, workers=1)
    with pytest.raises(WorkerError, match=r"at the top of a module.*or use workers=0"):
        next(iter(loader))


def test_tensors_of_workers_are_those_of_threads(dataset):
    pytest.importorskip("torch")
    from roboreel.torch import Loader, SampleDataset

    samples = SampleDataset(dataset)
    expected = list(Loader(samples, 9, shuffle=True, transform=jitter_tensors))
    workers = Loader(samples, 9, shuffle=True, transform=jitter_tensors, workers=1)
    for one, other in zip(expected, workers, strict=True):
        assert_same(one, other)


class Line:
    """A sender and a receiver in one process."""

    def __init__(self):
        self.near, self.far = multiprocessing.Pipe()
        self.blocks = SharedBlocks()
        self.sender = Sender(self.near, self.blocks, {})
        self.returned: deque[int] = deque()
        self.shortages: list[str] = []
        self.receiver = Receiver(self.far, self.returned, self.shortages.append, most_blocks=8)

    def pass_on(self, value):
        self.sender.release([self.returned.popleft() for _ in range(len(self.returned))])
        self.sender.send(value)
        return self.receiver.receive()

    def read(self, number, size=200_000):
        """Return an array that was read into shared memory, as images are."""
        array = self.blocks.make(size)
        array[...] = number
        return array


@pytest.fixture
def line():
    line = Line()
    yield line
    line.near.close()
    line.far.close()


def test_what_was_read_into_shared_memory_is_not_copied(line):
    array = line.read(7)
    received = line.pass_on({"image": array})["image"]
    array[0] = 99
    assert received[0] == 99


def test_memory_is_used_again_when_the_batch_is_gone_and_not_before(line):
    kept = [line.pass_on(line.read(number)) for number in range(5)]
    assert [array[0] for array in kept] == [0, 1, 2, 3, 4]
    assert len(line.receiver._blocks) == 5
    view = kept[3][10:20]
    del kept
    received = [line.pass_on(line.read(number)) for number in range(10, 14)]
    assert [array[0] for array in received] == [10, 11, 12, 13]
    assert view.tolist() == [3] * 10
    assert len(line.receiver._blocks) <= 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_memory_that_a_forked_child_sees_is_not_used_again(line):
    kept = line.pass_on(line.read(3))
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        os._exit(int((kept != 3).any()))
    del kept
    for number in range(10, 14):
        line.pass_on(line.read(number))
    os.write(go, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(ready)
    os.close(go)


@pytest.mark.long
def test_forks_again_and_again_lose_little_memory(line):
    for number in range(40):
        kept = line.pass_on(line.read(number))
        child = os.fork()
        if child == 0:
            os._exit(int((kept != number).any()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(line.receiver._blocks) < 8


def test_of_very_many_batches_that_are_kept_some_are_copied(line):
    kept = [line.pass_on(line.read(number)) for number in range(20)]
    assert [array[0] for array in kept] == list(range(20))
    assert all(array.flags.writeable for array in kept)
    assert len(line.receiver._blocks) < 12


def test_blocks_of_a_size_that_is_not_needed_any_more_are_given_up(line):
    for size in (int(20_000 * 2.2**power) for power in range(10)):
        line.pass_on(line.read(1, size))
    assert len(line.receiver._blocks) < 8


def test_an_array_that_is_sent_twice_stays_until_both_are_gone(line):
    array = line.read(5)
    first, second = line.pass_on(array), line.pass_on(array)
    del array, first
    other = line.pass_on(line.read(6))
    assert (second[0], other[0]) == (5, 6)


def test_a_full_file_system_is_noticed_before_and_batches_are_copied(line, monkeypatch):
    if sys.platform == "win32":
        pytest.skip("its shared memory lies in no file system")
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(segments, "_free_bytes", lambda folder: 64 * 2**20)
    received = [line.pass_on(line.read(number)) for number in range(2)]
    assert not line.shortages
    monkeypatch.setattr(segments, "_free_bytes", lambda folder: 8 * 2**20)
    received += [line.pass_on({"images": line.read(2), "texts": ["a"]})["images"]]
    assert [array[0] for array in received] == [0, 1, 2]
    assert received[2].flags.writeable
    assert "200,000 bytes of shared memory, and 8,388,608 bytes are free" in line.shortages[0]


def test_a_shortage_is_warned_of_once(recwarn):
    from roboreel.loading.workers.pool import WorkerPool

    pool = WorkerPool.__new__(WorkerPool)
    pool._warned = False
    for _ in range(2):
        pool._warn("1 byte is free in '/dev/shm'")
    (warned,) = recwarn
    assert "free in '/dev/shm'. Batches are copied" in str(warned.message)
    assert "--shm-size" in str(warned.message)


def test_threads_and_workers_contradict(dataset):
    with pytest.raises(ValueError, match="Give one of the two"):
        Loader(dataset, 4, threads=2, workers=2)
    with pytest.raises(ValueError, match="Give one of the two"):
        Loader(dataset, 4, threads=2, workers="auto")
    with pytest.raises(ValueError, match="give a number or 'auto'"):
        Loader(dataset, 4, workers="many")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="workers"):
        Loader(dataset, 4, workers=-1)


def test_the_number_of_workers_follows_from_cores_and_cost(monkeypatch):
    monkeypatch.setattr("roboreel.loading.ahead.usable_cores", lambda: 64)
    assert choose_workers("auto", is_costly=True) == 16
    assert choose_workers("auto", is_costly=False) == 0
    assert choose_workers(3, is_costly=False) == 3
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert choose_workers("auto", is_costly=True) == 2
    monkeypatch.setattr("roboreel.loading.ahead.usable_cores", lambda: 4)
    assert choose_workers("auto", is_costly=True) == 0
    assert (ReadAhead().depth, ReadAhead(workers=8).depth) == (4, 16)
