"""Rows that are read one by one, in order: the next ones are read along, and nothing else changes."""

import gc
import shutil
import threading

import numpy as np
import pytest

import roboreel as reel
from roboreel.dataset import in_order
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.io.budget import process_budget
from roboreel.loading import Loader, Samples
from roboreel.video.reader import VideoReader
from roboreel.video.standing import Decoders

SIZE = (64, 96)
FRAMES = 40


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    spec = DemoSpec(episodes=2, frames=FRAMES, size=SIZE)
    return make_demo_dataset(tmp_path_factory.mktemp("in order") / "arm", spec)


@pytest.fixture
def reads(monkeypatch):
    """How many jobs were carried out with each call of the video reader."""
    calls: list[int] = []
    read_all = VideoReader.read_all

    def counting(self, work):
        calls.append(len(work))
        return read_all(self, work)

    monkeypatch.setattr(VideoReader, "read_all", counting)
    return calls


@pytest.fixture
def small_budget():
    before = process_budget().limit_bytes
    yield process_budget()
    process_budget().limit_bytes = before


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, name)


@pytest.mark.parametrize("windows", [{}, {"observation.images.front": range(-2, 1)}])
@pytest.mark.parametrize("size", [None, (32, 32)])
def test_rows_in_order_are_those_of_one_batch_and_take_fewer_reads(root, reads, windows, size):
    dataset = reel.open_dataset(root)
    whole = dataset.read(range(len(dataset)), windows=windows, image_size=size)
    reads.clear()
    for row in range(len(dataset)):
        found = dataset.read([row], windows=windows, image_size=size)
        assert_same(found, {name: values[row : row + 1] for name, values in whole.items()})
    assert len(reads) < len(dataset) / 3


@pytest.mark.parametrize("seed", range(3))
def test_jumps_turns_and_other_specs_between_rows_change_no_value(root, seed):
    dataset = reel.open_dataset(root)
    whole = {size: dataset.read(range(len(dataset)), image_size=size) for size in (None, (32, 32))}
    rng = np.random.default_rng(seed)
    row, size = 0, None
    for _ in range(120):
        action = rng.integers(12)
        if action == 0:
            row = int(rng.integers(len(dataset)))
        elif action == 1:
            size = None if size else (32, 32)
        row = (row + 1) % len(dataset)
        found = dataset.read([row], image_size=size)
        assert_same(found, {name: v[row : row + 1] for name, v in whole[size].items()})


def test_rows_read_ahead_belong_to_their_caller_alone(root):
    dataset = reel.open_dataset(root)
    expected = dataset.read(range(FRAMES))
    kept = [dataset.read([row]) for row in range(FRAMES)]
    for batch in kept:
        for other in kept:
            if other is not batch:
                assert not any(
                    np.shares_memory(values, other[name])
                    for name, values in batch.items()
                    if isinstance(values, np.ndarray)
                )
    for row, batch in enumerate(kept):
        assert_same(batch, {name: values[row : row + 1] for name, values in expected.items()})
        for values in batch.values():
            if isinstance(values, np.ndarray):
                values[...] = 0
    assert_same(dataset.read([7]), {name: values[7:8] for name, values in expected.items()})


def test_what_is_read_ahead_stays_within_its_share_of_the_budget(root, small_budget):
    dataset = reel.open_dataset(root, cache=None)
    sample = sum(v.nbytes for v in dataset.read([0]).values() if isinstance(v, np.ndarray))
    for fitting in (0, 1, 3):
        small_budget.limit_bytes = 16 * sample * fitting + 16 * sample // 2
        most = 0
        for row in range(FRAMES):
            dataset.read([row])
            most = max(most, small_budget.held_by(in_order._OWNER))
        assert most <= fitting * sample
        assert small_budget.held_bytes <= small_budget.limit_bytes


def test_what_is_read_ahead_goes_with_its_dataset(root):
    gc.collect()
    before = process_budget().held_by(in_order._OWNER)
    dataset = reel.open_dataset(root)
    for row in range(8):
        dataset.read([row])
    assert process_budget().held_by(in_order._OWNER) > before
    del dataset
    gc.collect()
    assert process_budget().held_by(in_order._OWNER) <= before


def test_a_video_that_is_replaced_between_two_rows_is_read_anew(root, tmp_path):
    shutil.copytree(root, tmp_path / "arm")
    dataset = reel.open_dataset(tmp_path / "arm")
    front, wrist = dataset.cameras
    expected = dataset.read(range(FRAMES), [wrist])[wrist]
    for row in range(12):
        dataset.read([row], [front])
    files = {camera: dataset.manifest.video_files[camera][0] for camera in (front, wrist)}
    shutil.copyfile(tmp_path / "arm" / files[wrist], tmp_path / "arm" / files[front])
    for row in range(12, FRAMES):
        found = dataset.read([row], [front])[front]
        np.testing.assert_array_equal(found[0], expected[row])


def test_damage_ahead_is_no_error_before_it_is_reached(root, tmp_path):
    shutil.copytree(root, tmp_path / "arm")
    dataset = reel.open_dataset(tmp_path / "arm")
    camera = dataset.cameras[0]
    expected = dataset.read(range(FRAMES), [camera])[camera]
    path = tmp_path / "arm" / dataset.manifest.video_files[camera][0]
    table = dataset._reader.frames.videos.table(path)
    first = int(table.shown[30])
    start, size = int(table.offset[first]), int(table.size[first])
    data = bytearray(path.read_bytes())
    data[start : start + size] = bytes(size)
    path.write_bytes(data)
    for row in range(28):
        np.testing.assert_array_equal(dataset.read([row], [camera])[camera][0], expected[row])
    with pytest.raises(reel.DatasetError):
        dataset.read([30], [camera])


def test_threads_that_read_in_order_get_their_own_rows(root):
    dataset = reel.open_dataset(root)
    camera = dataset.cameras[0]
    expected = dataset.read(range(len(dataset)), [camera])[camera]
    wrong: list[int] = []

    def read(rows):
        wrong.extend(
            row
            for row in rows
            if not np.array_equal(dataset.read([row], [camera])[camera][0], expected[row])
        )

    orders = [range(0, 80, 2), range(1, 80, 2), range(80), range(20, 60)]
    threads = [threading.Thread(target=read, args=(rows,)) for rows in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("batch_size", [1, 3, 16, 20])
def test_a_loader_in_order_gives_the_same_batches_and_stays_bounded(root, reads, batch_size):
    dataset = reel.open_dataset(root)
    camera = dataset.cameras[0]
    whole = dataset.read(range(len(dataset)), [camera])[camera]
    reads.clear()
    loader = Loader(Samples(dataset, features=[camera]), batch_size, drop_last=False)
    at = 0
    for batch in loader:
        np.testing.assert_array_equal(batch[camera], whole[at : at + len(batch[camera])])
        at += len(batch[camera])
    assert at == len(dataset)
    assert len(reads) <= -(-len(dataset) // max(batch_size, 16 // batch_size * batch_size)) + 1


def test_a_loader_in_order_resumes_within_a_group(root):
    dataset = reel.open_dataset(root)
    samples = Samples(dataset, features=["index", dataset.cameras[0]])
    loader = Loader(samples, 1)
    seen = []
    for batch in loader:
        seen.append(int(batch["index"][0]))
        if len(seen) == 21:
            break
    again = Loader(samples, 1)
    again.load_state_dict(loader.state_dict())
    assert [*seen, *(int(batch["index"][0]) for batch in again)] == list(range(len(dataset)))


def test_a_loader_reads_as_many_samples_at_a_time_as_fit_in_their_share(root, small_budget, reads):
    dataset = reel.open_dataset(root)
    samples = Samples(dataset, features=[dataset.cameras[0]])
    assert samples.image_bytes == 3 * SIZE[0] * SIZE[1]
    small_budget.limit_bytes = 16 * 4 * samples.image_bytes
    for _ in Loader(samples, 1):
        pass
    assert len(dataset) / 4 <= len(reads) <= len(dataset) / 4 + 1


def test_only_rows_in_order_are_noted_for_reads_that_go_on_behind_them(root):
    dataset = reel.open_dataset(root)
    noted = process_budget().share(Decoders)._passes
    noted.clear()
    dataset.read([7, 3, 5, 4], dataset.cameras)
    assert not noted
    dataset.read([3, 4, 5, 7], dataset.cameras)
    assert noted
