"""Samples as tensors, and the loader."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roboreel as reel
from roboreel.errors import CorruptFileError, EpisodeNotFoundError, MissingFileError, SampleError
from roboreel.io.budget import process_budget
from roboreel.schema import Feature
from tests.factory import NUMBERS, TASKS, write_dataset

torch = pytest.importorskip("torch")

from roboreel.torch import Loader, Local, SampleDataset

LENGTHS = [3, 1, 7, 2, 5]
IMAGES = {**NUMBERS, "observation.images.front": Feature("image", (8, 12, 3))}
WINDOWS = {"action": reel.Window(frames=range(4)), "observation.state": reel.Window(frames=(-1, 0))}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    root = tmp_path_factory.mktemp("torch") / "dataset"
    write_dataset(root, LENGTHS, features=IMAGES)
    return root


@pytest.fixture(scope="module")
def dataset(path):
    return reel.open_dataset(path)


@pytest.fixture(scope="module")
def samples(dataset):
    return SampleDataset(dataset, WINDOWS)


def rows_of(batches: Any) -> list[list[int]]:
    return [batch["index"].tolist() for batch in batches]


def loader_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("roboreel-loader")]


class TestSamples:
    def test_a_batch_has_tensors_masks_and_texts(self, samples):
        batch = samples.read([0, 17])
        assert batch["action"].shape == (2, 4, 2)
        assert batch["action"].dtype == torch.float32
        assert batch["action_is_pad"].tolist() == [[False] * 3 + [True], [False] + [True] * 3]
        assert batch["observation.images.front"].dtype == torch.uint8
        assert batch["observation.images.front"].shape == (2, 3, 8, 12)
        assert batch["task"] == [TASKS[0], TASKS[0]]
        assert batch["note"] == ["row 0", "row 17"]

    def test_a_sample_is_its_row_of_a_batch(self, samples):
        batch = samples.read([4, 11])
        for place, sample in enumerate((samples[4], samples[11])):
            assert sample.keys() == batch.keys()
            for name, value in sample.items():
                whole = batch[name][place]
                same = value.equal(whole) if isinstance(value, torch.Tensor) else value == whole
                assert same, name

    def test_tensors_share_the_memory_of_the_arrays(self, dataset):
        from roboreel.torch.samples import as_tensors

        arrays = dataset.read([1, 2])
        tensors = as_tensors(arrays)
        assert tensors["action"].data_ptr() == arrays["action"].ctypes.data

    def test_last_frames_that_are_dropped_anchor_no_sample(self, dataset):
        samples = SampleDataset(dataset, features=["index"], drop_n_last_frames=2)
        assert len(samples) == 9
        assert samples.read(range(9))["index"].tolist() == [0, 4, 5, 6, 7, 8, 13, 14, 15]
        view = SampleDataset(dataset.select([4, 2]), features=["index"], drop_n_last_frames=2)
        assert view.read(range(len(view)))["index"].tolist() == [4, 5, 6, 7, 8, 13, 14, 15]

    def test_a_transform_sees_every_single_sample(self, dataset):
        samples = SampleDataset(
            dataset, features=["index"], transform=lambda s: {"double": s["index"] * 2}
        )
        assert samples.read([3, 1])["double"].tolist() == [6, 2]
        assert samples[5]["double"].item() == 10

    def test_a_transform_that_fails_names_the_sample(self, dataset):
        def refuse(sample):
            if sample["index"] == 6:
                raise ValueError("no sixes")
            return sample

        samples = SampleDataset(dataset, features=["index"], transform=refuse)
        with pytest.raises(SampleError, match=r"Sample 6: its transform failed .*no sixes"):
            samples.read([4, 6])

    def test_a_sample_that_cannot_be_read_is_named(self, tmp_path):
        manifest = write_dataset(tmp_path, LENGTHS)
        (tmp_path / manifest.data_files[1]).unlink()
        process_budget().clear()
        samples = SampleDataset(reel.open_dataset(tmp_path), features=["action"])
        with pytest.raises(MissingFileError, match=r"^Sample 9: .*file-001\.parquet"):
            samples.read([0, 9, 1])

    def test_a_sample_that_does_not_exist_is_an_index_error(self, samples):
        with pytest.raises(IndexError, match="18"):
            samples[18]
        assert samples[-1]["index"].item() == 17

    def test_a_pickle_is_small(self, samples):
        samples.read([0, 1])
        frozen = pickle.dumps(samples)
        assert len(frozen) < 4000
        assert pickle.loads(frozen)[3]["index"].item() == 3

    @pytest.mark.long
    @pytest.mark.parametrize("method", ["fork", "spawn"])
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_a_plain_dataloader_with_workers_reads_also_after_the_parent(self, samples, method):
        if method == "fork" and (not hasattr(os, "fork") or sys.platform == "darwin"):
            pytest.skip("this system does not fork safely")
        here = samples.read(range(18))
        loaded = torch.utils.data.DataLoader(
            samples,
            batch_size=5,
            num_workers=2,
            multiprocessing_context=multiprocessing.get_context(method),
        )
        batches = list(loaded)
        assert rows_of(batches) == [[*range(start, min(start + 5, 18))] for start in (0, 5, 10, 15)]
        images = torch.cat([batch["observation.images.front"] for batch in batches])
        assert images.equal(here["observation.images.front"])


class TestLoader:
    def test_an_epoch_has_every_sample_once_and_the_next_has_another_order(self, samples):
        loader = Loader(samples, 4, shuffle="uniform", seed=3, drop_last=False)
        first, second = rows_of(loader), rows_of(loader)
        assert len(first) == len(loader) == 5
        for epoch in (first, second):
            assert sorted(row for rows in epoch for row in rows) == list(range(18))
        assert first != second
        assert loader.epoch == 2

    @pytest.mark.parametrize("shuffle", [False, "uniform", "local"])
    def test_the_order_depends_on_the_seed_alone(self, samples, shuffle):
        epochs = [
            rows_of(Loader(samples, 4, shuffle=shuffle, seed=7, threads=threads, prefetch=ahead))
            for threads, ahead in ((1, 1), (4, 9))
        ]
        assert epochs[0] == epochs[1]
        other = rows_of(Loader(samples, 4, shuffle=shuffle, seed=8))
        assert (other == epochs[0]) == (shuffle is False)

    def test_the_short_forms_of_a_shuffle_mean_what_they_are_short_for(self, samples):
        def rows(shuffle):
            return rows_of(Loader(samples, 4, shuffle=shuffle, seed=7))

        assert rows(True) == rows("uniform") != rows(False)
        assert rows("local") == rows(Local()) == rows(Local(block=32, buffer=16))
        assert rows(Local(block=2, buffer=2)) != rows("local")

    def test_a_state_of_another_local_shuffle_is_refused(self, samples):
        state = Loader(samples, 2, shuffle="local").state_dict()
        assert state["order"] == ["Local", 32, 16]
        Loader(samples, 2, shuffle=Local(32, 16)).load_state_dict(state)
        with pytest.raises(ValueError, match="whose order is"):
            Loader(samples, 2, shuffle=Local(block=8)).load_state_dict(state)

    def test_batches_are_those_that_the_dataset_reads(self, samples):
        for batch in Loader(samples, 3, shuffle="uniform"):
            read = samples.read(batch["index"].tolist())
            for name, values in batch.items():
                same = values.equal(read[name]) if isinstance(values, torch.Tensor) else None
                assert same if same is not None else values == read[name]

    @pytest.mark.filterwarnings("ignore:There is no batch in an epoch")
    @settings(max_examples=25, deadline=None)
    @given(data=st.data())
    def test_stopping_and_resuming_gives_the_same_samples_with_any_world_size(self, samples, data):
        shuffle = data.draw(st.sampled_from([False, "uniform", Local(block=2, buffer=2)]))
        drop_last = data.draw(st.booleans())
        options: dict[str, Any] = {
            "shuffle": shuffle,
            "seed": 5,
            "drop_last": drop_last,
        }
        small = SampleDataset(samples.dataset, features=["index"])

        def ranks(world_size: int, batch_size: int, state: dict[str, Any]) -> list[Loader]:
            loaders = [
                Loader(small, batch_size, rank=rank, world_size=world_size, **options)
                for rank in range(world_size)
            ]
            for loader in loaders:
                loader.load_state_dict(state)
            return loaders

        whole = [row for rows in rows_of(Loader(small, 1, **options)) for row in rows]
        seen, state = [], Loader(small, 1, **options).state_dict()
        for _ in range(3):
            world_size = data.draw(st.integers(1, 8), "world size")
            loaders = ranks(world_size, data.draw(st.integers(1, 4), "batch size"), state)
            if loaders[0].epoch:
                break  # Too few samples were left to fill a batch on every rank.
            steps = data.draw(st.integers(0, 3), "steps")
            running = [loader.__iter__() for loader in loaders]
            for _ in range(steps):
                batches = [next(run, None) for run in running]
                seen += [row for b in batches if b is not None for row in b["index"].tolist()]
            states = [loader.state_dict() for loader in loaders]
            for run in running:
                run.close()
            if any(one["epoch"] or one != states[0] for one in states):
                break
            state = states[0]
        assert seen == whole[: len(seen)]

    @pytest.mark.parametrize("world_size", range(1, 9))
    def test_ranks_share_an_epoch(self, samples, world_size):
        small = SampleDataset(samples.dataset, features=["index"])
        for batch_size in (1, 2, 5):
            parts = [
                rows_of(
                    Loader(
                        small,
                        batch_size,
                        shuffle="uniform",
                        rank=rank,
                        world_size=world_size,
                        drop_last=False,
                    )
                )
                for rank in range(world_size)
            ]
            rows = [row for part in parts for batch in part for row in batch]
            assert sorted(rows) == list(range(18))
            assert all(batch for part in parts for batch in part)

    def test_resuming_in_mid_epoch_goes_on_with_the_very_next_batch(self, samples):
        whole = rows_of(Loader(samples, 2, shuffle="uniform", seed=1))
        loader = Loader(samples, 2, shuffle="uniform", seed=1, prefetch=5)
        taken = []
        for batch in loader:
            taken.append(batch["index"].tolist())
            if len(taken) == 3:
                break
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        fresh = Loader(samples, 2, shuffle="uniform", seed=1)
        fresh.load_state_dict(state)
        assert taken + rows_of(fresh) == whole
        assert taken + rows_of(loader) == whole

    def test_a_state_of_another_order_is_refused(self, samples):
        state = Loader(samples, 2, shuffle="uniform", seed=1).state_dict()
        others: list[dict[str, Any]] = [
            {"shuffle": "uniform", "seed": 2},
            {"shuffle": "local", "seed": 1},
        ]
        for other in others:
            with pytest.raises(ValueError, match="Make the loader with the arguments of that one"):
                Loader(samples, 2, **other).load_state_dict(state)

    def test_setting_an_epoch_starts_it_from_its_beginning(self, samples):
        loader = Loader(samples, 4, shuffle="uniform")
        first = rows_of(loader)
        rows_of(loader)
        loader.set_epoch(0)
        assert rows_of(loader) == first

    def test_when_the_loop_is_left_no_thread_is(self, samples):
        loader = Loader(samples, 2, threads=3, prefetch=6)
        for _ in loader:
            assert loader_threads()
            break
        assert not loader_threads()
        with pytest.raises(KeyboardInterrupt):
            self._interrupt_within(loader)
        assert not loader_threads()
        list(loader)
        assert not loader_threads()

    def _interrupt_within(self, loader: Loader) -> None:
        for _ in loader:
            raise KeyboardInterrupt

    def test_an_interrupt_while_waiting_ends_the_threads(self, dataset, request):
        struck = threading.Event()

        def slow(sample):
            # From within the loop: a timer might strike before it is entered, or after its end.
            if not struck.is_set():
                struck.set()
                time.sleep(0.05)  # By now the loop waits.
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            return sample

        samples = SampleDataset(dataset, features=["index"], transform=slow)
        # Whoever starts the tests in the background may have switched interrupts off.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
        with pytest.raises(KeyboardInterrupt):
            list(Loader(samples, 2))
        assert not loader_threads()

    def test_no_more_is_read_ahead_than_asked_for(self, dataset):
        read = []

        def count(sample):
            read.append(1)
            return sample

        samples = SampleDataset(dataset, features=["index"], transform=count)
        for taken, _ in enumerate(Loader(samples, 1, threads=4, prefetch=3), start=1):
            time.sleep(0.002)
            assert len(read) <= taken + 3

    @pytest.mark.parametrize(
        ("options", "transform", "sizes"),
        [
            ({"features": ["index"]}, None, {4, 2}),
            ({"features": ["index"]}, lambda batch: batch, {2}),
            ({"features": ["index"], "transform": lambda sample: sample}, None, {2}),
            ({}, None, {2}),
        ],
        ids=["numbers", "transformed batches", "transformed samples", "images"],
    )
    def test_numbers_are_read_several_batches_at_a_time_and_pictures_are_not(
        self, tmp_path, monkeypatch, options, transform, sizes
    ):
        write_dataset(tmp_path, [5, 6], features=IMAGES)
        samples = SampleDataset(reel.open_dataset(tmp_path), **options)
        read, counts = samples.read_batches, set()

        def count(batches, seeds):
            counts.add(sum(map(len, batches)))
            return read(batches, seeds)

        monkeypatch.setattr(samples, "read_batches", count)
        loader = Loader(samples, 2, transform=transform)
        assert rows_of(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
        assert counts == sizes

    def test_an_error_is_raised_in_the_loop_after_the_batches_before_it(self, dataset):
        def refuse(sample):
            if sample["index"] == 6:
                raise ValueError("no sixes")
            return sample

        samples = SampleDataset(dataset, features=["index"], transform=refuse)
        loader = Loader(samples, 2)
        taken: list[list[int]] = []
        with pytest.raises(SampleError, match="Sample 6"):
            taken.extend(batch["index"].tolist() for batch in loader)
        assert taken == [[0, 1], [2, 3], [4, 5]]
        assert not loader_threads()

    def test_a_corrupt_picture_is_reported_with_its_sample(self, tmp_path):
        manifest = write_dataset(tmp_path, LENGTHS, features=IMAGES)
        path = tmp_path / manifest.data_files[0]
        whole = path.read_bytes()
        first = whole.index(b"IDAT") + 4
        path.write_bytes(whole[:first] + bytes(8) + whole[first + 8 :])
        samples = SampleDataset(reel.open_dataset(tmp_path))
        with pytest.raises(CorruptFileError, match=r"^Sample 0: Row 0 of"):
            list(Loader(samples, 4))

    def test_batches_that_are_read_together_fail_in_their_own_place(self, dataset):
        def refuse(sample):
            if sample["index"] == 6:
                raise ValueError("no sixes")
            return sample

        plain = SampleDataset(dataset, features=["index"])
        shuffle = Local(block=3, buffer=2)
        whole = rows_of(Loader(plain, 2, shuffle=shuffle))
        before = next(place for place, rows in enumerate(whole) if 6 in rows)
        samples = SampleDataset(dataset, features=["index"], transform=refuse)
        taken: list[list[int]] = []
        loader = Loader(samples, 2, shuffle=shuffle, prefetch=8)
        with pytest.raises(SampleError, match="Sample 6"):
            taken.extend(batch["index"].tolist() for batch in loader)
        assert taken == whole[:before]

    def test_a_transform_of_batches_runs_on_batches(self, samples):
        loader = Loader(samples, 6, transform=lambda batch: batch["index"].sum())
        assert [int(total) for total in loader] == [15, 51, 87]
        failing = Loader(samples, 6, transform=lambda batch: batch["nothing"])
        with pytest.raises(SampleError, match=r"KeyError.*samples: 0, 1, 2, 3, 4, 5"):
            next(iter(failing))

    def test_a_second_iteration_takes_the_place_of_the_first(self, samples):
        loader = Loader(samples, 2)
        first = iter(loader)
        assert next(first)["index"].tolist() == [0, 1]
        assert next(iter(loader))["index"].tolist() == [2, 3]
        with pytest.raises(RuntimeError, match="Make two loaders"):
            next(first)

    def test_weights_give_episodes_and_tasks_their_share(self, dataset):
        samples = SampleDataset(dataset, features=["episode_index", "task_index"])
        by_number = Loader(samples, 18, shuffle="uniform", weights={2: 3.0, 4: 1.0})
        counts = np.bincount(next(iter(by_number))["episode_index"], minlength=5)
        assert counts[[0, 1, 3]].sum() == 0
        assert 12 <= counts[2] <= 15
        by_task = Loader(samples, 18, shuffle="uniform", weights={TASKS[1]: 1.0})
        assert next(iter(by_task))["task_index"].tolist() == [1] * 18
        by_place = Loader(samples, 18, shuffle="uniform", weights=[0, 1, 0, 0, 0])
        assert next(iter(by_place))["episode_index"].tolist() == [1] * 18
        with pytest.raises(EpisodeNotFoundError, match="weight for episode 9"):
            Loader(samples, 2, shuffle="uniform", weights={9: 1.0})
        with pytest.raises(LookupError, match="No episode has the task 'dance'"):
            Loader(samples, 2, shuffle="uniform", weights={"dance": 1.0})
        with pytest.raises(ValueError, match="shuffle='uniform'"):
            Loader(samples, 2, weights={2: 1.0})

    def test_what_makes_no_sense_is_refused(self, samples):
        with pytest.raises(ValueError, match="shuffle is 'yes': give False, True, 'uniform', 'l"):
            Loader(samples, 2, shuffle="yes")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'block'.*threads"):
            Loader(samples, 2, shuffle="local", block=3)  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="threads must be 1 or more; it is 0"):
            Loader(samples, 2, threads=0)
        with pytest.raises(ValueError, match="prefetch must be 1 or more; it is -1"):
            Loader(samples, 2, prefetch=-1)
        with pytest.raises(TypeError, match="Seed None is not a whole number"):
            Loader(samples, 2, shuffle=True, seed=None)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="Rank 2 does not exist"):
            Loader(samples, 2, rank=2, world_size=2)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is an accelerator")
    def test_without_an_accelerator_there_is_nothing_to_pin_for(self, samples):
        batch = next(iter(Loader(samples, 2, pin_memory=True)))
        assert not batch["action"].is_pinned()
