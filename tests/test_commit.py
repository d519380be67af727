"""Commits: entirely or not at all."""

import json

import pytest

from roboreel.commit.commit import WORKSHOP, Commit, finish_commit, has_commit, lock_dataset
from roboreel.errors import CorruptFileError, DatasetInUseError


def test_files_appear_where_they_shall_and_leave_when_told(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old.parquet").write_text("old")
    commit = Commit(tmp_path)
    commit.add("meta/info.json").write_text("new")
    commit.add("data/chunk-000/file-000.parquet").write_text("rows")
    commit.remove("data/old.parquet")
    commit.run()
    assert (tmp_path / "meta" / "info.json").read_text() == "new"
    assert (tmp_path / "data" / "chunk-000" / "file-000.parquet").read_text() == "rows"
    assert not (tmp_path / "data" / "old.parquet").exists()
    assert not any((tmp_path / WORKSHOP).iterdir())
    assert not has_commit(tmp_path)


def test_nothing_changes_before_the_decision(tmp_path):
    commit = Commit(tmp_path)
    commit.add("meta/info.json").write_text("new")
    assert not finish_commit(tmp_path)
    assert not (tmp_path / "meta").exists()


def test_what_was_decided_is_finished_from_any_point(tmp_path):
    decided = tmp_path / WORKSHOP / "commit"
    decided.mkdir(parents=True)
    steps = [["0", "data/a"], ["1", "data/b"], [None, "data/c"], ["2", "data/a"]]
    (decided / "steps.json").write_text(json.dumps(steps))
    # The first file was moved already, the others were not.
    (tmp_path / "data").mkdir()
    for path, text in [("data/a", "first"), ("data/c", "gone")]:
        (tmp_path / path).write_text(text)
    (decided / "1").write_text("second")
    (decided / "2").write_text("third")
    assert finish_commit(tmp_path)
    assert {p.name: p.read_text() for p in (tmp_path / "data").iterdir()} == {
        "a": "third",
        "b": "second",
    }
    assert not finish_commit(tmp_path)


@pytest.mark.parametrize(
    "step",
    [
        ["0", "../outside"],
        ["0", "data/../../outside"],
        ["0", "/etc/passwd"],
        ["0", "data\\..\\..\\outside"],
        ["../0", "data/a"],
        [None, "README.md"],
        [None, ""],
    ],
)
def test_a_commit_reaches_no_further_than_the_dataset(tmp_path, step):
    decided = tmp_path / "dataset" / WORKSHOP / "commit"
    decided.mkdir(parents=True)
    (decided / "0").write_text("evil")
    (decided / "steps.json").write_text(json.dumps([step]))
    with pytest.raises(CorruptFileError, match="leads out of the dataset"):
        finish_commit(tmp_path / "dataset")
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


@pytest.mark.parametrize("text", ["", "[", "{}x", "[1]", '["abc"]', "[[1,2,3]]", '"ab"', "7"])
def test_a_list_of_steps_that_is_none_says_so(tmp_path, text):
    decided = tmp_path / WORKSHOP / "commit"
    decided.mkdir(parents=True)
    (decided / "steps.json").write_text(text)
    with pytest.raises(CorruptFileError):
        finish_commit(tmp_path)


def test_a_second_writer_is_told_who_is_there(tmp_path):
    lock = lock_dataset(tmp_path)
    with pytest.raises(DatasetInUseError, match="close that recorder first"):
        lock_dataset(tmp_path)
    lock.release()
    lock_dataset(tmp_path).release()
