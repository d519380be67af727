"""A dataset that is held open across a change is read as it was, or refused; never mixed."""

import json
import multiprocessing
import pickle
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.commit import Change, Commit, Workshop, carry_out, locked, undo_change
from roboreel.commit.steps import Step
from roboreel.edit import edit_dataset
from roboreel.errors import StaleDatasetError, UnfinishedChangeError
from roboreel.format import manifest_state, read_manifest
from roboreel.format.paths import STEPS_PATH
from roboreel.frames.unchanged import Unchanged, extends
from roboreel.lerobot import LeRobotDataset
from roboreel.loading import Loader, Samples
from roboreel.loading.batches import BatchReader
from roboreel.loading.workers.worker import Share, serve
from roboreel.record.recover import recover_dataset
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


@pytest.mark.parametrize("version", VERSIONS)
def test_whoever_opens_a_file_after_a_change_is_told_so_also_where_names_are_new(tmp_path, version):
    """In v3.0 the old file is gone, which would look like damage."""
    root = clean_dataset(tmp_path / "arm", version)
    dataset, mapped = reel.open_dataset(root), reel.open_dataset(root, numbers="mapped")
    edit_dataset(root).delete([0, 1, 2]).apply()
    with pytest.raises(StaleDatasetError):
        dataset.read([0], ["observation.state"])
    with pytest.raises(StaleDatasetError):
        dataset.read([0], [FRONT])
    with pytest.raises(StaleDatasetError):
        next(dataset.episodes[0].stream(FRONT))
    with pytest.raises(StaleDatasetError):
        mapped.read([0], [FRONT])


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


# --- a change that was decided and is not finished


def leave_steps(root: Path, change: str | None) -> Path:
    """Write the list of steps of a commit whose steps are done, as its process leaves it."""
    steps = root / STEPS_PATH
    steps.parent.mkdir(parents=True)
    listed: dict[str, Any] = {
        "change": change,
        "time": "now",
        "steps": [],
        "number": None,
        "purge": False,
    }
    steps.write_text(json.dumps(listed))
    return steps


def test_whoever_reads_during_a_change_waits_until_it_is_carried_out(tmp_path):
    write_dataset(tmp_path, [4, 5])
    looking = Unchanged(read_manifest(tmp_path))
    steps = leave_steps(tmp_path, "edit: delete 1")
    writer = threading.Timer(0.1, steps.unlink)
    writer.start()
    looking.confirm()
    read_manifest(tmp_path)
    assert not steps.exists()
    writer.join()


def test_episodes_being_added_are_not_waited_for(tmp_path, monkeypatch):
    write_dataset(tmp_path, [4, 5])
    before = Unchanged(read_manifest(tmp_path))
    leave_steps(tmp_path, None)
    monkeypatch.setattr("roboreel.format.manifest_state.time.sleep", pytest.fail)
    before.confirm()
    before.confirm()
    Unchanged(read_manifest(tmp_path)).confirm()


@pytest.mark.parametrize("left", ["{", "{}", "null", '{"change": 7}'])
def test_a_list_of_steps_that_says_nothing_is_taken_for_that_of_a_change(tmp_path, dead, left):
    write_dataset(tmp_path, [4, 5])
    steps = leave_steps(tmp_path, None)
    steps.write_text(left)
    with pytest.raises(UnfinishedChangeError):
        reel.open_dataset(tmp_path)


@pytest.fixture
def dead(monkeypatch):
    """No change that is found is waited for."""
    monkeypatch.setattr(manifest_state, "_PATIENCE_S", 0)


def stop_after(several: int, act: Callable[[], object]) -> bool:
    """Act, and die after some steps of the commit; return whether it came so far."""
    steps = count()
    do = carry_out._Carrying._do

    def die(self: Any, step: Step) -> None:
        if next(steps) == several:
            raise KeyboardInterrupt
        do(self, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carry_out._Carrying, "_do", die)
        try:
            act()
        except KeyboardInterrupt:
            return True
    return False


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("undo", [False, True])
def test_a_change_that_was_decided_and_not_finished_is_refused(tmp_path, dead, version, undo):
    """Else rows of one episode would come with images of another."""
    made = clean_dataset(tmp_path / "made", version)
    for several in count():
        root = tmp_path / f"stopped-{several}"
        shutil.copytree(made, root)
        act = edit_dataset(root).delete([1]).apply
        if undo:
            act()
        dataset = reel.open_dataset(root)
        dataset.read([0], ["observation.state"])
        pickled = pickle.dumps(dataset)
        if not stop_after(several, partial(undo_change, root) if undo else act):
            break
        what = "undo of edit: " if undo else "'edit: "
        message = rf"{what}.*' of '20.*' was decided.*`roboreel recover {root}`"
        with pytest.raises(UnfinishedChangeError, match=message):
            reel.open_dataset(root)
        with pytest.raises(UnfinishedChangeError, match=message):
            LeRobotDataset("arm", root=root)
        with pytest.raises(UnfinishedChangeError, match=message):
            pickle.loads(pickled)  # as a worker does
        with pytest.raises(UnfinishedChangeError, match=message):
            dataset.read([len(dataset) - 1], [FRONT])
        with pytest.raises(UnfinishedChangeError, match=message):
            dataset.read([len(dataset) - 1], ["observation.state"])
        with pytest.raises(UnfinishedChangeError, match=message):
            list(Loader(dataset, 9))
        dataset.read([0], ["observation.state"])  # of a file that is open
        assert recover_dataset(root).finished
        assert len(reel.open_dataset(root).episodes) == len(dataset.episodes) + (1 if undo else -1)
    assert several > 3


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


# --- processes that read for another one


@pytest.mark.parametrize("version", VERSIONS)
def test_a_pickle_refuses_a_dataset_whose_tasks_were_changed_in_their_places(tmp_path, version):
    root = clean_dataset(tmp_path / "arm", version)
    pickled = pickle.dumps(reel.open_dataset(root))
    edit_dataset(root).set_task([2], "something else").apply()
    shutil.copytree(root, tmp_path / "changed")
    with pytest.raises(StaleDatasetError, match="Open it again"):
        pickle.loads(pickled)
    shutil.rmtree(root / ".roboreel")  # It is told by the metadata alone, too.
    with pytest.raises(StaleDatasetError, match="Open it again"):
        pickle.loads(pickled)


def test_a_pickle_refuses_files_of_the_same_names_with_other_values(tmp_path):
    root = clean_dataset(tmp_path / "arm", "v2.1")
    pickled = pickle.dumps(reel.open_dataset(root))
    with locked(Workshop(root)):
        commit = Commit(Workshop(root), change=Change("repair", "values in their places"))
        for path in ("data/chunk-000/episode_000000.parquet", "meta/info.json"):
            commit.add(path).write_bytes((root / path).read_bytes() + b"\n")
        commit.run()
    with pytest.raises(StaleDatasetError, match="Open it again"):
        pickle.loads(pickled)


def test_a_copy_without_the_undo_store_is_what_was_pickled(tmp_path):
    root = clean_dataset(tmp_path / "arm", "v2.1")
    edit_dataset(root).delete([0]).apply()
    pickled = pickle.dumps(reel.open_dataset(root))
    shutil.move(root, tmp_path / "original")
    shutil.copytree(tmp_path / "original", root, ignore=shutil.ignore_patterns(".roboreel*"))
    assert len(pickle.loads(pickled).episodes) == 5


@pytest.fixture
def unfinished(tmp_path, dead):
    """A dataset that is open, with a change that was decided since and whose process died."""
    root = clean_dataset(tmp_path / "arm", "v2.1")
    dataset = reel.open_dataset(root)
    assert stop_after(1, edit_dataset(root).delete([1]).apply)
    return dataset


@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"on_error": "skip"}])
def test_a_loader_waits_once_for_an_unfinished_change_and_names_the_way_out(
    unfinished, options, monkeypatch
):
    waits, settle = [], manifest_state.ManifestFiles.settle

    def count_waits(self: Any) -> None:
        waits.append(self)
        settle(self)

    monkeypatch.setattr(manifest_state.ManifestFiles, "settle", count_waits)
    for names in ([FRONT, "observation.state"], ["observation.state"]):
        with pytest.raises(UnfinishedChangeError, match=r"`roboreel recover"):
            list(Loader(Samples(unfinished, features=names), 9, **options))
    assert len(waits) == 1


def test_a_worker_that_meets_an_unfinished_change_while_it_starts_names_the_way_out(
    tmp_path, dead, monkeypatch
):
    monkeypatch.setattr("roboreel.loading.workers.worker.limit_cores", lambda count: None)
    root = clean_dataset(tmp_path / "arm", "v2.1")
    reader = BatchReader(Samples(reel.open_dataset(root)), 0, None, leaves_out=False)
    pickled = pickle.dumps(reader)
    assert stop_after(1, edit_dataset(root).delete([1]).apply)
    ours, theirs = multiprocessing.Pipe()
    ours.send_bytes(pickled)
    serve(theirs, Share(cores=1, memory_bytes=2**26))
    with pytest.raises(UnfinishedChangeError, match=r"`roboreel recover"):
        raise ours.recv().error


@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
def test_pytorchs_own_workers_name_the_way_out_of_an_unfinished_change(unfinished, start):
    data = pytest.importorskip("torch.utils.data")
    from roboreel.torch import SampleDataset

    loader = data.DataLoader(
        SampleDataset(unfinished), batch_size=9, num_workers=1, multiprocessing_context=start
    )
    with pytest.raises(UnfinishedChangeError, match=r"`roboreel recover"):
        next(iter(loader))
