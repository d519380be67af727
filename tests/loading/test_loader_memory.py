"""What loading holds in memory stays what it is."""

import os
import sys

import pytest

import roboreel as reel
from benchmarks.memory import anonymous_bytes
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.io.budget import process_budget

torch = pytest.importorskip("torch")

from roboreel.torch import Loader, SampleDataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is Linux's to tell"),
]

MEGABYTE = 1_000_000
BATCH = 16


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    root = make_demo_dataset(
        tmp_path_factory.mktemp("memory") / "arm", DemoSpec(episodes=6, frames=60, size=(120, 160))
    )
    process_budget().limit_bytes = 64_000_000
    dataset = reel.open_dataset(root)
    windows = {camera: reel.Window(frames=(-1, 0)) for camera in dataset.cameras}
    yield SampleDataset(dataset, windows)
    process_budget().limit_bytes = 512 * 1024**2


@pytest.mark.parametrize("threads", [1, 4])
def test_memory_is_flat_over_three_epochs(samples, threads):
    loader = Loader(samples, BATCH, shuffle="uniform", threads=threads)
    held = []
    for _ in range(4):
        for batch in loader:
            del batch
        held.append(anonymous_bytes(os.getpid()) or 0)
    # The first epoch fills the budget; the later ones find it full.
    one_batch = BATCH * 4 * 3 * 120 * 160
    assert max(held[1:]) - held[0] < 3 * one_batch


def worker_bytes(sample):
    return {"held": process_budget().held_bytes, "limit": process_budget().limit_bytes}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes:UserWarning")
def test_every_worker_of_a_dataloader_keeps_to_one_budget(samples):
    watched = SampleDataset(samples.dataset, samples.spec, transform=worker_bytes)
    loader = torch.utils.data.DataLoader(watched, batch_size=BATCH, num_workers=4, shuffle=True)
    for batch in loader:
        assert (batch["held"] <= batch["limit"]).all()
        assert batch["limit"].unique().tolist() == [64 * MEGABYTE]


def most_held(dataset):
    """Return the most that four workers and this process hold in all."""
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, num_workers=4, shuffle=True)
    batches = iter(loader)
    processes = [os.getpid(), *(worker.pid for worker in batches._workers)]
    held = []
    for _ in range(len(loader) - 8):  # While all workers live.
        next(batches)
        held.append(sum(anonymous_bytes(process) or 0 for process in processes))
    return max(held)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes:UserWarning")
def test_four_workers_hold_less_than_four_budgets_in_all(samples):
    # Beyond what Python and torch take in workers that load nothing.
    idle = torch.utils.data.TensorDataset(torch.zeros(len(samples)))
    assert most_held(samples) - most_held(idle) < 4 * process_budget().limit_bytes
