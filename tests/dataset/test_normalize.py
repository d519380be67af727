"""Values on a common scale, and statistics from the values."""

import json
import pickle
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import roboreel as reel
from roboreel.cli import app
from roboreel.dataset.normalize import Mode, Normalize, Unnormalize
from roboreel.errors import FeatureNotFoundError
from roboreel.format.statistics import read_stats
from roboreel.stats import Accumulator, FeatureStats, image_stats
from roboreel.stats.compare import compare_stats
from tests.factory import SHARED, needs_shared, write_dataset

LENGTHS = [3, 1, 7, 2, 5]
MODES: tuple[Mode, ...] = get_args(Mode)


def stats_of(values: Any) -> FeatureStats:
    accumulator = Accumulator(values.shape[1:])
    accumulator.update(values)
    return accumulator.finish()


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_what_is_normalized_comes_back(mode, data):
    count, size = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 4))
    seed = data.draw(st.integers(0, 1000))
    values = np.random.default_rng(seed).normal(3, 10, (count, size)).astype(np.float32)
    stats = {"action": stats_of(values)}
    batch: dict[str, Any] = {"action": values[:, None].repeat(2, axis=1), "task": ["x"] * count}
    normal = Normalize(stats, {"action": mode})(batch)
    assert normal["task"] is batch["task"]
    assert normal["action"].dtype == np.float32
    again = Unnormalize(stats, {"action": mode})(normal)["action"]
    assert np.allclose(again, batch["action"], rtol=1e-4, atol=1e-4)


def test_each_mode_puts_its_landmarks_where_it_says():
    values = np.linspace(-3, 7, 1001)[:, None]
    stats = {"x": stats_of(values)}
    normal = {mode: Normalize(stats, {"x": mode})({"x": values})["x"] for mode in MODES}
    assert normal["mean_std"].mean() == pytest.approx(0, abs=1e-6)
    assert normal["mean_std"].std() == pytest.approx(1, rel=1e-5)
    assert (normal["min_max"].min(), normal["min_max"].max()) == (-1, 1)
    for values, share in ((normal["quantiles"], 0.01), (normal["quantiles10"], 0.1)):
        low, high = np.quantile(values, [share, 1 - share])
        assert (low, high) == (pytest.approx(-1, abs=1e-5), pytest.approx(1, abs=1e-5))


@pytest.mark.parametrize("mode", MODES)
def test_what_never_changes_becomes_zero(mode):
    stats = {"x": stats_of(np.full((5, 1), 4.0))}
    assert Normalize(stats, {"x": mode})({"x": np.full((2, 1), 4.0)})["x"].tolist() == [[0], [0]]


def test_bytes_of_images_count_as_zero_to_one():
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 5), dtype=np.uint8)
    stats = {"camera": image_stats(images)}
    normal = Normalize(stats, {"camera": "mean_std"})({"camera": images})["camera"]
    assert normal.mean(axis=(0, 2, 3)) == pytest.approx([0, 0, 0], abs=1e-5)
    assert normal.std(axis=(0, 2, 3)) == pytest.approx([1, 1, 1], rel=1e-5)
    floats = Normalize(stats, {"camera": "mean_std"})({"camera": images / 255})["camera"]
    assert np.allclose(floats, normal, atol=1e-5)


def test_what_cannot_be_done_is_said():
    one = np.zeros(1)
    stats = {"x": FeatureStats(one, one, one, one, count=np.ones(1, int), quantiles={})}
    for made in (Normalize, Unnormalize):
        with pytest.raises(ValueError, match=r"'x' have no q01.*compute_stats"):
            made(stats, {"x": "quantiles"})
        with pytest.raises(FeatureNotFoundError, match="no statistics of 'y'"):
            made(stats, {"y": "mean_std"})
        with pytest.raises(ValueError, match="No mode 'log'"):
            made(stats, {"x": "log"})  # type: ignore[dict-item]


def test_scales_are_made_once_and_pickled(monkeypatch):
    values = np.linspace(-3, 7, 11, dtype=np.float32)[:, None]
    normalize = Normalize({"x": stats_of(values)}, {"x": "min_max"})
    monkeypatch.setattr("roboreel.dataset.normalize.affine_of", None)
    for again in (normalize, pickle.loads(pickle.dumps(normalize))):
        assert again({"x": values})["x"][[0, -1]].tolist() == [[-1], [1]]


def test_tensors_are_normalized_as_arrays_are():
    torch = pytest.importorskip("torch")
    from roboreel import torch as ours

    values = np.random.default_rng(1).normal(2, 3, (50, 4)).astype(np.float32)
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 5), dtype=np.uint8)
    stats = {"x": stats_of(values), "camera": image_stats(images)}
    batch = {"x": torch.from_numpy(values), "camera": torch.from_numpy(images), "task": ["a"]}
    for mode in MODES:
        modes = dict.fromkeys(stats, mode)
        normal = ours.Normalize(stats, modes)(batch)
        arrays = Normalize(stats, modes)({"x": values, "camera": images})
        for name, expected in arrays.items():
            assert np.allclose(normal[name].numpy(), expected, atol=1e-5), (mode, name)
        again = ours.Unnormalize(stats, {"x": mode})(normal)
        assert torch.allclose(again["x"], batch["x"], atol=1e-4)
        assert normal["task"] == ["a"]
    first, second = (ours.Normalize(stats, {"camera": mode}) for mode in ("mean_std", "min_max"))
    first.load_state_dict(second.state_dict())
    assert first(batch)["camera"].equal(second(batch)["camera"])
    saved = ours.Normalize(stats, {"x": "mean_std"}).state_dict()
    assert set(saved) == {"middle_0", "half_0"}


class TestComputed:
    def test_statistics_that_the_metadata_lacks_are_computed(self, tmp_path):
        write_dataset(tmp_path, LENGTHS)
        dataset = reel.open_dataset(tmp_path)
        assert read_stats(dataset.manifest) == {}
        values = dataset.read(range(18), ["grid"])["grid"]
        stats = dataset.stats["grid"]
        assert np.allclose(stats.mean, values.mean(axis=0))
        assert np.allclose(stats.std, values.std(axis=0))
        assert np.allclose(stats.quantiles["q90"], np.quantile(values, 0.9, axis=0))
        assert "note" not in dataset.stats

    def test_a_view_has_statistics_of_its_own(self, tmp_path):
        write_dataset(tmp_path, LENGTHS)
        view = reel.open_dataset(tmp_path).select(episodes=[1])
        assert int(view.stats["mode"].count.max()) == 1
        assert int(view.compute_stats(["mode"])["mode"].count.max()) == 1
        with pytest.raises(FeatureNotFoundError, match="'note' is not a numeric feature"):
            view.compute_stats(["note"])

    @needs_shared
    @pytest.mark.parametrize(
        ("name", "features"),
        [
            ("lerobot_v30_numeric", None),
            ("lerobot_v30_video", None),
            # Cut out of a larger dataset: its episodes were numbered anew, their statistics not.
            ("unitree_g1_v21", ["observation.state", "action", "timestamp", "frame_index"]),
        ],
    )
    def test_what_lerobot_wrote_agrees_with_the_values(self, name, features):
        dataset = reel.open_dataset(SHARED / name)
        stored, computed = read_stats(dataset.manifest), dataset.compute_stats(features)
        for feature, true in computed.items():
            assert compare_stats(feature, stored[feature], true) == []

    def test_the_command_shows_and_checks(self, tmp_path):
        write_dataset(tmp_path, LENGTHS)
        shown = CliRunner().invoke(app, ["stats", str(tmp_path), "--json"])
        assert json.loads(shown.stdout)["mode"]["max"] == [1700.0]
        checked = CliRunner().invoke(app, ["stats", str(tmp_path), "--check", "--json"])
        assert checked.exit_code == 1
        assert "'mode' has no statistics." in json.loads(checked.stdout)["problems"]
        assert "observation.state" in CliRunner().invoke(app, ["stats", str(tmp_path)]).stdout
