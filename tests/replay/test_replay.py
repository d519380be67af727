"""The replay buffer: what is added, drawn and changed."""

import errno
import multiprocessing
import os
import pickle
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from roboreel.dataset import open_dataset
from roboreel.errors import (
    BufferInUseError,
    BufferMismatchError,
    CorruptFileError,
    EmptyBufferError,
    FeatureNotFoundError,
    FrameError,
    MetadataError,
    MissingFileError,
    WindowError,
)
from roboreel.replay import spec
from roboreel.replay.buffer import ReplayBuffer
from roboreel.replay.header import HEADER_BYTES
from roboreel.schema import Depth, Feature
from roboreel.window import Window
from tests.factory import NUMBERS, write_dataset

FEATURES = {
    "state": Feature("float32", (3,)),
    "number": Feature("int64", (1,)),
    "priority": Feature("float64", (1,)),
}


def episode_of(numbers: Any, **changes: Any) -> dict[str, Any]:
    numbers = np.asarray(numbers, dtype=np.int64)
    state = np.repeat(numbers[:, None], 3, axis=1).astype(np.float32)
    return {"state": state, "number": numbers, "priority": np.ones(len(numbers)), **changes}


def frame_of(number: int) -> dict[str, Any]:
    return {name: values[0] for name, values in episode_of([number]).items()}


def held_numbers(buffer: ReplayBuffer) -> list[list[int]]:
    return [episode["number"].tolist() for episode in buffer.episodes()]


@pytest.fixture
def buffer(tmp_path):
    with ReplayBuffer(tmp_path / "buffer", capacity=10, features=FEATURES) as opened:
        yield opened


class TestAdding:
    def test_an_episode_comes_back_as_it_was_added(self, buffer):
        buffer.add_episode(episode_of(range(4)))
        (episode,) = buffer.episodes()
        for name, values in episode_of(range(4)).items():
            np.testing.assert_array_equal(episode[name], values)
            assert episode[name].dtype == values.dtype
        assert (len(buffer), buffer.num_episodes) == (4, 1)

    def test_frames_are_held_when_their_episode_ends(self, buffer):
        buffer.add(frame_of(0))
        buffer.add(frame_of(1))
        assert (len(buffer), buffer.open_frames) == (0, 2)
        buffer.add(frame_of(2), end=True)
        assert (held_numbers(buffer), buffer.open_frames) == ([[0, 1, 2]], 0)

    def test_the_oldest_episodes_leave_whole(self, buffer):
        for start in (0, 4, 8):
            buffer.add_episode(episode_of(range(start, start + 4)))
        assert held_numbers(buffer) == [[4, 5, 6, 7], [8, 9, 10, 11]]

    def test_an_episode_leaves_when_its_first_frame_is_overwritten(self, buffer):
        buffer.add_episode(episode_of(range(4)))
        buffer.add_episode(episode_of(range(4, 10)))
        buffer.add(frame_of(10))
        assert held_numbers(buffer) == [[4, 5, 6, 7, 8, 9]]

    def test_a_discarded_episode_was_never_there(self, buffer):
        buffer.add(frame_of(0))
        buffer.discard_episode()
        buffer.add(frame_of(1), end=True)
        assert held_numbers(buffer) == [[1]]

    def test_numbers_of_python_take_the_declared_width(self, buffer):
        buffer.add({"state": [0, 1, 2.5], "number": 7, "priority": 1}, end=True)
        (episode,) = buffer.episodes()
        assert episode["state"].tolist() == [[0, 1, 2.5]]
        assert (episode["number"].tolist(), episode["priority"].tolist()) == ([7], [1.0])

    def test_scalars_may_come_as_arrays_of_one_element(self, buffer):
        buffer.add({**frame_of(3), "number": np.array([3])}, end=True)
        buffer.add_episode(episode_of([4, 5], number=np.array([[4], [5]])))
        assert held_numbers(buffer) == [[3], [4, 5]]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"state": np.zeros(2, np.float32)}, r"'state' has shape \(2,\): \(3,\) is declared"),
            ({"state": np.zeros(3)}, "'state' has dtype float64: float32 is declared"),
            ({"state": [[0], [1, 2]]}, "its parts differ in shape"),
            ({"state": None}, "'state' has dtype object"),
            ({"state": "abc"}, "'state' has dtype"),
            ({"number": 1.5}, "'number' has dtype float64: int64 is declared"),
            ({"number": np.zeros((2,), np.int64)}, r"'number' has shape \(2,\): \(\) is declared"),
            ({"more": 1}, r"\['more'\] not declared"),
        ],
    )
    def test_a_frame_that_does_not_fit_is_refused_and_nothing_added(self, buffer, changes, message):
        buffer.add(frame_of(0))
        with pytest.raises(FrameError, match=message):
            buffer.add({**frame_of(1), **changes})
        buffer.add(frame_of(2), end=True)
        assert held_numbers(buffer) == [[0, 2]]

    def test_a_missing_feature_is_named(self, buffer):
        with pytest.raises(FrameError, match=r"\['state', 'priority'\] missing"):
            buffer.add({"number": 1})

    @pytest.mark.parametrize(
        ("episode", "message"),
        [
            (episode_of([]), "The episode is empty"),
            (episode_of([1, 2], priority=np.ones(3)), "differ in length"),
            (episode_of([1], state=np.zeros(3, np.float32)), r"\(T, 3\) is declared"),
            (episode_of([1], number=np.int64(1)), r"\(T,\) is declared"),
            (episode_of(range(11)), "would have 11 frames: the buffer holds 10"),
        ],
    )
    def test_an_episode_that_does_not_fit_is_refused(self, buffer, episode, message):
        buffer.add_episode(episode_of([0]))
        with pytest.raises(FrameError, match=message):
            buffer.add_episode(episode)
        assert held_numbers(buffer) == [[0]]

    def test_an_episode_longer_than_the_ring_is_refused_frame_by_frame_too(self, buffer):
        for number in range(10):
            buffer.add(frame_of(number))
        with pytest.raises(FrameError, match="End it earlier"):
            buffer.add(frame_of(10))
        buffer.end_episode()
        assert held_numbers(buffer) == [list(range(10))]

    def test_two_episodes_are_not_mixed(self, buffer):
        buffer.add(frame_of(0))
        with pytest.raises(FrameError, match="An episode of 1 frames is open"):
            buffer.add_episode(episode_of([1]))

    def test_nothing_cannot_end(self, buffer):
        with pytest.raises(FrameError, match="No episode is open"):
            buffer.end_episode()

    def test_a_full_disk_is_an_error_and_adds_nothing(self, buffer, monkeypatch):
        buffer.add_episode(episode_of([0]))

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("roboreel.replay.slots.write_at", full)
            with pytest.raises(OSError, match="No space left"):
                buffer.add_episode(episode_of([1]))
        buffer.add_episode(episode_of([2]))
        assert held_numbers(buffer) == [[0], [2]]


class TestSampling:
    def test_every_feature_is_drawn_from_the_same_frame(self, buffer):
        buffer.add_episode(episode_of(range(6)))
        sample = buffer.sample(100, seed=0)
        assert sample["state"].shape == (100, 3)
        assert (sample["state"] == sample["number"][:, None]).all()
        assert set(sample["number"].tolist()) == set(range(6))
        assert (buffer["number"][sample["row"]] == sample["number"]).all()

    def test_windows_repeat_the_edges_of_their_episode(self, buffer):
        buffer.add_episode(episode_of(range(5)))
        buffer.add_episode(episode_of(range(10, 14)))
        sample = buffer.sample(200, windows={"number": Window(frames=(-1, 0, 2))}, seed=0)
        assert sample["number"].shape == (200, 3)
        for anchor, numbers, mask in zip(
            sample["state"][:, 0].astype(int),
            sample["number"],
            sample["number_is_pad"],
            strict=True,
        ):
            low, high = (0, 4) if anchor < 5 else (10, 13)
            wanted = np.array([anchor - 1, anchor, anchor + 2])
            assert numbers.tolist() == np.clip(wanted, low, high).tolist()
            assert mask.tolist() == ((wanted < low) | (wanted > high)).tolist()

    def test_the_same_seed_draws_the_same_frames(self, buffer):
        buffer.add_episode(episode_of(range(10)))
        one, two, other = (buffer.sample(50, seed=seed)["number"].tolist() for seed in (3, 3, 4))
        assert one == two != other
        generator = np.random.default_rng(3)
        assert buffer.sample(50, seed=generator)["number"].tolist() == one
        assert buffer.sample(50, seed=generator)["number"].tolist() != one

    def test_the_open_episode_is_not_drawn(self, buffer):
        buffer.add_episode(episode_of([0, 1]))
        buffer.add(frame_of(2))
        windows = {"number": Window(frames=(0, 1, 2))}
        assert buffer.sample(100, windows=windows)["number"].max() == 1

    def test_weights_decide_what_is_drawn(self, buffer):
        buffer.add_episode(episode_of(range(6)))
        buffer.add_episode(episode_of(range(6, 12)))
        buffer["priority"][buffer.rows] = [0, 0, 3, 0, 1, 0]
        drawn = buffer.sample(4000, weights="priority", seed=0)["number"]
        counts = np.bincount(drawn, minlength=12)
        assert counts[[6, 7, 9, 11]].sum() == 0
        assert 0.7 < counts[8] / 4000 < 0.8

    def test_values_changed_in_place_are_seen_by_others(self, buffer):
        buffer.add_episode(episode_of(range(4)))
        sample = buffer.sample(8, seed=0)
        buffer["priority"][sample["row"]] = sample["number"] + 0.5
        other = ReplayBuffer(buffer.path)
        drawn = other.sample(8, seed=0)
        assert (drawn["priority"] == drawn["number"] + 0.5).all()

    def test_what_was_drawn_is_the_callers_own(self, buffer):
        buffer.add_episode(episode_of(range(4)))
        buffer.sample(4)["number"][:] = -1
        assert held_numbers(buffer) == [[0, 1, 2, 3]]

    def test_a_batch_of_none_is_empty(self, buffer):
        buffer.add_episode(episode_of(range(4)))
        sample = buffer.sample(0, windows={"state": Window(frames=(0, 1))})
        assert (sample["state"].shape, sample["number"].shape) == ((0, 2, 3), (0,))
        with pytest.raises(FrameError, match="batch is -1"):
            buffer.sample(-1)

    def test_nothing_can_be_drawn_from_an_empty_buffer(self, buffer):
        with pytest.raises(EmptyBufferError, match="No complete episode"):
            buffer.sample(1)
        buffer.add(frame_of(0))
        with pytest.raises(EmptyBufferError):
            buffer.sample(1)

    @pytest.mark.parametrize("priority", [[-1.0, 2.0], [np.nan, 1.0], [np.inf, 1.0]])
    def test_weights_that_mean_nothing_are_refused(self, buffer, priority):
        buffer.add_episode(episode_of([0, 1], priority=np.array(priority)))
        with pytest.raises(FrameError, match="'priority' cannot be used as weights"):
            buffer.sample(1, weights="priority")

    def test_weights_that_are_all_zero_are_refused(self, buffer):
        buffer.add_episode(episode_of([0, 1], priority=np.zeros(2)))
        with pytest.raises(EmptyBufferError, match="'priority' is zero"):
            buffer.sample(1, weights="priority")

    def test_unknown_features_are_refused(self, buffer):
        buffer.add_episode(episode_of([0]))
        with pytest.raises(FeatureNotFoundError, match="No feature 'nothing'"):
            buffer["nothing"]
        with pytest.raises(FeatureNotFoundError, match="No feature 'nothing'"):
            buffer.sample(1, weights="nothing")
        with pytest.raises(FeatureNotFoundError, match="No feature 'nothing'"):
            buffer.sample(1, windows={"nothing": Window(frames=(0,))})
        with pytest.raises(FrameError, match="'state' cannot be used as weights"):
            buffer.sample(1, weights="state")

    def test_windows_in_seconds_need_a_rate(self, tmp_path, buffer):
        windows = {"number": Window(seconds=(0.0, 0.1))}
        buffer.add_episode(episode_of(range(5)))
        with pytest.raises(WindowError, match="give the buffer an fps"):
            buffer.sample(1, windows=windows)
        with ReplayBuffer(tmp_path / "timed", capacity=5, features=FEATURES, fps=20) as timed:
            timed.add_episode(episode_of(range(5)))
            drawn = timed.sample(50, windows=windows)["number"]
            assert set(map(tuple, drawn.tolist())) <= {(0, 2), (1, 3), (2, 4), (3, 4), (4, 4)}


IMAGE_FEATURES = {
    "raw": Feature("uint8", (8, 12, 3)),
    "jpeg": Feature("image", (8, 12, 3)),
    "gray": Feature("image", (8, 12, 1)),
}


def images_of(values: list[int]) -> dict[str, Any]:
    pixels = np.array(values, np.uint8)[:, None, None, None]
    color = np.broadcast_to(pixels, (len(values), 8, 12, 3))
    return {"raw": color, "jpeg": color, "gray": color[..., :1]}


class TestImages:
    def test_images_come_back_as_they_are_or_as_jpeg(self, tmp_path):
        with ReplayBuffer(tmp_path / "buffer", capacity=4, features=IMAGE_FEATURES) as buffer:
            for values in ([10, 60], [110, 160], [210]):
                buffer.add_episode(images_of(values))
            first, second = buffer.episodes()
            assert first["raw"][:, 0, 0, 0].tolist() == [110, 160]
            for name in ("jpeg", "gray"):
                assert first[name].shape == (2, 8, 12, 3 if name == "jpeg" else 1)
                assert np.abs(first[name][:, 4, 4, 0].astype(int) - [110, 160]).max() <= 2
                assert np.abs(second[name][0].astype(int) - 210).max() <= 2

    def test_windows_of_jpeg_show_the_same_frames_as_raw(self, tmp_path):
        windows = {name: Window(frames=(-1, 0, 1)) for name in IMAGE_FEATURES}
        with ReplayBuffer(tmp_path / "buffer", capacity=4, features=IMAGE_FEATURES) as buffer:
            buffer.add_episode(images_of([10, 110, 210]))
            sample = buffer.sample(20, windows=windows, seed=0)
        assert sample["jpeg"].shape == (20, 3, 8, 12, 3)
        assert np.abs(sample["jpeg"].astype(int) - sample["raw"]).max() <= 2
        assert (sample["jpeg_is_pad"] == sample["raw_is_pad"]).all()

    def test_even_noise_fits_its_slot(self, tmp_path):
        features = {"jpeg": Feature("image", (64, 64, 3))}
        noise = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), np.uint8)
        with ReplayBuffer(tmp_path / "buffer", capacity=3, features=features) as buffer:
            buffer.add_episode({"jpeg": noise})
            assert np.abs(next(buffer.episodes())["jpeg"].astype(int) - noise).mean() < 60

    def test_unused_slots_take_no_disk(self, tmp_path):
        features = {"jpeg": Feature("image", (480, 640, 3))}
        with ReplayBuffer(tmp_path / "buffer", capacity=1000, features=features) as buffer:
            buffer.add_episode({"jpeg": np.zeros((2, 480, 640, 3), np.uint8)})
            buffer.flush()
        used = sum(file.stat().st_blocks * 512 for file in (tmp_path / "buffer").rglob("*.bin"))
        assert used < 200_000

    def test_channels_first_are_refused_with_advice(self, tmp_path):
        features = {"jpeg": Feature("image", (8, 12, 3))}
        with (
            ReplayBuffer(tmp_path / "buffer", capacity=3, features=features) as buffer,
            pytest.raises(FrameError, match="Channels come last"),
        ):
            buffer.add({"jpeg": np.zeros((3, 8, 12), np.uint8)})

    def test_jpeg_cannot_be_changed_in_place(self, tmp_path):
        with (
            ReplayBuffer(tmp_path / "buffer", capacity=3, features=IMAGE_FEATURES) as buffer,
            pytest.raises(FeatureNotFoundError, match="stored as JPEG"),
        ):
            buffer["jpeg"]

    def test_a_damaged_picture_is_an_error_that_names_the_file(self, tmp_path):
        features = {"jpeg": Feature("image", (8, 12, 3))}
        with ReplayBuffer(tmp_path / "buffer", capacity=3, features=features) as buffer:
            buffer.add_episode({"jpeg": np.zeros((1, 8, 12, 3), np.uint8)})
            (path,) = (tmp_path / "buffer" / "columns").iterdir()
            with path.open("r+b") as file:
                file.write(b"\xff" * 100)
            with pytest.raises(CorruptFileError, match="000-jpeg"):
                buffer.sample(1)


class TestOpening:
    def test_contents_and_position_survive(self, tmp_path):
        path = tmp_path / "buffer"
        with ReplayBuffer(path, capacity=10, features=FEATURES, fps=30) as buffer:
            for start in (0, 4, 8):
                buffer.add_episode(episode_of(range(start, start + 4)))
            buffer.add(frame_of(12))
        with ReplayBuffer(path) as buffer:
            assert held_numbers(buffer) == [[4, 5, 6, 7], [8, 9, 10, 11]]
            assert (buffer.open_frames, buffer.fps, buffer.capacity) == (1, 30, 10)
            assert dict(buffer.features) == FEATURES
            buffer.add(frame_of(13), end=True)
            assert held_numbers(buffer) == [[4, 5, 6, 7], [8, 9, 10, 11], [12, 13]]

    def test_another_buffer_than_asked_for_says_what_differs(self, buffer):
        other = {**FEATURES, "state": Feature("float32", (4,)), "more": Feature("bool", (1,))}
        del other["number"]
        with pytest.raises(BufferMismatchError) as raised:
            ReplayBuffer(buffer.path, capacity=20, features=other, fps=5)
        for part in (
            "capacity is 10, not 20",
            "fps is None, not 5",
            "'state' is float32 (3,), not float32 (4,)",
            "'more' is absent, not bool (1,)",
            "'number' is int64 (1,), not absent",
        ):
            assert part in str(raised.value)

    def test_opening_it_as_it_is_needs_nothing(self, buffer):
        buffer.add_episode(episode_of(range(3)))
        assert len(ReplayBuffer(str(buffer.path), capacity=10, features=FEATURES)) == 3
        assert "3 of 10 frames in 1 episodes" in repr(ReplayBuffer(buffer.path))

    def test_no_buffer_can_be_made_from_nothing(self, tmp_path):
        with pytest.raises(MissingFileError, match="give capacity and features"):
            ReplayBuffer(tmp_path / "nothing")
        assert not (tmp_path / "nothing").exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"capacity": 0}, "capacity is 0"),
            ({"capacity": 1.5}, "give a number of frames"),
            ({"features": {}}, "at least one feature"),
            ({"fps": -1}, "fps is -1"),
            ({"features": {"x": Feature("video", (4, 4, 3))}}, "declare it as 'image'"),
            ({"features": {"x": Feature("string", (1,))}}, "a number that stands for the text"),
            ({"features": {"x": Feature("image", (3, 4, 4))}}, r"\(height, width, 1 or 3\)"),
            ({"features": {"x": Feature("image", (4, 4, 1), depth=Depth())}}, "JPEG would blur"),
            ({"features": {"x": Feature("float32", (0,))}}, "cannot be stored"),
            ({"features": {"row": Feature("float32", (1,))}}, "samples use that key"),
        ],
    )
    def test_a_buffer_that_cannot_be_is_refused_before_anything_is_made(
        self, tmp_path, arguments, message
    ):
        with pytest.raises(FrameError, match=message):
            ReplayBuffer(tmp_path / "buffer", **{"capacity": 5, "features": FEATURES, **arguments})
        assert not (tmp_path / "buffer").exists()

    def test_a_buffer_larger_than_the_disk_is_refused(self, tmp_path):
        with pytest.raises(BufferMismatchError, match="frames would fit"):
            ReplayBuffer(tmp_path / "buffer", capacity=2**39, features=FEATURES)

    @pytest.mark.parametrize("name", ["header.bin", "episodes.bin", "columns/001-number.bin"])
    def test_a_file_that_is_gone_or_cut_is_named(self, tmp_path, name):
        path = tmp_path / "buffer"
        ReplayBuffer(path, capacity=10, features=FEATURES).close()
        os.truncate(path / name, 7)
        with pytest.raises(CorruptFileError, match=f"has 7 bytes, and .*{Path(name).name}"):
            ReplayBuffer(path)
        (path / name).unlink()
        with pytest.raises(MissingFileError, match=Path(name).name):
            ReplayBuffer(path)

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "version": 1, "features": 3}'])
    def test_a_description_that_is_none_is_named(self, tmp_path, text):
        path = tmp_path / "buffer"
        ReplayBuffer(path, capacity=10, features=FEATURES).close()
        (path / "replay.json").write_text(text)
        with pytest.raises(MetadataError, match=r"replay\.json"):
            ReplayBuffer(path)

    def test_a_description_of_another_version_is_refused(self, tmp_path):
        path = tmp_path / "buffer"
        ReplayBuffer(path, capacity=10, features=FEATURES).close()
        text = (path / "replay.json").read_text()
        (path / "replay.json").write_text(text.replace('"version": 1', '"version": 2'))
        with pytest.raises(MetadataError, match="another version"):
            ReplayBuffer(path)

    def test_a_header_whose_copies_are_all_damaged_is_an_error(self, tmp_path):
        path = tmp_path / "buffer"
        with ReplayBuffer(path, capacity=10, features=FEATURES) as buffer:
            buffer.add_episode(episode_of([0]))
        (path / "header.bin").write_bytes(bytes(HEADER_BYTES))
        with pytest.raises(CorruptFileError, match="All copies"):
            len(ReplayBuffer(path))

    def test_names_become_files_of_their_own(self, tmp_path):
        features = {name: Feature("int64", (1,)) for name in ("a/b", "..", "A", "a", "x" * 300)}
        with ReplayBuffer(tmp_path / "buffer", capacity=2, features=features) as buffer:
            buffer.add({name: number for number, name in enumerate(features)}, end=True)
            (episode,) = buffer.episodes()
        assert [values.tolist() for values in episode.values()] == [[0], [1], [2], [3], [4]]
        assert len(list((tmp_path / "buffer" / "columns").iterdir())) == 5
        assert all(len(file) < 110 for file in spec.RingSpec(2, features).files.values())

    def test_a_closed_buffer_says_so(self, buffer):
        buffer.close()
        buffer.close()
        with pytest.raises(ValueError, match="is closed"):
            buffer.sample(1)
        with pytest.raises(ValueError, match="is closed"):
            buffer.add(frame_of(0))


class TestSeveral:
    def test_only_one_adds(self, buffer):
        buffer.add_episode(episode_of([0]))
        other = ReplayBuffer(buffer.path)
        with pytest.raises(
            BufferInUseError, match="Another process adds to this replay buffer, and only one may"
        ):
            other.add(frame_of(1))
        assert len(other) == 1
        buffer.close()
        other.add_episode(episode_of([1]))
        assert held_numbers(other) == [[0], [1]]
        other.close()

    def test_a_copy_by_pickle_reads_the_same_buffer(self, buffer):
        buffer.add_episode(episode_of(range(5)))
        copy = pickle.loads(pickle.dumps(buffer))
        assert held_numbers(copy) == [[0, 1, 2, 3, 4]]
        buffer.add_episode(episode_of([9]))
        assert held_numbers(copy)[-1] == [9]

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_another_process_samples_and_does_not_add(self, buffer, method):
        if method not in multiprocessing.get_all_start_methods():
            pytest.skip(f"no {method} here")
        buffer.add_episode(episode_of(range(5)))
        # Not multiprocessing.Pool, which waits for ever when its children cannot start.
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            answers = list(pool.map(_try_both, [buffer, buffer]))
        assert {refused for _, refused in answers} == {True}
        assert all(set(drawn) <= set(range(5)) for drawn, _ in answers)
        buffer.add_episode(episode_of([7]))
        assert held_numbers(buffer)[-1] == [7]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_forked_children_draw_other_frames_than_their_parent(self, buffer):
        global _inherited
        buffer.add_episode(episode_of(range(10)))
        buffer.sample(1)
        _inherited = buffer
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            child = pool.submit(_draw_from_inherited).result()
        assert child != buffer.sample(50)["number"].tolist()


_inherited: ReplayBuffer | None = None


def _draw_from_inherited() -> list[int]:
    assert _inherited is not None
    numbers: list[int] = _inherited.sample(50)["number"].tolist()
    return numbers


def _try_both(buffer: ReplayBuffer) -> tuple[list[int], bool]:
    try:
        buffer.add(frame_of(1))
        refused = False
    except BufferInUseError:
        refused = True
    return buffer.sample(20)["number"].tolist(), refused


@dataclass
class SmallEpisode:
    values: dict[str, Any]

    def read(self, features: Any = None, *, layout: str = "chw") -> dict[str, Any]:
        assert layout == "hwc"
        return {name: self.values[name] for name in features}


@dataclass
class SmallDataset:
    features: dict[str, Feature]
    episodes: list[SmallEpisode]
    fps: float = 30.0
    tasks: dict[int, str] = field(default_factory=dict)


class TestDatasets:
    def test_a_buffer_holds_the_episodes_of_a_dataset(self, tmp_path):
        episodes = [SmallEpisode(episode_of(range(s, s + 4))) for s in (0, 4, 8)]
        dataset: Any = SmallDataset(FEATURES, episodes)
        with ReplayBuffer.from_dataset(tmp_path / "buffer", dataset, capacity=10) as buffer:
            assert held_numbers(buffer) == [[4, 5, 6, 7], [8, 9, 10, 11]]
            assert buffer.fps == 30

    def test_a_lerobot_dataset_fills_a_buffer(self, tmp_path):
        features = {"action": NUMBERS["action"], "front": Feature("image", (8, 12, 3))}
        write_dataset(tmp_path / "dataset", [3, 2], features=features)
        dataset = open_dataset(tmp_path / "dataset")
        with ReplayBuffer.from_dataset(tmp_path / "buffer", dataset, capacity=10) as buffer:
            assert set(buffer.features) == set(dataset.features)
            for episode, held in zip(dataset.episodes, buffer.episodes(), strict=True):
                values = episode.read(list(held), layout="hwc")
                for name in buffer.features.keys() - {"front"}:
                    np.testing.assert_array_equal(held[name], values[name])
                assert np.abs(held["front"].astype(int) - values["front"]).mean() < 8

    def test_a_dataset_that_has_none_of_the_features_is_refused(self, tmp_path):
        dataset: Any = SmallDataset(FEATURES, [])
        features = {"reward": Feature("float32", (1,))}
        with pytest.raises(FeatureNotFoundError, match=r"none of \['reward'\]"):
            ReplayBuffer.from_dataset(tmp_path / "b", dataset, capacity=9, features=features)

    def test_features_can_be_chosen_and_added(self, tmp_path):
        dataset: Any = SmallDataset(FEATURES, [SmallEpisode(episode_of(range(4)))])
        features = {"number": FEATURES["number"], "reward": Feature("float32", (1,))}
        with ReplayBuffer.from_dataset(
            tmp_path / "buffer", dataset, capacity=10, features=features
        ) as buffer:
            (episode,) = buffer.episodes()
        assert episode["number"].tolist() == [0, 1, 2, 3]
        assert episode["reward"].tolist() == [0, 0, 0, 0]

    def test_video_becomes_jpeg(self, tmp_path):
        features = {"front": Feature("video", (16, 16, 3))}
        pixels = np.full((2, 16, 16, 3), 99, np.uint8)
        dataset: Any = SmallDataset(features, [SmallEpisode({"front": pixels})])
        with ReplayBuffer.from_dataset(tmp_path / "buffer", dataset, capacity=10) as buffer:
            assert buffer.features["front"].dtype == "image"
            assert np.abs(next(buffer.episodes())["front"].astype(int) - 99).max() <= 2

    def test_a_dataset_that_fails_leaves_the_buffer_free(self, tmp_path):
        dataset: Any = SmallDataset(FEATURES, [SmallEpisode(episode_of([]))])
        with pytest.raises(FrameError):
            ReplayBuffer.from_dataset(tmp_path / "buffer", dataset, capacity=10)
        with ReplayBuffer(tmp_path / "buffer") as buffer:
            buffer.add_episode(episode_of([1]))


class AgainstAList(RuleBasedStateMachine):
    """Any sequence of operations leaves what a plain list of episodes would hold."""

    @initialize(capacity=st.integers(1, 12))
    def start(self, capacity):
        self.path = Path(tempfile.mkdtemp(prefix="replay-")) / "buffer"
        self.capacity = capacity
        self.buffer = ReplayBuffer(self.path, capacity=capacity, features=FEATURES)
        self.held: list[list[int]] = []
        self.open: list[int] = []
        self.priority: dict[int, float] = {}
        self.next = 0

    def make_room(self, count: int) -> None:
        while sum(map(len, self.held)) + len(self.open) + count > self.capacity:
            self.held.pop(0)

    def new_numbers(self, count: int) -> list[int]:
        numbers = list(range(self.next, self.next + count))
        self.next += count
        self.priority |= dict.fromkeys(numbers, 1.0)
        return numbers

    @rule(end=st.booleans())
    def add(self, end):
        if len(self.open) == self.capacity:
            with pytest.raises(FrameError):
                self.buffer.add(frame_of(-1))
            return
        self.make_room(1)
        (number,) = self.new_numbers(1)
        self.buffer.add(frame_of(number), end=end)
        self.open.append(number)
        if end:
            self.held.append(self.open)
            self.open = []

    @precondition(lambda self: not self.open)
    @rule(length=st.integers(1, 12))
    def add_episode(self, length):
        length = min(length, self.capacity)
        self.make_room(length)
        self.held.append(self.new_numbers(length))
        self.buffer.add_episode(episode_of(self.held[-1]))

    @precondition(lambda self: self.open)
    @rule()
    def end(self):
        self.buffer.end_episode()
        self.held.append(self.open)
        self.open = []

    @rule()
    def discard(self):
        self.buffer.discard_episode()
        self.open = []

    @rule(flush=st.booleans())
    def reopen(self, flush):
        if flush:
            self.buffer.flush()
        self.buffer.close()
        self.buffer = ReplayBuffer(self.path)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def change(self, data):
        numbers = [number for episode in self.held for number in episode]
        at = data.draw(st.integers(0, len(numbers) - 1))
        self.buffer["priority"][self.buffer.rows[at]] = self.priority[numbers[at]] = float(at)

    @precondition(lambda self: self.held)
    @rule(seed=st.integers(0, 100), offsets=st.lists(st.integers(-5, 5), min_size=1, max_size=4))
    def sample(self, seed, offsets):
        sample = self.buffer.sample(8, windows={"number": Window(frames=offsets)}, seed=seed)
        for anchor, numbers in zip(sample["state"][:, 0], sample["number"], strict=True):
            (episode,) = [held for held in self.held if int(anchor) in held]
            wanted = np.clip(int(anchor) + np.array(offsets), episode[0], episode[-1])
            assert numbers.tolist() == wanted.tolist()

    @invariant()
    def the_same_is_held(self):
        if not hasattr(self, "buffer"):
            return
        for buffer in (self.buffer, ReplayBuffer(self.path)):
            assert held_numbers(buffer) == self.held
            assert len(buffer) == sum(map(len, self.held)) == len(buffer.rows)
            assert (buffer.num_episodes, buffer.open_frames) == (len(self.held), len(self.open))
        numbers = [number for episode in self.held for number in episode]
        held = self.buffer["priority"][self.buffer.rows].tolist()
        assert held == [self.priority[number] for number in numbers]

    def teardown(self):
        if hasattr(self, "buffer"):
            self.buffer.close()
            shutil.rmtree(self.path.parent)


AgainstAList.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAgainstAList = AgainstAList.TestCase
