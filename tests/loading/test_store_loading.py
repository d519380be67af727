"""Stores and replay buffers as what a loader and a mixture are made of."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

import roboreel as reel
from roboreel import SampleSpec
from roboreel.errors import FeatureNotFoundError, MissingValueError, SampleError, WindowError
from roboreel.schema import Feature
from roboreel.shards import Array, ClassLabel, Image, Store, open_shards, write_shards
from tests import factory

torch = pytest.importorskip("torch")

from roboreel.torch import Loader, SampleDataset

FEATURES = {
    "image": Image(),
    "label": ClassLabel(["a", "b"]),
    "action": Array((2,), "float32"),
    "text": "string",
    "path": ["int64"],
    "pose": {"xyz": Array((3,), "float32")},
}


def example(n):
    return {
        "image": np.full((4, 6, 3), n, np.uint8),
        "label": n % 2,
        "action": [n, -n],
        "text": f"row {n}",
        "path": range(n % 3),
        "pose": {"xyz": [n, n, n]},
    }


@pytest.fixture
def store(tmp_path):
    write_shards(map(example, range(20)), FEATURES, tmp_path / "store")
    return open_shards(tmp_path / "store")


@pytest.fixture
def buffer(tmp_path):
    features = {"action": Feature("float32", (2,)), "image": Feature("image", (4, 6, 3))}
    buffer = reel.ReplayBuffer(tmp_path / "ring", capacity=30, features=features, fps=10)
    for start, stop in ((0, 6), (6, 10)):
        rows = np.arange(start, stop)
        images = np.broadcast_to(rows[:, None, None, None], (len(rows), 4, 6, 3)).astype(np.uint8)
        buffer.add_episode(
            {"action": np.stack([rows, -rows], 1).astype(np.float32), "image": images}
        )
    with buffer:
        yield buffer


def test_a_loader_of_a_store_gives_every_row_once(store):
    batches = list(Loader(store, 6, shuffle=True, seed=3, drop_last=False))
    actions = torch.cat([batch["action"] for batch in batches])
    assert sorted(actions[:, 0].tolist()) == list(range(20))
    first = batches[0]
    rows = first["action"][:, 0].to(torch.int64)
    assert first["image"].shape == (6, 3, 4, 6)
    assert torch.equal(first["image"][:, 0, 0, 0].to(torch.int64), rows)
    assert torch.equal(first["label"], rows % 2)
    assert first["text"] == [f"row {row}" for row in rows.tolist()]
    assert [len(path) for path in first["path"]] == (rows % 3).tolist()
    assert torch.equal(first["pose.xyz"][:, 2].to(torch.int64), rows)


def test_a_loader_of_a_view_keeps_to_the_view_and_shares_among_ranks(store):
    train, _ = store.split(test=0.5)
    wanted = sorted(int(row["action"][0]) for row in train)
    seen = [
        int(number)
        for rank in range(2)
        for batch in Loader(train, 2, shuffle=True, rank=rank, world_size=2, drop_last=False)
        for number in batch["action"][:, 0]
    ]
    assert sorted(seen) == wanted


def test_a_loader_of_a_store_resumes_where_it_stopped(store):
    loader = Loader(store, 4, shuffle=True, seed=1)
    batches = [batch["label"].tolist() for batch in loader]
    loader = Loader(store, 4, shuffle=True, seed=1)
    next(iter(loader))
    other = Loader(store, 4, shuffle=True, seed=1)
    other.load_state_dict(loader.state_dict())
    assert [batch["label"].tolist() for batch in other] == batches[1:]


def test_samples_of_a_store_can_be_chosen_scaled_and_pickled(store):
    samples = SampleDataset(store, features=["image"], image_size=(2, 3), layout="hwc")
    copy = pickle.loads(pickle.dumps(samples))
    assert copy[5]["image"].shape == (2, 3, 3)
    assert int(copy[5]["image"][0, 0, 0]) == 5
    assert samples.has_images


@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_images_of_stores_and_buffers_are_padded_as_asked(store, buffer, layout):
    spec = reel.SampleSpec("image", None, (8, 6), layout, "pad")
    for source in (store.as_source(), buffer.as_source()):
        images = source.read(np.array([3, 4]), spec)["image"]
        rows = images if layout == "hwc" else images.transpose(0, 2, 3, 1)
        assert rows.shape == (2, 8, 6, 3)
        assert (rows[:, 2:6] == np.array([3, 4])[:, None, None, None]).all()
        assert not rows[:, :2].any()
        assert not rows[:, 6:].any()


def test_what_a_store_cannot_give_is_said(store):
    source = store.as_source()
    with pytest.raises(WindowError, match="'action' needs episodes"):
        source.read(np.array([0]), SampleSpec(windows={"action": range(3)}))
    with pytest.raises(FeatureNotFoundError, match="There is no feature 'x'"):
        source.read(np.array([0]), SampleSpec(["x"]))
    with pytest.raises(ValueError, match="Weights are those of episodes"):
        Loader(store, 4, shuffle=True, weights=[1.0])
    with_null = store.add_column("score", [None, *range(19)], "float32").as_source()
    with pytest.raises(MissingValueError, match="'score' is null in some rows"):
        with_null.read(np.array([0, 1]))
    assert with_null.read(np.array([2, 1]))["score"].tolist() == [1.0, 0.0]
    sizes = [b for n in (4, 6) for b in (np.zeros((n, n, 3), np.uint8),)]
    mixed = store.select([0, 1]).remove_columns("image").add_column("image", sizes, Image())
    with pytest.raises(ValueError, match=r"Images of 'image' differ.*image_size"):
        mixed.as_source().read(np.array([0, 1]))
    batch = mixed.as_source().read(np.array([0, 1]), SampleSpec("image", image_size=(4, 4)))
    assert batch["image"].shape == (2, 3, 4, 4)


def test_an_empty_store_has_no_samples():
    store = Store.from_table(pa.table({"n": pa.array([], pa.int64())}))
    assert len(SampleDataset(store)) == 0


def test_a_loader_of_a_replay_buffer_gives_every_frame_once(buffer):
    batches = list(Loader(buffer, 4, shuffle=True, seed=0, drop_last=False))
    actions = torch.cat([batch["action"] for batch in batches])
    assert sorted(actions[:, 0].tolist()) == list(range(10))
    images = torch.cat([batch["image"] for batch in batches])
    assert images.shape == (10, 3, 4, 6)
    assert (images[:, 0, 0, 0].float() - actions[:, 0]).abs().max() <= 2  # stored as JPEG


def test_windows_of_a_replay_buffer_stay_inside_the_episode(buffer):
    samples = SampleDataset(buffer, {"action": range(-1, 2)}, features=["action"])
    batch = samples.read([0, 5, 6])
    assert batch["action"][:, :, 0].tolist() == [[0, 0, 1], [4, 5, 5], [6, 6, 7]]
    assert batch["action_is_pad"].tolist() == [
        [True, False, False],
        [False, False, True],
        [True, False, False],
    ]
    assert samples.dataset.episode_bounds.tolist() == [0, 6, 10]


def test_frames_that_have_left_the_buffer_are_an_error(buffer):
    samples = SampleDataset(buffer, features=["action"])
    buffer.add_episode(
        {"action": np.ones((25, 2), np.float32), "image": np.zeros((25, 4, 6, 3), np.uint8)}
    )
    with pytest.raises(SampleError, match="Frame 0 has left the buffer"):
        samples.read([0])
    assert samples.read([7])["action"].tolist() == [[7.0, -7.0]]


def test_datasets_stores_and_buffers_mix(store, buffer, tmp_path):
    camera = "observation.images.front"
    features = {"action": Feature("float32", (2,)), camera: Feature("image", (4, 6, 3))}
    factory.write_dataset(tmp_path / "data", [4, 3], features=features)
    dataset = reel.open_dataset(tmp_path / "data")
    mixture = reel.Mixture(
        {dataset: 0.2, store: 0.4, buffer: 0.4},
        features={
            "action": "action",
            "image": [camera, "image", "image"],
            "label": [None, "label", None],
        },
    )
    assert len(mixture) == 7 + 20 + 10
    batch = mixture.read([0, 7 + 5, 7 + 20 + 3], image_size=(4, 6))
    assert batch["dataset_index"].tolist() == [0, 1, 2]
    assert batch["action"][1:].tolist() == [[5.0, -5.0], [3.0, -3.0]]
    assert batch["image"].shape == (3, 3, 4, 6)
    assert batch["label"].tolist() == [0, 1, 0]
    assert batch["label_is_missing"].tolist() == [True, False, True]
    samples = SampleDataset(mixture, image_size=(4, 6))
    seen = torch.cat([b["dataset_index"] for b in Loader(samples, 5, shuffle=True)])
    assert set(seen.tolist()) == {0, 1, 2}
    assert "store: 0.4" in repr(mixture)
