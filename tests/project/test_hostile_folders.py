"""Datasets from elsewhere: no link in them leads a writer out, and no step is carried out blindly."""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.commit import (
    STORE,
    WORKSHOP,
    Change,
    Commit,
    Workshop,
    finish_commit,
    has_commit,
    list_changes,
    lock_folder,
    purge_changes,
    undo_change,
)
from roboreel.commit.real_folder import RealFolder
from roboreel.errors import CorruptFileError, DatasetError, ForeignChangeError, UnsafePathError
from roboreel.record.compact import compact_dataset
from roboreel.record.journal import read_records
from roboreel.record.recover import recover_dataset
from roboreel.repair import repair_dataset
from tests.factory import edit_info, write_dataset
from tests.recordings import FPS, features, record

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")

VICTIMS = ("chunk-000/file-000.mp4", "observation.images.a/chunk-000/file-000.mp4")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    root = tmp_path_factory.mktemp("recorded") / "dataset"
    with reel.create_dataset(root, fps=FPS, features=features("image", 1)) as recorder:
        for episode in range(2):
            record(recorder, episode, 3)
            recorder.save_episode()
    return root


@pytest.fixture
def dataset(recorded, tmp_path):
    """A dataset beside a folder `home`, whose files nobody may change."""
    shutil.copytree(recorded, tmp_path / "dataset")
    for path in VICTIMS:
        (tmp_path / "home" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / path).write_text("precious")
    return tmp_path / "dataset"


def decide(root: Path, steps: object, staged: str = "evil") -> Path:
    folder = Workshop(root).decided
    folder.mkdir(parents=True)
    (folder / "0").write_text(staged)
    (folder / "steps.json").write_text(json.dumps(steps))
    return folder


def contents(root: Path) -> dict[str, str]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_text() for path in found}


def resume(root: Path) -> None:
    reel.resume_dataset(root).close()


def relabel(root: Path) -> None:
    reel.edit_dataset(root).set_task([0], "another task").apply()


def drop(root: Path) -> None:
    repair_dataset(root, drop=[0])


def repair(root: Path) -> None:
    edit_info(root, total_frames=99)
    repair_dataset(root)


WRITERS = [recover_dataset, compact_dataset, resume, relabel, drop, repair]
ATTACKS = {
    "a folder": ("videos", "../home", "videos/chunk-000/file-000.mp4"),
    "a chunk": ("videos/cam/chunk-000", "../../../home/chunk-000", "videos/cam/chunk-000/file-000.mp4"),
    "the workshop": (WORKSHOP, "../home", "data/chunk-000/file-009.parquet"),
    "the store": (STORE, "../home", "data/chunk-000/file-009.parquet"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_follows_a_link_of_a_foreign_dataset(dataset, writer, attack):
    link, leads_to, target = ATTACKS[attack]
    before = contents(dataset.parent / "home")
    decide(dataset, [["0", target], [None, target]])
    if link == WORKSHOP:
        shutil.rmtree(dataset / WORKSHOP)
    (dataset / link).parent.mkdir(parents=True, exist_ok=True)
    (dataset / link).symlink_to(leads_to)
    with pytest.raises(UnsafePathError, match=r"symbolic link.*cp -rL"):
        writer(dataset)
    assert contents(dataset.parent / "home") == before
    assert len(reel.open_dataset(dataset).episodes) == 2


PIPES = [
    f"{WORKSHOP}/lock", f"{WORKSHOP}/commit/steps.json", f"{WORKSHOP}/open/rows.journal",
    f"{WORKSHOP}/open/4.pictures", f"{WORKSHOP}/numbers.npz", f"{STORE}/undo/1/change.json",
    "data/chunk-000/file-001.parquet",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", PIPES)
@pytest.mark.parametrize("writer", [*WRITERS, undo_change])
def test_no_writer_waits_for_a_pipe_of_a_foreign_dataset(dataset, writer, name):
    path = dataset / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(DatasetError):
        writer(dataset)


def test_an_endless_journal_is_read_up_to_its_first_bad_record(dataset):
    with reel.resume_dataset(dataset) as recorder:
        record(recorder, 1, 2)
        journal = dataset / WORKSHOP / "open/rows.journal"
        os.truncate(journal, 2**42)
        records, left = read_records(journal)
        assert len(records) == 3
        assert left > 2**41
        recorder.discard_episode()


def test_sketches_that_unpack_to_gigabytes_are_made_again(dataset):
    path = dataset / WORKSHOP / "numbers.npz"
    with np.load(path) as held:
        kept: dict[str, Any] = dict(held)
    large: dict[str, Any] = {f"0.{i}": np.zeros(2**23) for i in range(3)}
    np.savez_compressed(path, **kept, **large)
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    try:
        resume(dataset)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    with np.load(path) as held:
        assert held.files == list(kept)


def test_a_lock_that_is_a_link_is_not_opened(dataset):
    victim = dataset.parent / "home" / VICTIMS[0]
    (dataset / WORKSHOP).mkdir(exist_ok=True)
    (dataset / WORKSHOP / "lock").unlink(missing_ok=True)
    (dataset / WORKSHOP / "lock").symlink_to(victim)
    with pytest.raises(UnsafePathError):
        lock_folder(Workshop(dataset))
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("openat", [True, False])
def test_a_link_that_appears_after_the_check_leads_nowhere(dataset, openat):
    (dataset / "videos").symlink_to("../home")
    folder = RealFolder(dataset, openat=openat)
    inside = "videos/chunk-000/file-000.mp4"
    with pytest.raises(UnsafePathError):
        folder.remove(inside)
    with pytest.raises(UnsafePathError):
        folder.link("meta/info.json", "videos/new.mp4")
    for ends in [("meta/info.json", inside), (inside, "data/stolen.mp4")]:
        with pytest.raises(UnsafePathError):
            folder.move(*ends)
    assert contents(dataset.parent / "home") == dict.fromkeys(VICTIMS, "precious")
    assert (dataset / "meta/info.json").is_file()


@pytest.mark.parametrize("openat", [True, False])
def test_a_real_folder_moves_links_and_removes_files(tmp_path, openat):
    folder = RealFolder(tmp_path, openat=openat)
    (tmp_path / "a.json").write_text("a")
    folder.move("a.json", "deep/er/a.json")
    assert folder.link("deep/er/a.json", "b/b.json")
    assert (tmp_path / "b/b.json").stat().st_nlink == 2
    folder.remove("deep/er/a.json")
    folder.remove("deep/er/a.json")
    folder.prune("deep/er/a.json")
    assert contents(tmp_path) == {"b/b.json": "a"}
    assert not (tmp_path / "deep").exists()
    assert tmp_path in folder.made


def test_steps_move_regular_files_alone(dataset):
    folder = decide(dataset, [["0", "data/chunk-000/file-001.parquet"]])
    (folder / "0").unlink()
    (folder / "0").symlink_to(dataset.parent / "home" / VICTIMS[0])
    with pytest.raises(UnsafePathError):
        finish_commit(Workshop(dataset))
    assert not (dataset / "data/chunk-000/file-001.parquet").exists()


@pytest.mark.parametrize(
    "steps",
    [
        {"steps": [[None, f"{STORE}/undo/1/files/meta/info.json", None, False]]},
        {"steps": [[None, "meta/info.json", "../home/chunk-000/file-000.mp4", False]]},
        {"steps": [[None, "../home/x.mp4", "meta/info.json", False]]},
        {"steps": [[None, f"{STORE}/undo/../../../home/x.mp4", "meta/info.json", False]]},
        {"steps": [[None, "meta/x.json", f"{WORKSHOP}/lock", False]]},
        {"steps": [["steps.json", "meta/info.json", None, False]]},
        {"steps": [["half \ud800", "meta/info.json", None, False]]},
        {"steps": [["nul\0", "meta/info.json", None, False]]},
    ],
)
def test_steps_of_no_dataset_shape_are_not_carried_out(dataset, steps):
    before = contents(dataset.parent / "home"), (dataset / "meta/info.json").read_text()
    decide(dataset, {"number": None, "purge": False, **steps})
    with pytest.raises(CorruptFileError, match=r"leads out of the dataset.*do not trust it"):
        finish_commit(Workshop(dataset))
    assert (contents(dataset.parent / "home"), (dataset / "meta/info.json").read_text()) == before


def test_steps_of_another_user_are_carried_out_only_when_asked(dataset, monkeypatch):
    decide(dataset, [["0", "meta/stats.json"]], staged="{}")
    ours, elsewhere = os.geteuid(), os.fstat
    monkeypatch.setattr(os, "geteuid", lambda: ours + 1)

    def as_another(handle):
        found = list(elsewhere(handle))
        found[4] = ours + 1
        return os.stat_result(found)

    with monkeypatch.context() as patched:
        patched.setattr("roboreel.commit.carry_out.os.fstat", as_another)
        with pytest.raises(ForeignChangeError, match=rf"user {ours} had decided.*--any-owner"):
            recover_dataset(dataset)
        assert (dataset / "meta/stats.json").read_text() != "{}"
    # Where all files are shown as one user's, ours are too.
    assert recover_dataset(dataset, any_owner=True).finished
    assert (dataset / "meta/stats.json").read_text() == "{}"


@pytest.mark.parametrize("text", ["", "\0" * 8, "[[", '{"steps": 7}', "[" * 100_000])
def test_a_damaged_list_of_steps_is_set_aside_and_recording_goes_on(dataset, text):
    (decide(dataset, []) / "steps.json").write_text(text)
    with pytest.raises(CorruptFileError, match=r"cannot be read.*roboreel recover"):
        finish_commit(Workshop(dataset))
    assert recover_dataset(dataset, dry_run=True).set_aside == (f"{WORKSHOP}/commit",)
    found = recover_dataset(dataset)
    assert not found.finished
    assert found.set_aside == (f"{WORKSHOP}/commit",)
    assert [p.read_text() for p in (dataset / WORKSHOP / "aside").rglob("0")] == ["evil"]
    assert recover_dataset(dataset).set_aside == ()


def test_a_snapshot_of_the_hub_is_read_and_not_changed(recorded, tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    for number, path in enumerate(p for f in ("meta", "data") for p in (recorded / f).rglob("*.*")):
        shutil.copy(path, blobs / str(number))
        link = snapshot / path.relative_to(recorded)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blobs / str(number), link.parent))
    assert len(reel.open_dataset(snapshot).episodes) == 2
    with pytest.raises(UnsafePathError, match=r"snapshot in the Hub's cache.*--out DIR"):
        recover_dataset(snapshot)
    assert not (snapshot / WORKSHOP).exists()


def test_undo_of_a_foreign_dataset_stays_inside_it(dataset):
    commit = Commit(Workshop(dataset), change=Change("repair", "x"))
    commit.add("meta/stats.json").write_text("{}")
    commit.run()
    victim = dataset.parent / "home" / VICTIMS[0]
    path = dataset / STORE / "undo/1/change.json"
    change = json.loads(path.read_text())
    found = victim.stat()
    after = {"size_bytes": found.st_size, "mtime_ns": found.st_mtime_ns, "sha256": None}
    change["files"][0] |= {"path": f"../home/{VICTIMS[0]}", "before": None, "after": after}
    path.write_text(json.dumps(change))
    with pytest.raises(UnsafePathError, match=r"\.\./home"):
        undo_change(dataset)
    assert contents(dataset.parent / "home") == dict.fromkeys(VICTIMS, "precious")
    assert not has_commit(Workshop(dataset))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("path", "data/a\0b"),
        ("path", "data/\ud800"),
        ("moved_from", "data/\udfff"),
        ("after", {"size_bytes": 10**400, "mtime_ns": 0}),
    ],
)
def test_names_and_sizes_that_no_file_has_cannot_be_undone(dataset, key, value):
    commit = Commit(Workshop(dataset), change=Change("repair", "x"))
    commit.add("meta/stats.json").write_text("{}")
    commit.run()
    path = dataset / STORE / "undo/1/change.json"
    change = json.loads(path.read_text())
    change["files"][0][key] = value
    path.write_text(json.dumps(change))
    with pytest.raises(DatasetError):
        undo_change(dataset)
    purge_changes(dataset)
    assert list_changes(dataset) == []


STARTERS = {
    "a job": """
from roboreel.jobs import Processes, execute
from tests.jobs.job_operations import squares
print(execute(squares(2), on=Processes(1), folder="../job"))
""",
    "a loader": """
import roboreel
from roboreel.loading import Loader
if __name__ == "__main__":
    batches = list(Loader(roboreel.open_dataset("../arm"), 2, workers=1))
    print(sum(len(batch["index"]) for batch in batches))
""",
    "a helper": """
from roboreel.errors import RemoteError
from roboreel.mirror.addresses import parse_address
from roboreel.remote.helper import ask_helper
try:
    ask_helper(parse_address("http://127.0.0.1:1/arm"), {}, "no_such_method")
except (AttributeError, RemoteError, ImportError) as error:
    print(type(error).__name__)
""",
}


@pytest.mark.parametrize("starter", STARTERS)
def test_no_process_that_is_started_imports_from_the_working_directory(tmp_path, starter):
    write_dataset(tmp_path / "arm", [2])
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "start.py").write_text(STARTERS[starter])
    (tmp_path / "here").mkdir()
    for name in ("linecache", "types", "pickle", "signal", "json", "multiprocessing", "roboreel"):
        (tmp_path / "here" / f"{name}.py").write_text(f"open('../hit-{name}', 'w')")
    done = subprocess.run(
        [sys.executable, "../scripts/start.py"],
        cwd=tmp_path / "here",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
    assert list(tmp_path.glob("hit-*")) == []
