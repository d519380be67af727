"""What stands between brackets, and numbers of samples, mean the same everywhere."""

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import EpisodeNotFoundError, FeatureNotFoundError, RowNotFoundError
from roboreel.schema import Feature
from tests.factory import NUMBERS, TASKS, write_dataset

if TYPE_CHECKING:
    from collections.abc import Callable

CAMERA = "observation.images.front"
LENGTHS = [3, 1, 5]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    root = tmp_path_factory.mktemp("dataset")
    write_dataset(root, LENGTHS, features={**NUMBERS, CAMERA: Feature("image", (8, 12, 3))})
    return root


@pytest.fixture(scope="module")
def dataset(path):
    return reel.open_dataset(path)


def sources(dataset):
    """Return everything that is indexed by sample and gives arrays or tensors."""
    found = [dataset, reel.Mixture({dataset: 1.0})]
    try:
        from roboreel.torch import SampleDataset
    except ModuleNotFoundError:
        return found
    double = SampleDataset(dataset, transform=lambda sample: sample)
    return [*found, SampleDataset(dataset), double]


def rows_of(batch):
    return np.asarray(batch["index"]).tolist()


KEYS = [
    (slice(0, 3), [0, 1, 2]),
    (slice(None, None, -4), [8, 4, 0]),
    (slice(7, 99), [7, 8]),
    ([0, 1], [0, 1]),
    ((5, -1), [5, 8]),
    (range(2, 6, 2), [2, 4]),
    (np.array([4, 4]), [4, 4]),
    (np.array([-9], np.int8), [0]),
]


@pytest.mark.parametrize(("key", "rows"), KEYS, ids=[str(key) for key, _ in KEYS])
def test_a_slice_or_several_numbers_give_a_batch(dataset, key, rows):
    for source in sources(dataset):
        batch = source[key]
        assert rows_of(batch) == rows, source
        assert np.asarray(batch["action"]).shape == (len(rows), 2)
        assert np.asarray(batch["task"]).shape == (len(rows),)


def test_no_numbers_give_an_empty_batch(dataset):
    for source in sources(dataset)[:2]:
        assert source[[]]["action"].shape == (0, 2)
        assert source[5:5][CAMERA].shape == (0, 3, 8, 12)


@pytest.mark.parametrize("key", [4, -5, np.int64(4), np.array(4)])
def test_one_number_gives_one_sample(dataset, key):
    for source in sources(dataset):
        sample = source[key]
        assert np.asarray(sample["action"]).shape == (2,)
        assert int(sample["index"]) == 4
        assert sample["task"] == TASKS[0]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ([True] + [False] * 8, r"bool values were given\. For a mask, write np\.flatnonzero"),
        (np.zeros(9, bool), r"bool values were given"),
        ([0.7], r"float64 values were given"),
        (1.0, r"Sample 1\.0 is not a whole number"),
        (True, r"Sample True is not a whole number"),
        (None, r"Sample None is not a whole number"),
        ("action", r"Samples are a sequence of numbers.*'action'"),
        ([[0, 1]], r"the shape \(1, 2\) was given"),
    ],
)
def test_what_is_no_number_of_a_sample_is_refused(dataset, key, says):
    for source in sources(dataset):
        with pytest.raises(TypeError, match=says):
            source[key]


@pytest.mark.parametrize("key", [9, -10, [0, 9], np.array([-10, 0]), 2**70])
def test_a_sample_that_does_not_exist_is_named(dataset, key):
    wrong = next(number for number in np.atleast_1d(np.array(key, object)) if number != 0)
    for source in sources(dataset):
        with pytest.raises(
            RowNotFoundError, match=f"Sample {wrong} does not exist: there are 9 samples, "
        ):
            source[key]


def test_reads_take_whole_numbers_alone(dataset):
    mixture = reel.Mixture({dataset: 1.0})
    reads: list[Callable[[Any], Any]] = [
        dataset.read,
        mixture.read,
        lambda numbers: dataset.encoded_images(CAMERA, numbers),
    ]
    for read in reads:
        with pytest.raises(TypeError, match=r"a sequence of numbers, such as \[0, 1\]: not 3\."):
            read(3)
        with pytest.raises(TypeError, match="Samples are whole numbers: float64"):
            read([0.7])
        with pytest.raises(TypeError, match="write np\\.flatnonzero"):
            read([True, False])
    with pytest.raises(TypeError, match=r"Episodes are a sequence of numbers.* not 1"):
        dataset.select(episodes=1)


def test_negative_numbers_count_from_the_end_everywhere(dataset):
    for source in sources(dataset):
        assert rows_of(source.read([-1, 0, -9])) == [8, 0, 0]
    assert dataset.encoded_images(CAMERA, [-1]) == dataset.encoded_images(CAMERA, [8])
    assert reel.Mixture({dataset: 1.0, dataset.select([0]): 1.0}).read([-1])["index"].tolist() == [
        2
    ]


def test_iterating_over_a_dataset_ends(dataset):
    assert [int(sample["index"]) for sample in dataset.select([0])] == [0, 1, 2]


class TestEpisodes:
    def test_they_are_picked_like_samples(self, dataset):
        episodes = dataset.episodes
        assert episodes[-1].number == 2
        for key in (slice(0, 3, 2), [0, 2], (0, -1), np.array([0, 2])):
            assert [episode.number for episode in episodes[key]] == [0, 2]
        with pytest.raises(TypeError, match=r"write np\.flatnonzero"):
            episodes[[True, False, True]]
        with pytest.raises(TypeError, match="Episodes are a sequence of numbers"):
            episodes["x"]

    def test_one_that_does_not_exist_is_named(self, dataset, path):
        for key in (3, -4, [0, 3]):
            with pytest.raises(EpisodeNotFoundError, match=r"Episode -?\d does not exist: there"):
                dataset.episodes[key]
        with pytest.raises(EpisodeNotFoundError) as caught:
            dataset.episodes[3]
        assert str(caught.value) == (
            f"Episode 3 does not exist: there are 3 episodes, 0 to 2, in {str(path)!r}."
        )

    def test_in_a_view_the_error_tells_positions_from_numbers(self, dataset):
        view = dataset.select(episodes=[1, 2])
        assert view.episodes[1].number == 2
        with pytest.raises(
            EpisodeNotFoundError,
            match=(
                r"Episode 2 does not exist: there are 2 episodes, 0 to 1, in .*\. These are "
                r"positions; by number, there are 2 episodes, 1 to 2: write select\(episodes=\[…\]\)"
            ),
        ):
            view.episodes[2]

    def test_a_name_gives_a_feature_of_the_whole_episode(self, dataset):
        episode = dataset.episodes[2]
        assert episode["action"].shape == (5, 2)
        assert episode["action"][:, 0].tolist() == [400, 500, 600, 700, 800]
        assert episode[CAMERA].shape == (5, 3, 8, 12)
        assert episode["task"] == [TASKS[0]] * 5
        with pytest.raises(FeatureNotFoundError, match="There is no feature 'akshun'"):
            episode["akshun"]
        with pytest.raises(TypeError, match="indexed by the name of a feature, not by 0"):
            episode[0]


class TestDropIn:
    @pytest.fixture
    def dropped_in(self, path):
        pytest.importorskip("torch")
        from roboreel.lerobot import LeRobotDataset

        return LeRobotDataset("ours/test", path)

    def test_it_takes_a_number_or_a_slice_as_lerobots_does(self, dropped_in):
        assert int(dropped_in[-1]["index"]) == 8
        assert [int(item["index"]) for item in dropped_in[0:3]] == [0, 1, 2]
        for key in ([0, 1], (0, 1), np.array([0, 1])):
            with pytest.raises(TypeError, match="takes a number or a slice"):
                dropped_in[key]
        with pytest.raises(TypeError, match=r"Item 0\.7 is not a whole number"):
            dropped_in[0.7]
        with pytest.raises(TypeError, match="Items are whole numbers"):
            dropped_in.__getitems__([0.7])
        with pytest.raises(IndexError, match="Item 9 does not exist: there are 9"):
            dropped_in[9]

    def test_its_episodes_are_picked_as_of_a_datasets_table(self, dropped_in):
        records = dropped_in.meta.episodes
        for key in (slice(0, 3, 2), [0, 2], np.array([0, 2])):
            picked = records[key]
            assert picked["length"] == [3, 5]
            assert picked["tasks"] == [[TASKS[0]], [TASKS[0]]]
        with pytest.raises(EpisodeNotFoundError, match="Episode 3 does not exist: there are 3"):
            records[3]
        with pytest.raises(TypeError, match="Episodes are whole numbers"):
            dropped_in.meta.get_data_file_path(0.7)


class TestLoading:
    def test_a_loader_takes_a_dataset_as_it_is(self, dataset):
        pytest.importorskip("torch")
        from roboreel.torch import Loader, SampleDataset

        for source in (dataset, dataset.select([2]), reel.Mixture({dataset: 1.0})):
            ours = [batch["index"].tolist() for batch in Loader(source, batch_size=2)]
            theirs = [batch["index"].tolist() for batch in Loader(SampleDataset(source), 2)]
            assert ours == theirs

    @pytest.mark.parametrize("given", ["data/arm", [1, 2], None])
    def test_what_is_no_dataset_is_refused(self, given):
        pytest.importorskip("torch")
        from roboreel.torch import Loader, SampleDataset

        for make in (SampleDataset, lambda source: Loader(source, 2)):
            with pytest.raises(TypeError, match=rf"not from {re.escape(repr(given))}\. Open one"):
                make(given)
