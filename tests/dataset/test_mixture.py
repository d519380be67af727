"""Several datasets as one."""

import pickle

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import FeatureNotFoundError, RowNotFoundError
from roboreel.loading.sampling import make_order
from roboreel.order.order import Sequential, Weighted
from roboreel.schema import Feature
from tests.factory import TASKS, image_of, write_dataset, write_dataset_v2

ARM = {
    "observation.state": Feature("float32", (3,)),
    "action": Feature("float32", (2,)),
    "front": Feature("image", (8, 12, 3)),
}
HAND = {
    "observation.state": Feature("float64", (5,)),
    "action": Feature("float32", (2,)),
    "top": Feature("image", (8, 12, 3)),
    "touch": Feature("float32", (4,)),
}


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    root = tmp_path_factory.mktemp("arm")
    write_dataset(root, [3, 4], features=ARM, fps=30)
    return reel.open_dataset(root)


@pytest.fixture(scope="module")
def hand(tmp_path_factory):
    root = tmp_path_factory.mktemp("hand")
    write_dataset_v2(root, [5, 2, 6], features=HAND)
    return reel.open_dataset(root)


@pytest.fixture(scope="module")
def mixture(arm, hand):
    names = {
        "observation.state": "observation.state",
        "action": "action",
        "image": ["front", "top"],
        "touch": [None, "touch"],
    }
    return reel.Mixture({arm: 0.7, hand: 0.3}, features=names)


def test_samples_are_numbered_one_dataset_after_the_other(mixture):
    assert len(mixture) == 20
    batch = mixture.read([6, 7, 0, 19])
    assert batch["index"].tolist() == [6, 0, 0, 12]
    assert batch["dataset_index"].tolist() == [0, 1, 0, 1]
    assert batch["task"] == [TASKS[1], TASKS[0], TASKS[0], TASKS[0]]
    with pytest.raises(RowNotFoundError, match="Sample 20 does not exist"):
        mixture.read([20])


def test_shorter_values_are_padded_and_masked(mixture):
    batch = mixture.read([1, 7])
    assert batch["observation.state"].dtype == np.float64
    assert batch["observation.state"].tolist() == [[100, 101, 102, 0, 0], [0, 1, 2, 3, 4]]
    assert batch["observation.state_is_missing"].tolist() == [[False] * 3 + [True] * 2, [False] * 5]
    assert "action_is_missing" not in batch


def test_a_feature_that_a_dataset_lacks_is_zero_and_masked(mixture):
    batch = mixture.read([2, 8])
    assert batch["touch"].tolist() == [[0] * 4, [100, 101, 102, 103]]
    assert batch["touch_is_missing"].tolist() == [[True] * 4, [False] * 4]
    alone = mixture.read([2])
    assert alone["touch"].tolist() == [[0] * 4]
    assert alone["touch_is_missing"].all()


def test_renamed_cameras_are_one(mixture):
    images = mixture.read([5, 9])["image"]
    assert np.array_equal(images[0], image_of(5).transpose(2, 0, 1))
    assert np.array_equal(images[1], image_of(2).transpose(2, 0, 1))


def test_windows_reach_into_each_dataset_at_its_own_rate(tmp_path, hand):
    write_dataset(tmp_path, [9], features=ARM, fps=10)
    slow = reel.open_dataset(tmp_path)
    mixture = reel.Mixture({slow: 1, hand: 1}, features={"action": "action"})
    batch = mixture.read([4, 9], windows={"action": reel.Window(seconds=(-0.1, 0.0))})
    assert batch["action"][..., 0].tolist() == [[300, 400], [0, 0]]
    assert batch["action_is_pad"].tolist() == [[False, False], [True, False]]


def test_without_names_the_common_features_are_taken(arm, hand):
    mixture = reel.Mixture({arm: 1, hand: 1})
    assert set(mixture.features) == (set(arm.features) & set(hand.features))


def test_every_dataset_is_normalized_by_its_own_statistics(arm, hand):
    mixture = reel.Mixture({arm: 1, hand: 1}, normalize={"observation.state": "min_max"})
    batch = mixture.read(range(20), ["observation.state"])["observation.state"]
    assert batch.dtype == np.float32
    assert (batch[:7].min(), batch[:7].max()) == (-1, 1)
    assert (batch[7:].min(), batch[7:].max()) == (-1, 1)
    assert (batch[:7, 3:] == 0).all()


def test_an_epoch_is_drawn_by_weight(mixture):
    order = make_order(mixture, np.diff(mixture.episode_bounds), shuffle="uniform", seed=1)
    assert isinstance(order, Weighted)
    drawn = order.samples(0, np.arange(20))
    assert 12 <= (drawn < 7).sum() <= 16
    short = make_order(mixture, np.diff(mixture.episode_bounds), shuffle=True, seed=1)
    assert np.array_equal(short.samples(0, np.arange(20)), drawn)
    assert isinstance(make_order(mixture, np.diff(mixture.episode_bounds)), Sequential)
    with pytest.raises(ValueError, match="by its own weights"):
        make_order(mixture, np.diff(mixture.episode_bounds), shuffle="local")


def test_a_pickle_is_small_and_reads_the_same(mixture):
    again = pickle.loads(frozen := pickle.dumps(mixture))
    assert len(frozen) < 4000
    for name, values in mixture.read([1, 9]).items():
        assert np.array_equal(again.read([1, 9])[name], values), name


def test_what_does_not_fit_is_said(arm, hand):
    with pytest.raises(FeatureNotFoundError, match=r"no feature 'top' for 'image'"):
        reel.Mixture({arm: 1, hand: 1}, features={"image": "top"})
    with pytest.raises(ValueError, match="one name for each of 2 datasets"):
        reel.Mixture({arm: 1, hand: 1}, features={"image": ["front"]})
    with pytest.raises(ValueError, match="'x' differs in kind between the datasets"):
        reel.Mixture({arm: 1, hand: 1}, features={"x": ["front", "action"]})
    with pytest.raises(ValueError, match="All weights are 0"):
        reel.Mixture({arm: 0, hand: 0})
    with pytest.raises(ValueError, match="A mixture needs datasets"):
        reel.Mixture({})
    with pytest.raises(FeatureNotFoundError, match="no feature 'front' in this mixture"):
        reel.Mixture({arm: 1, hand: 1}).read([0], ["front"])
    with pytest.raises(FeatureNotFoundError, match="no feature 'task' in this mixture"):
        reel.Mixture({arm: 1, hand: 1}).read([0], windows={"task": range(2)})
    with pytest.raises(TypeError, match=r"weights by dataset, such as \{arm: 0\.7, hand: 0\.3\}"):
        reel.Mixture([arm, hand])  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ValueError, match="A dataset without samples has the weight 1"):
        reel.Mixture({arm: 1, hand.select([]): 1})


def test_a_loader_draws_from_a_mixture_and_resumes(mixture):
    pytest.importorskip("torch")
    from roboreel.torch import Loader, SampleDataset

    samples = SampleDataset(mixture, {"action": reel.Window(frames=(0, 1))}, drop_n_last_frames=1)
    loader = Loader(samples, 3, shuffle="uniform", seed=2)
    whole = [batch["index"].tolist() for batch in loader]
    again = Loader(samples, 3, shuffle="uniform", seed=2)
    first = next(iter(again))
    rest = Loader(samples, 3, shuffle="uniform", seed=2)
    rest.load_state_dict(again.state_dict())
    assert [first["index"].tolist(), *(batch["index"].tolist() for batch in rest)] == whole
    assert not first["action_is_pad"].any()
