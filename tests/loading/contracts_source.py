"""What every `Source` of samples promises.

`RowsContract` holds for stores too, `WindowsContract` for replay buffers, and `SourceContract` for
datasets, views, caches and mixtures.
"""

import pickle

import numpy as np
import pytest

from roboreel import SampleSpec, Window
from roboreel.errors import RowNotFoundError
from roboreel.schema import Feature
from tests import factory

CAMERA = "observation.images.front"
SIZE = (8, 12)
FEATURES = {
    "action": Feature("float32", (2,)),
    "next.done": Feature("bool", (1,)),
    "note": Feature("string", (1,)),
    CAMERA: Feature("image", (*SIZE, 3)),
}
LENGTHS = [4, 1, 6, 3]


def write(root, version="v3.0"):
    if version == "v3.0":
        factory.write_dataset(root, LENGTHS, features=FEATURES)
    else:
        factory.write_dataset_v2(root, LENGTHS, features=FEATURES, version=version)
    return root


class RowsContract:
    """``source`` has the frames ``rows``, each value of which tells its row, in that order."""

    rows: list[int]
    lengths: list[int]
    mean_error: float = 0
    """How far pixels may be from those given, on average, where images are stored with loss."""

    @pytest.fixture
    def source(self, tmp_path):
        raise NotImplementedError

    def test_samples_are_numbered_through_the_episodes(self, source):
        bounds = source.episode_bounds
        assert bounds.dtype == np.int64
        assert np.diff(bounds).tolist() == self.lengths
        assert (bounds[0], bounds[-1]) == (0, len(source))
        assert len(source) == len(self.rows)

    def test_a_batch_is_in_the_order_asked_with_repeats(self, source):
        samples = np.array([len(source) - 1, 2, 0, 2])
        batch = source.read(samples, SampleSpec(["action", CAMERA]))
        rows = [self.rows[sample] for sample in samples]
        assert batch["action"].tolist() == [[100.0 * row, 100.0 * row + 1] for row in rows]
        expected = [factory.image_of(row).transpose(2, 0, 1) for row in rows]
        assert (batch[CAMERA].dtype, batch[CAMERA].shape) == (np.uint8, (4, 3, *SIZE))
        errors = np.abs(batch[CAMERA].astype(int) - expected).mean(axis=(1, 2, 3))
        assert errors.max() <= self.mean_error, errors

    def test_values_have_the_declared_shape_and_type(self, source):
        batch = source.read(np.array([1, 0]), SampleSpec())
        assert {*source.features} <= {*batch}
        for name in ("action", "next.done"):
            feature = source.features[name]
            assert batch[name].dtype == feature.numpy_dtype
            assert batch[name].shape == (2, *feature.value_shape)

    def test_images_come_in_the_size_and_layout_asked(self, source):
        spec = SampleSpec([CAMERA], image_size=(4, 6), layout="hwc")
        images = source.read(np.array([0, 3]), spec)[CAMERA]
        assert (images.shape, images.dtype) == ((2, 4, 6, 3), np.uint8)

    def test_an_empty_batch_has_no_rows(self, source):
        batch = source.read(np.empty(0, np.int64), SampleSpec(["action", CAMERA]))
        assert batch["action"].shape == (0, 2)
        assert batch[CAMERA].shape == (0, 3, *SIZE)
        spec = SampleSpec([CAMERA], image_size=(4, 6), layout="hwc")
        assert source.read(np.empty(0, np.int64), spec)[CAMERA].shape == (0, 4, 6, 3)

    def test_a_batch_belongs_to_the_caller(self, source):
        first = source.read(np.array([0, 1]), SampleSpec(["action", CAMERA]))
        before = {name: values.copy() for name, values in first.items()}
        for values in first.values():
            values[...] = 0
        again = source.read(np.array([0, 1]), SampleSpec(["action", CAMERA]))
        assert all(np.array_equal(again[name], before[name]) for name in ("action", CAMERA))

    def test_a_sample_that_does_not_exist_is_named(self, source):
        wrong = len(source) + 3
        with pytest.raises(RowNotFoundError, match=str(wrong)):
            source.read(np.array([0, wrong]), SampleSpec(["action"]))

    def test_another_process_reads_the_same(self, source):
        copy = pickle.loads(pickle.dumps(source))
        samples = np.arange(len(source))
        ours, theirs = (s.read(samples, SampleSpec(["action"])) for s in (source, copy))
        assert np.array_equal(ours["action"], theirs["action"])
        assert np.array_equal(copy.episode_bounds, source.episode_bounds)


class WindowsContract(RowsContract):
    """Of sources whose samples have neighbours in time."""

    def test_a_window_repeats_the_edge_of_its_episode_and_the_mask_says_so(self, source):
        samples = np.arange(len(source))
        spec = SampleSpec([], {"action": Window(frames=(-2, 0, 1)), CAMERA: range(-1, 1)})
        batch = source.read(samples, spec)
        episode = np.searchsorted(source.episode_bounds, samples, side="right") - 1
        first = source.episode_bounds[episode][:, None]
        last = source.episode_bounds[episode + 1][:, None] - 1
        wanted = samples[:, None] + np.array([-2, 0, 1])
        inside = np.clip(wanted, first, last)
        rows = np.array(self.rows)[inside]
        assert np.array_equal(batch["action"][..., 0], 100 * rows)
        assert np.array_equal(batch["action_is_pad"], wanted != inside)
        assert batch[CAMERA].shape == (len(source), 2, 3, *SIZE)


class SourceContract(WindowsContract):
    """Of sources that have all `FEATURES`, and tasks."""

    def test_texts_are_those_of_their_rows(self, source):
        samples = np.array([len(source) - 1, 2, 0, 2])
        batch = source.read(samples, SampleSpec(["note", "task"]))
        assert list(batch["note"]) == [f"row {self.rows[sample]}" for sample in samples]
        assert set(batch["task"]) <= set(factory.TASKS.values())
        assert {*FEATURES, "task"} <= {*source.read(samples, SampleSpec())}
