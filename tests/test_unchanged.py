"""A dataset that is held open across a change is read as it was, or refused; never mixed."""

import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest

import roboreel as reel
from roboreel.commit import undo_change
from roboreel.edit import edit_dataset
from roboreel.errors import StaleDatasetError
from roboreel.format import read_manifest
from roboreel.format.paths import DECIDED_FOLDER
from roboreel.frames import unchanged
from roboreel.frames.unchanged import Unchanged, extends
from tests.clean import FRONT, VERSIONS, clean_dataset
from tests.factory import make_manifest, write_dataset, write_dataset_v2
from tests.video_factory import number_of


@pytest.fixture
def equal_lengths(tmp_path):
    """Episodes of nine frames each: a file of another episode has as many rows and images."""
    root = clean_dataset(tmp_path / "arm", "v2.1")
    edit = edit_dataset(root)
    for episode in range(6):
        edit = edit.trim(episode, stop=9)
    edit.apply()
    return root


def test_images_of_other_episodes_are_not_taken_for_those_that_were_there(equal_lengths):
    dataset = reel.open_dataset(equal_lengths)
    before = number_of(dataset.read([20], [FRONT], layout="hwc")[FRONT][0])
    edit_dataset(equal_lengths).delete([1]).apply()
    with pytest.raises(StaleDatasetError, match="Open it again"):
        dataset.read([20], [FRONT])
    with pytest.raises(StaleDatasetError):
        next(dataset.episodes[2].stream(FRONT))
    again = reel.open_dataset(equal_lengths)
    assert number_of(again.read([11], [FRONT], layout="hwc")[FRONT][0]) == before


def test_numbers_of_other_episodes_are_not_taken_for_those_that_were_there(equal_lengths):
    dataset = reel.open_dataset(equal_lengths)
    read = dataset.read([20], ["observation.state"])["observation.state"]
    edit_dataset(equal_lengths).delete([1]).apply()
    with pytest.raises(StaleDatasetError):
        dataset.read([30], ["observation.state"])
    # What was read before is still what it was.
    assert np.array_equal(dataset.read([20], ["observation.state"])["observation.state"], read)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_change_that_was_undone_leaves_an_open_dataset_as_it_was(tmp_path, version):
    root = clean_dataset(tmp_path / "arm", version)
    dataset = reel.open_dataset(root)
    edit_dataset(root).delete([0]).apply()
    undo_change(root)
    images = dataset.read([0, 50], [FRONT], layout="hwc")[FRONT]
    assert [number_of(image) for image in images] == [0, 50]


def test_episodes_that_are_added_do_not_disturb_a_dataset_that_is_open(tmp_path):
    features = {"action": reel.Feature("float32", (2,))}
    with reel.create_dataset(tmp_path / "arm", fps=30, features=features) as recorder:

        def record(value):
            for _ in range(4):
                recorder.add_frame({"action": np.full(2, value, np.float32)}, task="pick")
            recorder.save_episode()

        record(1)
        dataset = reel.open_dataset(tmp_path / "arm")
        record(2)
        assert dataset.read([3], ["action"])["action"].tolist() == [[1, 1]]
        assert len(dataset) == 4


def test_a_pickle_opens_what_has_grown_and_refuses_what_was_edited(tmp_path):
    write_dataset_v2(tmp_path, [4, 5, 6])
    view = pickle.dumps(reel.open_dataset(tmp_path).select([1, 2]))
    write_dataset_v2(tmp_path, [4, 5, 6, 7])
    assert [episode.number for episode in pickle.loads(view).episodes] == [1, 2]
    edit_dataset(tmp_path).delete([0]).apply()
    with pytest.raises(StaleDatasetError, match="handed to this process"):
        pickle.loads(view)


def test_a_dataset_that_is_gone_is_stale(tmp_path):
    write_dataset(tmp_path / "arm", [4, 5])
    dataset = reel.open_dataset(tmp_path / "arm")
    (tmp_path / "arm/meta/info.json").unlink()
    with pytest.raises(StaleDatasetError):
        dataset.read([0], ["action"])


def test_whoever_reads_during_a_change_waits_until_it_is_carried_out(tmp_path):
    write_dataset(tmp_path, [4, 5])
    looking = Unchanged(read_manifest(tmp_path))
    (tmp_path / DECIDED_FOLDER).mkdir(parents=True)
    writer = threading.Timer(0.1, (tmp_path / DECIDED_FOLDER).rmdir)
    writer.start()
    looking.confirm()
    assert not (tmp_path / DECIDED_FOLDER).exists()
    writer.join()


def test_a_change_whose_writer_died_is_not_waited_for_twice(tmp_path, monkeypatch):
    write_dataset(tmp_path, [4, 5])
    before = Unchanged(read_manifest(tmp_path))
    (tmp_path / DECIDED_FOLDER).mkdir(parents=True)
    pauses: list[float] = []
    monkeypatch.setattr("roboreel.frames.unchanged.time.sleep", pauses.append)
    monkeypatch.setattr(unchanged, "_PATIENCE_S", 0)
    before.confirm()
    assert len(pauses) <= 1
    pauses.clear()
    before.confirm()
    Unchanged(read_manifest(tmp_path)).confirm()  # It was there when this one was opened.
    assert not pauses


def test_a_manifest_extends_one_that_has_its_first_episodes_in_the_same_places(tmp_path):
    old = make_manifest(tmp_path, [4, 5])
    assert extends(old, old)
    assert extends(old, make_manifest(tmp_path, [4, 5, 6]))
    for other in (
        make_manifest(tmp_path, [4]),
        make_manifest(tmp_path, [5, 4, 6]),
        replace(old, fps=15),
        replace(old, tasks={0: "something else"}),
        replace(old, features={}),
    ):
        assert not extends(old, other)


def test_before_v30_the_files_of_added_episodes_have_names_of_their_own(tmp_path):
    write_dataset_v2(tmp_path / "old", [4, 5])
    write_dataset_v2(tmp_path / "new", [4, 5, 6])
    old, new = read_manifest(tmp_path / "old"), read_manifest(tmp_path / "new")
    assert extends(old, new)
    moved = replace(new.data_files, template="data/elsewhere-{episode_index:06d}.parquet")
    assert not extends(old, replace(new, data_files=moved))
