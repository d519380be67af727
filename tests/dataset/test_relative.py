"""Relative actions, and statistics that datasets of a mixture share."""

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roboreel as reel
from roboreel.dataset import Normalize, Relative
from roboreel.errors import FeatureNotFoundError
from roboreel.schema import Feature
from tests.factory import edit_info, write_dataset

ARM = {"observation.state": Feature("float64", (3,)), "action": Feature("float64", (2,))}
WINDOW = reel.Window(frames=range(3))


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    root = tmp_path_factory.mktemp("arm")
    write_dataset(root, [3, 4], features=ARM)
    return reel.open_dataset(root)


@given(st.integers(1, 3), st.integers(0, 3), st.sets(st.integers(0, 2)), st.booleans())
def test_relative_actions_are_differences_and_come_back(count, steps, elements, state_window):
    rng = np.random.default_rng(0)
    shape = (count, steps, 3) if steps else (count, 3)
    action, state = rng.integers(-9, 9, shape), rng.integers(-9, 9, (count, 2, 4))
    batch = {"action": action, "observation.state": state if state_window else state[:, -1]}
    batch |= {"action_is_pad": np.zeros((count, steps), bool)} if steps else {}
    batch |= {"observation.state_is_pad": np.zeros((count, 2), bool)} if state_window else {}
    relative = Relative(elements=sorted(elements))
    moved = relative(batch)
    for place in np.ndindex(*shape):
        from_state = state[place[0], -1, place[-1]] if place[-1] in elements else 0
        assert moved["action"][place] == action[place] - from_state
    assert relative.undo(moved)["action"].tolist() == action.tolist()
    assert batch["action"] is action


def test_single_samples_and_tensors_are_turned_alike(arm):
    torch = pytest.importorskip("torch")
    batch = arm.read([0, 5], windows={"action": WINDOW})
    relative = Relative()
    whole = relative(batch)["action"]
    single = relative({name: values[1] for name, values in batch.items()})
    assert single["action"].tolist() == whole[1].tolist()
    tensors = {n: torch.as_tensor(batch[n]) for n in ("action", "action_is_pad", relative.to)}
    assert relative(tensors)["action"].tolist() == whole.tolist()
    assert tensors["action"].tolist() == batch["action"].tolist()


def test_statistics_are_those_of_the_steps_inside_the_episodes(arm):
    relative = Relative(elements=[1])
    stats = relative.compute_stats(arm, WINDOW)
    rows = arm.read(range(7), ["action", "observation.state"])
    values = [
        rows["action"][row + step] - [0, rows["observation.state"][row][1]]
        for start, stop in ((0, 3), (3, 7))
        for row in range(start, stop)
        for step in range(3)
        if row + step < stop
    ]
    assert stats.count.tolist() == [len(values)] * 2
    np.testing.assert_allclose(stats.mean, np.mean(values, axis=0))
    np.testing.assert_allclose(stats.std, np.std(values, axis=0))
    normal = Normalize({**arm.stats, "action": stats}, {"action": "min_max"})
    batch = normal(relative(arm.read(range(7), windows={"action": WINDOW})))
    assert np.abs(batch["action"][~batch["action_is_pad"]]).max() <= 1 + 1e-6


def test_what_has_no_counterpart_is_refused(arm):
    with pytest.raises(ValueError, match="no element 2 of both"):
        Relative(elements=[2])(arm.read([0]))
    with pytest.raises(ValueError, match="no element 2 of both"):
        Relative("observation.state", to="action")(arm.read([0]))
    with pytest.raises(FeatureNotFoundError, match=r"no 'observation\.state' in the batch"):
        Relative()(arm.read([0], ["action"]))


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Two datasets of one robot by joints, and one of the same robot by poses."""
    joints = {"action": Feature("float32", (2,), names=("shoulder", "elbow"))}
    poses = {"action": Feature("float32", (2,), names=("x", "y"))}
    opened = []
    for features, lengths in ((joints, [3]), (joints, [9]), (poses, [5])):
        root = tmp_path_factory.mktemp("robot")
        write_dataset(root, lengths, features=features)
        opened.append(reel.open_dataset(root))
    return opened


class TestSharedStatistics:
    def mixture(self, datasets, **options):
        weights = dict.fromkeys(datasets, 1.0)
        return reel.Mixture(weights, normalize={"action": "min_max"}, **options)

    def test_one_robot_and_control_mode_is_normalized_alike(self, datasets):
        stats = self.mixture(datasets, normalize_by="robot").stats
        own = self.mixture(datasets).stats
        assert stats[0]["action"] == stats[1]["action"] != own[0]["action"]
        assert stats[2]["action"] == own[2]["action"]
        values = np.concatenate([d.read(range(len(d)))["action"] for d in datasets[:2]])
        np.testing.assert_allclose(stats[0]["action"].mean, values.mean(axis=0), rtol=1e-6)
        assert stats[0]["action"].count.tolist() == [12, 12]

    def test_another_robot_is_normalized_by_itself(self, datasets, tmp_path):
        shutil.copytree(datasets[1].path, tmp_path / "other")
        edit_info(tmp_path / "other", robot_type="other_arm")
        other = reel.open_dataset(tmp_path / "other")
        stats = self.mixture([*datasets[:2], other], normalize_by="robot").stats
        assert stats[0]["action"] == stats[1]["action"] != stats[2]["action"]
        assert stats[2]["action"] == self.mixture([other]).stats[0]["action"]

    def test_words_say_which_datasets_belong_together(self, datasets):
        words = dict(zip(datasets, ["a", "b", "a"], strict=True))
        stats = self.mixture(datasets, normalize_by=words).stats
        assert stats[0]["action"] == stats[2]["action"] != stats[1]["action"]

    def test_values_are_scaled_by_the_shared_statistics(self, datasets):
        mixture = self.mixture(datasets[:2], normalize_by="robot")
        action = mixture.read(range(12))["action"]
        assert action.min() == -1
        assert action.max() == 1
        assert np.abs(action[:3]).max() <= 1

    def test_groups_that_make_no_sense_are_refused(self, datasets):
        with pytest.raises(ValueError, match="normalize_by is 'colour'"):
            self.mixture(datasets, normalize_by="colour")
        with pytest.raises(ValueError, match="no word for"):
            self.mixture(datasets, normalize_by={datasets[0]: "a"})
