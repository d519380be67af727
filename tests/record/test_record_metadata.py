"""What is said of an episode when it is saved."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.errors import EditError, FrameError
from roboreel.record import recorder as recorder_module
from roboreel.record.compact import compact_dataset
from roboreel.record.recover import recover_dataset
from tests.recordings import FPS, check_dataset, features, record

STORED = {"success": True, "operator": "station-2", "score": 0.5, "attempt": 3}


def start(root, **options):
    options = {"compact_on_close": False, **options}
    return reel.create_dataset(root, fps=FPS, features=features(), **options)


def save(recorder, episode, metadata=None, length=3):
    record(recorder, episode, length)
    recorder.save_episode(metadata=metadata)


def stored(root):
    return [episode.metadata for episode in reel.open_dataset(root).episodes]


def table_files(root):
    return sorted((root / "meta" / "episodes").glob("*/*.parquet"))


def test_metadata_is_stored_with_its_types(tmp_path):
    with start(tmp_path / "d") as recorder:
        save(recorder, 0, STORED)
        save(recorder, 1, {**STORED, "score": 2, "attempt": np.int32(4)})
    assert stored(tmp_path / "d") == [STORED, {**STORED, "score": 2.0, "attempt": 4}]
    columns = reel.open_dataset(tmp_path / "d").episodes.metadata
    assert {name: column.dtype.kind for name, column in columns.items()} == {
        "success": "b", "operator": "O", "score": "f", "attempt": "i"
    }  # fmt: skip
    check_dataset(tmp_path / "d", [3, 3])


def test_episodes_without_it_have_nulls_whichever_came_first(tmp_path):
    with start(tmp_path / "d") as recorder:
        save(recorder, 0)
        save(recorder, 1, {"success": True})
        save(recorder, 2, {"operator": "ada", "success": None})
        save(recorder, 3)
    assert stored(tmp_path / "d") == [
        {"success": None, "operator": None},
        {"success": True, "operator": None},
        {"success": None, "operator": "ada"},
        {"success": None, "operator": None},
    ]
    # LeRobot reads only tables whose files are alike.
    schemas = [pq.read_schema(path).remove_metadata() for path in table_files(tmp_path / "d")]
    assert len(schemas) == 4
    assert all(schema == schemas[0] for schema in schemas)
    check_dataset(tmp_path / "d", [3, 3, 3, 3])


def test_resuming_and_compacting_keep_it(tmp_path):
    with start(tmp_path / "d") as recorder:
        save(recorder, 0, {"success": True})
    with reel.resume_dataset(tmp_path / "d", compact_on_close=False) as recorder:
        save(recorder, 1, {"operator": "ada"})
    expected = [{"success": True, "operator": None}, {"success": None, "operator": "ada"}]
    assert stored(tmp_path / "d") == expected
    assert compact_dataset(tmp_path / "d")
    assert len(table_files(tmp_path / "d")) == 1
    assert stored(tmp_path / "d") == expected
    with reel.resume_dataset(tmp_path / "d") as recorder:
        save(recorder, 2, {"success": False})
    assert stored(tmp_path / "d") == [*expected, {"success": False, "operator": None}]
    check_dataset(tmp_path / "d", [3, 3, 3])


def test_recovering_keeps_it_when_saving_was_interrupted(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    recorder = start(tmp_path / "d")
    save(recorder, 0, {"success": True})
    monkeypatch.setattr(recorder_module, "save_episodes", fail)
    with pytest.raises(KeyboardInterrupt):
        save(recorder, 1, {"success": False})
    recorder.close()
    assert len(reel.open_dataset(tmp_path / "d").episodes) == 1
    recover_dataset(tmp_path / "d")
    assert stored(tmp_path / "d") == [
        {"success": True, "recovered": None},
        {"success": False, "recovered": True},
    ]
    check_dataset(tmp_path / "d", [3, 3])


@pytest.mark.parametrize("column", ["yes", 3])
def test_a_column_of_the_users_own_stays_as_it_is(tmp_path, column):
    recorder = start(tmp_path / "d")
    save(recorder, 0, {"recovered": column})
    record(recorder, 1, 3)
    recorder.close()
    recover_dataset(tmp_path / "d")
    assert stored(tmp_path / "d") == [{"recovered": column}, {"recovered": None}]


def test_an_open_episode_that_is_recovered_says_only_that(tmp_path):
    recorder = start(tmp_path / "d")
    save(recorder, 0, {"success": True})
    record(recorder, 1, 3)
    recorder.close()
    recover_dataset(tmp_path / "d")
    assert stored(tmp_path / "d") == [
        {"success": True, "recovered": None},
        {"success": None, "recovered": True},
    ]


@pytest.mark.parametrize(
    "name",
    ["episode_index", "length", "tasks", "dataset_to_index", "stats/action/mean", "videos/a/x",
     "data/file_index", "meta/episodes/file_index", "a/b", "", 3],
)  # fmt: skip
def test_names_of_lerobots_own_are_refused_and_the_episode_stays_open(name, tmp_path):
    with start(tmp_path / "d") as recorder:
        record(recorder, 0, 3)
        with pytest.raises(FrameError, match="cannot be set"):
            recorder.save_episode(metadata={name: True})
        assert recorder.open_frames == 3
        recorder.save_episode(metadata={"success": True})
    assert stored(tmp_path / "d") == [{"success": True}]


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"x", np.zeros(2), 1j])
def test_values_that_are_not_plain_are_refused(value, tmp_path):
    with start(tmp_path / "d") as recorder:
        record(recorder, 0, 3)
        with pytest.raises(FrameError, match=r"metadata\['success'\]"):
            recorder.save_episode(metadata={"success": value})
        with pytest.raises(FrameError, match="64 bits"):
            recorder.save_episode(metadata={"success": 2**63})
        with pytest.raises(FrameError, match="values by name"):
            recorder.save_episode(metadata=["success"])
        recorder.discard_episode()


@pytest.mark.parametrize(
    ("value", "says"), [("\ud800", "half of a character"), (float("nan"), "finite"),
                        (np.float32("inf"), "finite"), (-(2**63) - 1, "64 bits")],
)  # fmt: skip
def test_values_that_no_table_holds_are_refused_as_an_edit_refuses_them(value, says, tmp_path):
    with start(tmp_path / "d") as recorder:
        record(recorder, 0, 3)
        with pytest.raises(FrameError, match=rf"metadata\['note'\].*{says}"):
            recorder.save_episode(metadata={"note": value})
        with pytest.raises(FrameError, match="cannot be set"):
            recorder.save_episode(metadata={"\ud800": 1})
        assert recorder.open_frames == 3
        recorder.save_episode(metadata={"note": "lifted"})
    with pytest.raises(EditError, match=rf"note.*{says}"):
        reel.edit_dataset(tmp_path / "d").set([0], {"note": value})
    assert stored(tmp_path / "d") == [{"note": "lifted"}]


def test_recovering_keeps_the_values_that_still_fit(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(recorder_module, "save_episodes", fail)
    recorder = start(tmp_path / "d")
    with pytest.raises(KeyboardInterrupt):
        save(recorder, 0, {"success": False, "score": 0.5})
    recorder.close()
    path = next((tmp_path / "d").rglob("metadata.json"))
    path.write_text(path.read_text().replace("0.5", "NaN"))  # earlier versions took it
    recover_dataset(tmp_path / "d")
    assert stored(tmp_path / "d") == [{"success": False, "recovered": True}]


def test_a_column_keeps_its_type(tmp_path):
    with start(tmp_path / "d") as recorder:
        save(recorder, 0, {"success": True})
        record(recorder, 1, 3)
        with pytest.raises(FrameError, match="'yes', but this column holds booleans"):
            recorder.save_episode(metadata={"success": "yes"})
        recorder.save_episode(metadata={"success": False})
    assert stored(tmp_path / "d") == [{"success": True}, {"success": False}]
