"""The example trains, repeats itself, and resumes bit by bit."""

import importlib.util
import sys
from typing import Any

import pytest

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from tests import PROJECT

torch = pytest.importorskip("torch")

EXAMPLE = PROJECT / "examples" / "train_bc.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("train_bc", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_bc"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["train_bc"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bc") / "arm"
    spec = DemoSpec(episodes=3, frames=30, cameras=1, size=(64, 64), codec="h264")
    return reel.open_dataset(make_demo_dataset(folder, spec))


def weights_of(run: Any) -> dict[str, Any]:
    return {name: value.clone() for name, value in run.policy.state_dict().items()}


@pytest.mark.long
def test_the_loss_falls(example, dataset):
    losses = example.train(example.prepare(dataset, batch_size=16), 16)
    assert sum(losses[-3:]) < 0.7 * sum(losses[:3])


def test_two_runs_of_one_seed_are_bit_identical(example, dataset):
    first, second = (example.train(example.prepare(dataset, batch_size=8), 6) for _ in range(2))
    assert first == second
    other = example.train(example.prepare(dataset, batch_size=8, seed=1), 6)
    assert other != first


def test_a_run_that_was_stopped_in_mid_epoch_ends_bit_identical(example, dataset, tmp_path):
    whole = example.prepare(dataset, batch_size=8)
    losses = example.train(whole, 12)
    checkpoint = tmp_path / "run.pt"
    stopped = example.prepare(dataset, batch_size=8)
    before = example.train(stopped, 5, checkpoint)
    torch.manual_seed(99)
    resumed = example.prepare(dataset, batch_size=8)
    resumed.load(checkpoint)
    assert before + example.train(resumed, 12) == losses
    theirs = weights_of(whole)
    for name, value in weights_of(resumed).items():
        assert value.equal(theirs[name]), name


def test_a_policy_acts_on_the_scale_of_the_robot(example, dataset):
    run = example.prepare(dataset, batch_size=8)
    batch = next(iter(run.loader))
    assert run.policy.act(batch).shape == (8, example.HORIZON, run.policy.action_size)
