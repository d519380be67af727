"""Undo: old files are kept by moving them, and come back byte by byte, wherever a process dies."""

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.commit import (
    STORE,
    WORKSHOP,
    Change,
    Commit,
    Workshop,
    finish_commit,
    list_changes,
    lock_folder,
    purge_changes,
    undo_change,
)
from roboreel.errors import CorruptFileError, DatasetInUseError, UndoError, UnsafePathError
from tests.recordings import FPS, features, record
from tests.sudden_death import dies_at

OLD = {
    "data/chunk-000/file-000.parquet": "rows",
    "data/chunk-000/file-001.parquet": "more rows",
    "videos/front/chunk-000/file-000.mp4": "images",
    "video/side/chunk-000/file-000.mp4": "misplaced",
    "meta/info.json": "old info",
    "meta/stats.json": "old stats",
}


def make(root: Path) -> Path:
    for path, text in OLD.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def change(root: Path, summary: str = "all kinds of steps") -> None:
    """Replace, add, move and remove files: every kind of step that there is."""
    finish_commit(Workshop(root))
    commit = Commit(Workshop(root), change=Change("repair", summary))
    commit.add("data/chunk-000/file-000.parquet").write_text("half of the new rows")
    commit.add("data/chunk-001/file-000.parquet").write_text("wholly new")
    commit.move("video/side/chunk-000/file-000.mp4", "videos/side/chunk-000/file-000.mp4")
    commit.add("meta/stats.json").write_text("new stats")
    commit.add("meta/info.json").write_text("new info")
    commit.remove("data/chunk-000/file-001.parquet")
    commit.add("data/chunk-000/file-000.parquet").write_text("new rows")
    commit.run()


NEW = {
    "data/chunk-000/file-000.parquet": "new rows",
    "data/chunk-001/file-000.parquet": "wholly new",
    "videos/front/chunk-000/file-000.mp4": "images",
    "videos/side/chunk-000/file-000.mp4": "misplaced",
    "meta/info.json": "new info",
    "meta/stats.json": "new stats",
}


def tree(root: Path) -> dict[str, str]:
    """Return the files of a dataset and what they hold, without the workshop and the store."""
    found = (path for path in root.rglob("*") if path.is_file())
    paths = {path.relative_to(root).as_posix(): path for path in found}
    return {k: p.read_text() for k, p in paths.items() if not k.startswith((WORKSHOP, STORE))}


def tree_hash(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not name.startswith((WORKSHOP, STORE)):
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def test_a_change_is_made_written_down_and_undone(tmp_path):
    make(tmp_path)
    change(tmp_path)
    assert tree(tmp_path) == NEW
    (past,) = list_changes(tmp_path)
    assert (past.number, past.command, past.summary) == (1, "repair", "all kinds of steps")
    assert past.roboreel == reel.__version__
    assert past.kept_bytes == len("rows" + "more rows" + "old info" + "old stats")
    written = json.loads((tmp_path / STORE / "undo" / "1" / "change.json").read_text())
    assert written["kept_bytes"] == past.kept_bytes
    assert undo_change(tmp_path) == past
    assert tree(tmp_path) == OLD
    assert not (tmp_path / STORE).exists()
    assert not (tmp_path / "data" / "chunk-001").exists()


def test_old_files_are_moved_and_share_no_bytes_with_the_new_ones(tmp_path):
    make(tmp_path)
    path = "data/chunk-000/file-000.parquet"
    before = (tmp_path / path).stat()
    moved = (tmp_path / "video/side/chunk-000/file-000.mp4").stat()
    change(tmp_path)
    kept = (tmp_path / STORE / "undo" / "1" / "files" / path).stat()
    assert (kept.st_ino, kept.st_nlink, kept.st_mtime_ns) == (before.st_ino, 1, before.st_mtime_ns)
    assert (tmp_path / "videos/side/chunk-000/file-000.mp4").stat().st_ino == moved.st_ino


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Wait for no disk: what a sync is for cannot be seen in a process that dies."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(params=["two names", "one name"])
def file_system(request, monkeypatch):
    """Hold for file systems that know several names of a file, and for those that do not."""
    if request.param == "one name":

        def refuse(*given, **more):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.long
@pytest.mark.usefixtures("file_system")
def test_wherever_a_change_dies_it_is_made_or_not_made_at_all(tmp_path):
    calls = 0
    while True:
        calls += 1
        root = make(tmp_path / str(calls))
        if not dies_at(calls, change, root):
            break
        finish_commit(Workshop(root))
        assert tree(root) in (OLD, NEW), f"call {calls}"
        assert len(list_changes(root)) == (tree(root) == NEW)
        if tree(root) == NEW:
            undo_change(root)
        assert tree(root) == OLD, f"call {calls}"
    assert calls > 25


@pytest.mark.usefixtures("file_system")
def test_wherever_an_undo_dies_it_is_made_or_not_made_at_all(tmp_path):
    changed = make(tmp_path / "changed")
    change(changed)
    calls = 0
    while True:
        calls += 1
        root = tmp_path / str(calls)
        shutil.copytree(changed, root)
        if not dies_at(calls, undo_change, root):
            break
        finish_commit(Workshop(root))
        assert tree(root) in (OLD, NEW), f"call {calls}"
        if tree(root) == NEW:
            undo_change(root)
        assert tree(root) == OLD, f"call {calls}"
        assert not list_changes(root)
    assert calls > 15


def test_readers_miss_no_file_while_a_change_is_made(tmp_path):
    calls, missing = 0, set()
    while True:
        calls += 1
        root = make(tmp_path / str(calls))
        if not dies_at(calls, change, root):
            break
        missing |= {path for path in OLD if path in NEW and not (root / path).exists()}
        if (root / "meta/info.json").read_text() == "old info":
            assert (root / "data/chunk-000/file-001.parquet").exists()
    assert not missing


def test_changes_are_undone_the_newest_first(tmp_path):
    make(tmp_path)
    states = [tree_hash(tmp_path)]
    change(tmp_path, "first")
    for summary in ["second", "third"]:
        states.append(tree_hash(tmp_path))
        commit = Commit(Workshop(tmp_path), change=Change("edit", summary))
        commit.add("meta/info.json").write_text(summary)
        commit.run()
    assert [past.number for past in list_changes(tmp_path)] == [3, 2, 1]
    for summary in ["third", "second", "first"]:
        assert undo_change(tmp_path).summary == summary
        assert tree_hash(tmp_path) == states.pop()
    with pytest.raises(UndoError, match="no change to undo"):
        undo_change(tmp_path)


@pytest.mark.parametrize("path", ["meta/stats.json", "data/chunk-001/file-000.parquet"])
def test_what_came_after_a_change_is_not_lost_by_undoing_it(tmp_path, path):
    make(tmp_path)
    change(tmp_path)
    (tmp_path / path).write_text("by somebody else")
    before = tree_hash(tmp_path)
    with pytest.raises(UndoError, match=f"no longer what 'repair' left.*{path}"):
        undo_change(tmp_path)
    assert tree_hash(tmp_path) == before


def test_a_change_of_other_files_notices_a_new_info_json_and_a_taken_place(tmp_path):
    make(tmp_path)
    commit = Commit(Workshop(tmp_path), change=Change("repair", "an orphan is set aside"))
    orphan = "data/chunk-000/file-001.parquet"
    commit.move(orphan, f"{STORE}/aside/{orphan}")
    commit.run()
    (tmp_path / orphan).write_text("recorded since")
    with pytest.raises(UndoError, match=orphan):
        undo_change(tmp_path)
    (tmp_path / orphan).unlink()
    (tmp_path / "meta/info.json").write_text("one more episode")
    with pytest.raises(UndoError, match=r"info\.json"):
        undo_change(tmp_path)
    (tmp_path / "meta/info.json").write_text(OLD["meta/info.json"])  # the time alone has changed
    undo_change(tmp_path)
    assert tree(tmp_path) == OLD


def test_a_copy_of_the_dataset_can_be_undone_though_its_times_are_new(tmp_path):
    change(make(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)
    for number, path in enumerate(tmp_path.glob("b/*/**/*.mp4")):
        moved = (tmp_path / "a" / path.relative_to(tmp_path / "b")).stat()
        os.utime(path, ns=(number, moved.st_mtime_ns))  # videos are not read: their times count
    undo_change(tmp_path / "b")
    assert tree(tmp_path / "b") == OLD


def test_an_old_file_that_is_gone_is_missed_before_anything_changes(tmp_path):
    make(tmp_path)
    change(tmp_path)
    (tmp_path / STORE / "undo/1/files/meta/stats.json").unlink()
    with pytest.raises(UndoError, match="no longer in the undo store"):
        undo_change(tmp_path)
    assert tree(tmp_path) == NEW


def test_a_recorder_that_is_open_excludes_undo(tmp_path):
    make(tmp_path)
    change(tmp_path)
    lock = lock_folder(Workshop(tmp_path))
    with pytest.raises(DatasetInUseError):
        undo_change(tmp_path)
    with pytest.raises(DatasetInUseError):
        purge_changes(tmp_path)
    lock.release()
    assert tree(tmp_path) == NEW


def test_episodes_recorded_after_a_change_are_kept(tmp_path):
    root = tmp_path / "dataset"
    with reel.create_dataset(root, fps=FPS, features=features("image", 1)) as recorder:
        record(recorder, 0, 3)
        recorder.save_episode()
    before = tree_bytes(root)
    commit = Commit(Workshop(root), change=Change("repair", "statistics"))
    commit.add("meta/stats.json").write_text("{}")
    commit.run()
    undo_change(root)
    assert tree_bytes(root) == before
    commit = Commit(Workshop(root), change=Change("repair", "statistics"))
    commit.add("meta/stats.json").write_bytes(before["meta/stats.json"])
    commit.run()
    with reel.resume_dataset(root) as recorder:
        record(recorder, 1, 2)
        recorder.save_episode()
    with pytest.raises(UndoError, match="no longer what"):
        undo_change(root)
    assert len(reel.open_dataset(root).episodes) == 2


def test_readers_and_checks_skip_the_store(tmp_path):
    root = tmp_path / "dataset"
    with reel.create_dataset(root, fps=FPS, features=features("image", 1)) as recorder:
        record(recorder, 0, 3)
        recorder.save_episode()
    before = check_dataset(root).to_json()["findings"]
    (data,) = tree_bytes(root).keys() & {"data/chunk-000/file-000.parquet"}
    commit = Commit(Workshop(root), change=Change("repair", "the same bytes"))
    for path in [data, "meta/info.json"]:
        shutil.copy(root / path, commit.add(path))
    commit.run()
    assert (root / STORE / "undo/1/files" / data).is_file()
    assert check_dataset(root).to_json()["findings"] == before
    assert len(reel.open_dataset(root)) == 3


def tree_bytes(root: Path) -> dict[str, bytes]:
    paths = (path for folder in ("data", "meta") for path in (root / folder).rglob("*.*"))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def test_purging_frees_the_oldest_and_keeps_the_newest(tmp_path):
    make(tmp_path)
    for summary in ["first", "second", "third"]:
        commit = Commit(Workshop(tmp_path), change=Change("edit", summary))
        commit.add("meta/info.json").write_text(summary)
        commit.run()
    assert purge_changes(tmp_path, keep=1) == [1, 2]
    assert [past.summary for past in list_changes(tmp_path)] == ["third"]
    undo_change(tmp_path)
    assert (tmp_path / "meta/info.json").read_text() == "second"
    assert purge_changes(tmp_path) == []
    with pytest.raises(ValueError, match="-1 changes cannot be kept"):
        purge_changes(tmp_path, keep=-1)


def test_what_is_scrubbed_leaves_no_trace_in_the_store(tmp_path):
    make(tmp_path)
    change(tmp_path)
    commit = Commit(Workshop(tmp_path), change=Change("scrub", "a face", undoable=False))
    commit.remove("data/chunk-000/file-000.parquet")
    commit.add("meta/info.json").write_text("scrubbed")
    commit.run()
    assert not (tmp_path / STORE / "undo").exists()
    assert list_changes(tmp_path) == []
    assert "new rows" not in tree(tmp_path).values()


def test_a_change_of_nothing_is_not_written_down(tmp_path):
    make(tmp_path)
    Commit(Workshop(tmp_path), change=Change("repair", "nothing")).run()
    assert list_changes(tmp_path) == []
    assert tree(tmp_path) == OLD


def test_a_file_takes_part_in_one_move_alone(tmp_path):
    make(tmp_path)
    commit = Commit(Workshop(tmp_path))
    source, target = "video/side/chunk-000/file-000.mp4", "videos/side/chunk-000/file-000.mp4"
    with pytest.raises(ValueError, match="the place is taken"):
        commit.move(source, "videos/front/chunk-000/file-000.mp4")
    with pytest.raises(ValueError, match="no such file"):
        commit.move("video/none.mp4", target)
    commit.move(source, target)
    with pytest.raises(ValueError, match="two steps"):
        commit.move(target, "videos/other.mp4")
    commit.remove("meta/stats.json")
    with pytest.raises(ValueError, match="removed or moved by an earlier step"):
        commit.add("meta/stats.json")
    with pytest.raises(UnsafePathError):
        commit.move("meta/info.json", "../info.json")


def test_history_that_cannot_be_read_says_how_to_go_on(tmp_path):
    make(tmp_path)
    change(tmp_path)
    (tmp_path / STORE / "undo/1/change.json").write_text('{"number": 1}')
    with pytest.raises(CorruptFileError, match="history --purge"):
        undo_change(tmp_path)
    assert purge_changes(tmp_path) == [1]
    assert list_changes(tmp_path) == []
