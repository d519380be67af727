"""What every loader does, whatever the form of its batches."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel import loading
from roboreel.errors import DatasetError, SampleError
from roboreel.loading.ranks import check_share, launched_share
from roboreel.loading.skipping import find_failing
from roboreel.loading.transforming import sample_seeds, takes_generator
from tests.factory import write_dataset

LENGTHS = [3, 1, 7, 2, 5]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("loader") / "dataset"
    write_dataset(root, LENGTHS)
    return reel.open_dataset(root)


def rows_of(batches: Any) -> list[list[int]]:
    return [batch["index"].tolist() for batch in batches]


def refuse(*bad: int):
    def transform(sample):
        if int(sample["index"]) in bad:
            raise ValueError("a bad sample")
        return sample

    return transform


class LoaderContract:
    """Subclasses say which loader, which samples, and how to draw from their generator."""

    def loader(self, samples, batch_size, **options) -> loading.Loader:
        raise NotImplementedError

    def samples(self, dataset, **options) -> loading.Samples:
        raise NotImplementedError

    def draw(self, rng) -> float:
        raise NotImplementedError

    def numbers(self, dataset, **options):
        return self.samples(dataset, features=["index"], **options)

    def test_taking_exactly_the_batches_of_an_epoch_ends_it(self, dataset):
        loader = self.loader(self.numbers(dataset), 4, shuffle="uniform", seed=3)
        whole = self.loader(self.numbers(dataset), 4, shuffle="uniform", seed=3)
        for epoch in range(3):
            assert loader.epoch == epoch
            batches = iter(loader)
            taken = [next(batches)["index"].tolist() for _ in range(len(loader))]
            assert taken == rows_of(whole)
            assert loader.state_dict() == whole.state_dict()

    def test_an_iterator_that_gave_its_last_batch_ends_even_after_the_next_has_begun(self, dataset):
        loader = self.loader(self.numbers(dataset), 6)
        first = iter(loader)
        for _ in range(len(loader)):
            next(first)
        assert next(iter(loader))["index"].tolist() == [0, 1, 2, 3, 4, 5]
        assert next(first, None) is None

    def test_a_checkpoint_of_a_used_up_epoch_resumes_with_the_next_one(self, dataset):
        """As loaders wrote it when the epoch was over only after one more `next`."""
        state = self.loader(self.numbers(dataset), 6, shuffle="uniform").state_dict()
        assert state == {
            "seed": 0,
            "epoch": 0,
            "consumed": 0,
            "num_samples": 18,
            "order": ["Uniform"],
        }
        loader = self.loader(self.numbers(dataset), 6, shuffle="uniform")
        loader.load_state_dict({**state, "consumed": 18})
        other = self.loader(self.numbers(dataset), 6, shuffle="uniform")
        other.set_epoch(1)
        assert loader.epoch == 1
        assert rows_of(loader) == rows_of(other)

    @pytest.mark.parametrize("of", ["batches", "samples"])
    def test_a_transform_draws_the_same_after_resuming(self, dataset, of):
        def augment(sample, rng):
            return {**sample, "index": sample["index"] * 0 + self.draw(rng)}

        def make(threads):
            samples = self.numbers(dataset, transform=augment if of == "samples" else None)
            transform = augment if of == "batches" else None
            return self.loader(samples, 4, shuffle="uniform", threads=threads, transform=transform)

        whole = make(1)
        first, second = rows_of(whole), rows_of(whole)
        assert first != second
        assert len({value for batch in first for value in batch}) == (4 if of == "batches" else 16)
        stopped = make(3)
        taken = [next(iter(stopped))["index"].tolist() for _ in range(2)]
        resumed = make(2)
        resumed.load_state_dict(stopped.state_dict())
        assert [*taken, *rows_of(resumed), *rows_of(resumed)] == [*first, *second]

    def test_a_sample_draws_the_same_on_any_number_of_ranks(self, dataset):
        def augment(sample, rng):
            return {**sample, "drawn": sample["index"] * 0 + self.draw(rng)}

        def drawn(world_size):
            ranks = [
                self.loader(
                    self.numbers(dataset, transform=augment),
                    6 // world_size,
                    rank=rank,
                    world_size=world_size,
                )
                for rank in range(world_size)
            ]
            return {
                row: value
                for loader in ranks
                for batch in loader
                for row, value in zip(batch["index"].tolist(), batch["drawn"].tolist(), strict=True)
            }

        assert drawn(1) == drawn(2) == drawn(3)

    def test_bad_samples_are_left_out_counted_and_warned_of(self, dataset):
        samples = self.numbers(dataset, transform=refuse(6, 9))
        loader = self.loader(samples, 4, on_error="skip", drop_last=False)
        with pytest.warns(RuntimeWarning, match="left out. Sample") as warned:
            rows = rows_of(loader)
        assert sorted(row for batch in rows for row in batch) == [*range(6), 7, 8, *range(10, 18)]
        assert list(loader.skipped) == [6, 9]
        assert "a bad sample" in loader.skipped[9]
        assert len(warned) == 2
        assert rows_of(loader) == rows  # Known by now: no further warnings.

    def test_too_many_bad_samples_are_an_error(self, dataset):
        samples = self.numbers(dataset, transform=refuse(1, 5, 9))
        loader = self.loader(samples, 4, on_error=loading.Skip(limit=2))
        with (
            pytest.warns(RuntimeWarning, match="left out"),
            pytest.raises(SampleError, match=r"More than 2 samples cannot be read.*Sample 9"),
        ):
            list(loader)

    @pytest.mark.filterwarnings("ignore:A sample is left out")
    def test_a_hundred_samples_may_be_bad_unless_another_limit_is_given(self, tmp_path):
        write_dataset(tmp_path, [120])
        dataset = reel.open_dataset(tmp_path)
        few = self.numbers(dataset, transform=refuse(*range(100)))
        loader = self.loader(few, 120, on_error="skip")
        assert rows_of(loader) == [[*range(100, 120)]]
        assert len(loader.skipped) == 100
        many = self.numbers(dataset, transform=refuse(*range(101)))
        with pytest.raises(SampleError, match="More than 100 samples"):
            list(self.loader(many, 120, on_error="skip"))
        with pytest.raises(ValueError, match="give 'raise', 'skip' or Skip"):
            self.loader(few, 4, on_error="ignore")

    def test_a_batch_of_bad_samples_is_an_error(self, dataset):
        samples = self.numbers(dataset, transform=refuse(*range(18)))
        with pytest.raises(SampleError, match="Sample 0"):
            list(self.loader(samples, 4, on_error="skip"))

    def test_after_an_error_it_goes_on_behind_the_last_batch_that_was_handed_out(self, dataset):
        bad = [9]
        samples = self.numbers(dataset, transform=lambda sample: refuse(*bad)(sample))
        loader = self.loader(samples, 4)
        with pytest.raises(SampleError, match="Sample 9"):
            list(loader)
        assert loader.state_dict()["consumed"] == 8
        bad.clear()
        assert rows_of(loader) == [[8, 9, 10, 11], [12, 13, 14, 15]]

    def test_numbers_of_numpy_are_as_good_as_python_s(self, dataset):
        def first(number):
            samples = self.numbers(dataset)
            options = {"transform": lambda batch, rng: {**batch, "drawn": self.draw(rng)}}
            loader = self.loader(samples, number(4), shuffle=True, seed=number(91), **options)
            loader.set_epoch(number(71))
            return next(iter(loader))["drawn"], loader.state_dict()

        drawn, state = first(np.int8)
        assert (drawn, state) == first(int)
        assert {type(state[name]) for name in ("seed", "epoch", "consumed")} == {int}

    def test_ranks_come_from_a_launcher_unless_given(self, dataset, monkeypatch):
        loader = self.loader(self.numbers(dataset), 3)
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert rows_of(loader) == [[3, 4, 5], [9, 10, 11], [15, 16, 17]]
        assert len(rows_of(self.loader(self.numbers(dataset), 3, world_size=1))) == 6
        with pytest.raises(ValueError, match="give both"):
            self.loader(self.numbers(dataset), 3, world_size=2)
        monkeypatch.delenv("RANK")
        with pytest.raises(ValueError, match="pass rank=… and world_size=…"):
            len(loader)


class TestNumPyLoader(LoaderContract):
    def loader(self, samples, batch_size, **options):
        return loading.Loader(samples, batch_size, **options)

    def samples(self, dataset, **options):
        return loading.Samples(dataset, **options)

    def draw(self, rng):
        assert isinstance(rng, np.random.Generator)
        return int(rng.integers(2**50))

    def test_batches_are_arrays_and_lists_of_texts(self, dataset):
        windows = {"action": reel.Window(frames=range(4))}
        batch = next(iter(loading.Loader(loading.Samples(dataset, windows), 2)))
        assert type(batch["action"]) is np.ndarray
        assert batch["action"].shape == (2, 4, 2)
        assert batch["note"] == ["row 0", "row 1"]
        assert isinstance(batch["task"], list)

    def test_it_imports_no_framework(self, dataset):
        code = (
            "import sys, roboreel; from roboreel.loading import Loader; "
            f"next(iter(Loader(roboreel.open_dataset({str(dataset.path)!r}), 2))); "
            "sys.exit('torch' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


class TestTorchLoader(LoaderContract):
    @pytest.fixture(autouse=True)
    def _torch(self):
        pytest.importorskip("torch")

    def loader(self, samples, batch_size, **options):
        from roboreel.torch import Loader

        return Loader(samples, batch_size, **options)

    def samples(self, dataset, **options):
        from roboreel.torch import SampleDataset

        return SampleDataset(dataset, **options)

    def draw(self, rng):
        import torch

        assert isinstance(rng, torch.Generator)
        return int(torch.randint(2**50, (), generator=rng))

    def test_samples_of_arrays_are_refused(self, dataset):
        with pytest.raises(TypeError, match=r"roboreel\.torch\.SampleDataset"):
            self.loader(loading.Samples(dataset), 2)

    def test_map_style_samples_draw_from_torch_s_global_generator(self, dataset):
        import torch

        samples = self.numbers(dataset, transform=lambda s, rng: {"drawn": self.draw(rng)})
        torch.manual_seed(0)
        first = [samples[3]["drawn"], samples[3]["drawn"]]
        torch.manual_seed(0)
        assert [samples[3]["drawn"], samples[3]["drawn"]] == first
        assert first[0] != first[1]


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("module", ["loading", "torch"])
def test_leaving_the_interpreter_with_an_open_iterator_prints_nothing(dataset, module, workers):
    pytest.importorskip(module if module == "torch" else "numpy")
    code = (
        f"import roboreel; from roboreel.{module} import Loader; "
        f"dataset = roboreel.open_dataset({str(dataset.path)!r}); "
        f"batches = iter(Loader(dataset, 2, workers={workers})); next(batches)"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_transform_takes_a_generator_if_it_has_a_second_argument():
    assert takes_generator(lambda batch, rng: batch)
    assert takes_generator(lambda batch, rng=None: batch)
    assert takes_generator(lambda batch, generator: batch)
    assert not takes_generator(lambda batch: batch)
    assert not takes_generator(lambda batch, strength=0.5: batch)
    assert not takes_generator(lambda *values: values)
    assert not takes_generator(dict)


def test_seeds_differ_between_positions_epochs_seeds_and_kinds():
    positions = np.arange(100)
    seeds = [
        sample_seeds(seed, epoch, positions, of_batch=of_batch)
        for seed in (0, 1)
        for epoch in (0, 1)
        for of_batch in (False, True)
    ]
    assert len(np.unique(seeds)) == 800
    # Checkpoints resume by these numbers: they may never change.
    assert sample_seeds(0, 0, np.array([0, 1])).tolist() == FIRST_SEEDS


FIRST_SEEDS = [3066198177671989143, 11457804965860938147]


@pytest.mark.parametrize("bad", [(), (0,), (4, 5), (0, 6)])
def test_those_that_fail_are_found_by_halving(bad):
    def read(places):
        if set(places.tolist()) & set(bad):
            raise DatasetError(f"{places}")

    assert tuple(find_failing(read, np.arange(7))) == bad


def test_a_share_is_given_whole_or_not_at_all(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert launched_share() == (0, 1)
    assert check_share(None, None) is None
    assert check_share(1, 2) == (1, 2)
    assert check_share(None, 1) == (0, 1)
    with pytest.raises(ValueError, match="give both"):
        check_share(0, None)


@pytest.mark.parametrize(("batch_size", "world_size"), [(19, 1), (10, 2)])
def test_an_epoch_without_any_batch_is_announced(dataset, batch_size, world_size):
    loader = loading.Loader(dataset, batch_size, rank=0, world_size=world_size)
    with pytest.warns(RuntimeWarning, match=f"18 samples do not fill one of {batch_size}"):
        assert list(loader) == []
    assert len(list(loading.Loader(dataset, 19, drop_last=False))) == 1
    assert list(loading.Loader(dataset.select([]), 19)) == []
