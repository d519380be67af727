"""The loader under those that drive training loops: Lightning, accelerate, torchrun."""

import json
import os
import subprocess
import sys
import textwrap
import warnings
from typing import Any

import pytest

import roboreel as reel
from tests.factory import write_dataset

torch = pytest.importorskip("torch")

from roboreel.torch import Loader, SampleDataset

pytestmark = pytest.mark.slow

LENGTHS = [3, 1, 7, 2, 5]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("hosts") / "dataset"
    write_dataset(root, LENGTHS)
    return reel.open_dataset(root)


def make_loader(dataset) -> Loader:
    return Loader(SampleDataset(dataset, features=["index"]), 4, shuffle="uniform", seed=1)


def rows_of(batches: Any) -> list[list[int]]:
    return [batch["index"].tolist() for batch in batches]


@pytest.mark.filterwarnings("ignore")
def test_lightning_trains_on_every_epoch_and_resumes_in_the_middle_of_one(dataset, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning = pytest.importorskip("lightning.pytorch")
    module: Any = lightning.LightningModule

    class Policy(module):  # type: ignore[misc]  # it may not be installed
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen = []

        def training_step(self, batch, _):
            self.seen.append(batch["index"].tolist())
            return self.layer(batch["index"].float()[:, None]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    def train(steps: int, checkpoint: str | None = None):
        policy = Policy()
        trainer = lightning.Trainer(
            accelerator="cpu",
            max_steps=steps,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
        )
        trainer.fit(policy, make_loader(dataset), ckpt_path=checkpoint)
        trainer.save_checkpoint(tmp_path / "stopped.ckpt")
        return policy.seen

    expected = make_loader(dataset)
    whole = [rows for _ in range(3) for rows in rows_of(expected)]
    assert train(12) == whole
    assert train(6) + train(12, str(tmp_path / "stopped.ckpt")) == whole


SCRIPT = """
    import json, sys, warnings
    warnings.simplefilter("ignore")
    import torch.distributed as distributed
    import roboreel as reel
    from roboreel.torch import Loader, SampleDataset

    root, out, host = sys.argv[1:]
    samples = SampleDataset(reel.open_dataset(root), features=["index"])
    loader = Loader(samples, 3, shuffle="uniform", seed=1)  # before there is a process group
    if host == "accelerate":
        from accelerate import Accelerator
        loader = Accelerator(cpu=True).prepare(loader)
    else:
        distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    epochs = [[batch["index"].tolist() for batch in loader] for _ in range(2)]
    with open(f"{out}/{rank}.json", "w") as file:
        json.dump(epochs, file)
    distributed.destroy_process_group()
"""


@pytest.mark.parametrize("host", ["torch", "accelerate"])
def test_each_rank_has_its_own_share(dataset, tmp_path, host):
    pytest.importorskip(host)
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    local = ["--standalone", "--local-addr=127.0.0.1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(
        [*launch, *local, str(script), str(dataset.path), str(tmp_path), host],
        env=environment,
        check=True,
        capture_output=True,
    )
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for epoch in range(2):
        rows = [row for rank in ranks for batch in rank[epoch] for row in batch]
        assert sorted(rows) == list(range(18))
    assert ranks[0][0] != ranks[0][1]
