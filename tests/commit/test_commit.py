"""Commits: entirely or not at all."""

import json
from pathlib import Path

import pytest

from roboreel.commit import (
    WORKSHOP,
    Commit,
    Workshop,
    carry_out,
    finish_commit,
    has_commit,
    lock_folder,
)
from roboreel.commit.real_folder import RealFolder
from roboreel.errors import CorruptFileError, DatasetInUseError, UnsafePathError


def test_files_appear_where_they_shall_and_leave_when_told(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old.parquet").write_text("old")
    commit = Commit(Workshop(tmp_path))
    commit.add("meta/info.json").write_text("new")
    commit.add("data/chunk-000/file-000.parquet").write_text("rows")
    commit.remove("data/old.parquet")
    commit.run()
    assert (tmp_path / "meta" / "info.json").read_text() == "new"
    assert (tmp_path / "data" / "chunk-000" / "file-000.parquet").read_text() == "rows"
    assert not (tmp_path / "data" / "old.parquet").exists()
    assert not any((tmp_path / WORKSHOP).iterdir())
    assert not has_commit(Workshop(tmp_path))


def test_new_folders_are_on_the_disk_before_a_file_moves_there(tmp_path, monkeypatch):
    """A power cut between the two would take the folder, and the file with it."""
    seen: list[str | Path] = []
    real_move = RealFolder.move

    def move(self: RealFolder, source: str, target: str) -> None:
        seen.append(target)
        real_move(self, source, target)

    monkeypatch.setattr(carry_out, "sync_directory", seen.append)
    monkeypatch.setattr(RealFolder, "move", move)
    commit = Commit(Workshop(tmp_path))
    commit.add("data/chunk-000/file-000.parquet").write_text("rows")
    commit.run()
    moved = seen.index("data/chunk-000/file-000.parquet")
    assert {tmp_path, tmp_path / "data"} <= set(seen[:moved])


def test_an_old_index_is_gone_from_the_disk_before_what_it_describes_leaves(tmp_path, monkeypatch):
    """A power cut between the two would bring a table back that names files that are gone."""
    seen: list[str | Path] = []
    real_remove = RealFolder.remove

    def remove(self: RealFolder, path: str) -> None:
        seen.append(path)
        real_remove(self, path)

    index, data = "meta/episodes/chunk-000/file-001.parquet", "data/chunk-000/file-001.parquet"
    for path in (index, data):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("old")
    monkeypatch.setattr(carry_out, "sync_directory", seen.append)
    monkeypatch.setattr(RealFolder, "remove", remove)
    commit = Commit(Workshop(tmp_path))
    commit.remove(index)
    commit.remove(data)
    commit.run()
    assert (tmp_path / index).parent in seen[seen.index(index) : seen.index(data)]


def test_nothing_changes_before_the_decision(tmp_path):
    commit = Commit(Workshop(tmp_path))
    commit.add("meta/info.json").write_text("new")
    assert not finish_commit(Workshop(tmp_path))
    assert not (tmp_path / "meta").exists()


def test_any_folder_can_change_in_a_workshop_of_its_own(tmp_path):
    workshop = Workshop(tmp_path, ".changes", folders=("pages", "contents"), suffixes=(".txt",))
    commit = Commit(workshop)
    commit.add("pages/1.txt").write_text("page")
    commit.add("contents/all.txt").write_text("1")
    commit.run()
    assert (tmp_path / "pages" / "1.txt").read_text() == "page"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".changes", "contents", "pages"]


def decide(workshop: Workshop, steps: object) -> Path:
    """Leave a commit as a process leaves it that dies right after the decision."""
    workshop.decided.mkdir(parents=True)
    text = steps if isinstance(steps, str) else json.dumps(steps)
    (workshop.decided / "steps.json").write_text(text)
    return workshop.decided


def test_what_was_decided_is_finished_from_any_point(tmp_path):
    targets = ["data/a.json", "data/b.json", "data/c.json", "data/a.json"]
    steps = list(zip(["0", "1", None, "2"], targets, strict=True))
    decided = decide(Workshop(tmp_path), steps)
    assert decided == tmp_path / WORKSHOP / "commit"
    # The first file was moved already, the others were not.
    (tmp_path / "data").mkdir()
    for path, text in [("data/a.json", "first"), ("data/c.json", "gone")]:
        (tmp_path / path).write_text(text)
    (decided / "1").write_text("second")
    (decided / "2").write_text("third")
    assert finish_commit(Workshop(tmp_path))
    assert {p.name: p.read_text() for p in (tmp_path / "data").iterdir()} == {
        "a.json": "third",
        "b.json": "second",
    }
    assert not finish_commit(Workshop(tmp_path))


OUTSIDE = [
    "../outside.json",
    "data/../../outside.json",
    "/etc/passwd.json",
    "data\\..\\..\\outside.json",
    "data/.hidden.json",
    "data/C:.json",
    "data/a.sh",
]


@pytest.mark.parametrize(
    "step",
    [
        *(["0", target] for target in OUTSIDE),
        ["../0", "data/a.json"],
        [None, "readme.json"],
        [None, "data"],
        [None, ""],
    ],
)
def test_a_commit_reaches_no_further_than_the_dataset(tmp_path, step):
    workshop = Workshop(tmp_path / "dataset")
    (decide(workshop, [step]) / "0").write_text("evil")
    with pytest.raises(CorruptFileError, match="leads out of the dataset"):
        finish_commit(workshop)
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


@pytest.mark.parametrize("target", [*OUTSIDE, "README.md", ""])
def test_a_step_that_could_never_be_finished_is_refused_at_once(tmp_path, target):
    commit = Commit(Workshop(tmp_path))
    with pytest.raises(UnsafePathError, match="may not change"):
        commit.add(target)
    with pytest.raises(UnsafePathError, match="may not change"):
        commit.remove(target)


@pytest.mark.parametrize("text", ["", "[", "{}x", "[1]", '["abc"]', "[[1,2,3]]", '"ab"', "7"])
def test_a_list_of_steps_that_is_none_says_so(tmp_path, text):
    decide(Workshop(tmp_path), text)
    with pytest.raises(CorruptFileError):
        finish_commit(Workshop(tmp_path))


def test_a_second_writer_is_told_who_is_there(tmp_path):
    lock = lock_folder(Workshop(tmp_path))
    with pytest.raises(DatasetInUseError, match="close that recorder first"):
        lock_folder(Workshop(tmp_path))
    lock.release()
    lock_folder(Workshop(tmp_path)).release()
