"""Writers that are stopped anywhere leave what they promised; the rest is done by ``make crash``."""

import os
import random
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from roboreel.files import write_atomically
from roboreel.io.budget import process_budget
from tests import PROJECT
from tests.faults.bringing import SCENARIOS as BRINGING
from tests.faults.changing import SCENARIOS as CHANGING
from tests.faults.copying import SCENARIOS as COPYING
from tests.faults.editing_jobs import SCENARIOS as EDITING_JOBS
from tests.faults.library import Call, Operation, can_build
from tests.faults.mirroring import SCENARIOS as MIRRORING
from tests.faults.mutants import MUTANTS
from tests.faults.powercut import MODELS, Disk, snapshot
from tests.faults.products import SCENARIOS as PRODUCTS
from tests.faults.recording import SCENARIOS as RECORDING
from tests.faults.version import list_executed, version_of
from tests.faults.working import SCENARIOS as WORKING

needs_compiler = pytest.mark.skipif(not can_build(), reason="needs gcc, on Linux")


def run_rig(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}{os.pathsep}{PROJECT}"}
    command = [sys.executable, "-m", "tests.faults", "--jobs", "2", *map(str, arguments)]
    return subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )


TWINS = {
    "resume, image",
    "new shards",
    "undo of edit, video",
    "undo of edit of v2.1, video",
    "convert, image",
    "compact, video",
    "undo of drop, video",
}
"""Of these, the scenario with the other store, or of another change, is enough here."""


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize(
    "scenarios",
    [RECORDING, [*CHANGING, *COPYING, *BRINGING, *PRODUCTS, *WORKING, *EDITING_JOBS, *MIRRORING]],
    ids=["recorders", "other writers"],
)
def test_a_writer_stopped_at_some_call_leaves_what_it_promised(scenarios):
    """The log is checked first: replayed, it gives the folder that the writer left.

    So no call that changes files is missed, not in FFmpeg, pyarrow or Rerun either.
    """
    names = [scenario.name for scenario in scenarios if can_import(scenario.modules)]
    names = [name for name in names if name not in TWINS]
    done = run_rig("--points", 1, "--only", *names)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("0 problems") == len(names), done.stdout


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_fault_of_the_commit_is_found(mutant):
    """Else the points above would be good whatever the commit does."""
    ways = ["strict, in part"] if "sync" in mutant else ["kill"]
    done = run_rig("--mutant", mutant, "--ways", *ways)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"mutant: {mutant}: found" in done.stdout


def can_import(modules: tuple[str, ...]) -> bool:
    extras = {"roboreel.rerun": "rerun", "roboreel.huggingface": "datasets"}
    return all(find_spec(extras.get(module, "os")) is not None for module in modules)


# --- which code a point was covered on


def test_the_files_whose_code_ran_are_listed_also_those_of_threads(tmp_path):
    def act() -> None:
        thread = threading.Thread(target=process_budget)
        thread.start()
        thread.join()
        write_atomically(tmp_path / "file", "text")

    list_executed(act, tmp_path / "listed")
    names = {Path(line).name for line in (tmp_path / "listed").read_text().splitlines()}
    assert names == {"files.py", "budget.py"}


@pytest.mark.long
def test_coverage_ends_when_a_file_changes_that_the_writer_imports_and_not_with_others(tmp_path):
    shutil.copytree(PROJECT / "src" / "roboreel", tmp_path / "roboreel")
    recorder = tmp_path / "roboreel" / "record" / "recorder.py"
    before = version_of([recorder])
    (tmp_path / "roboreel" / "cli" / "info.py").write_text("")
    assert version_of([recorder]) == before
    with (tmp_path / "roboreel" / "commit" / "carry_out.py").open("a") as file:
        file.write("# changed\n")
    assert version_of([recorder]) != before


# --- the models of a power cut, on calls made by hand


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_bytes(b"before")
    return path


def state(path: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()
    }


def states(folder: Path, calls: list[Call], model: str, at: int) -> list[dict[str, bytes]]:
    disk = Disk(folder, snapshot(folder), calls)
    found = []
    for seed in range(30):
        target = folder.parent / "state"
        shutil.rmtree(target, ignore_errors=True)
        disk.cut(at, model, random.Random(seed)).write(target)
        found.append(state(target))
    return found


def replace(folder: Path, *, sync: bool, sync_folder: bool) -> list[Call]:
    """Return the calls that replace a file by a new one."""
    new, old = str(folder / "new"), str(folder / "old")
    calls = [
        Call(Operation.CREATE, True, new, "", 1, 0, b""),
        Call(Operation.WRITE, True, new, "", 1, 0, b"after"),
    ]
    if sync:
        calls.append(Call(Operation.SYNC, True, new, "", 1, 0, b""))
    calls.append(Call(Operation.RENAME, True, new, old, 0, 0, b""))
    if sync_folder:
        calls.append(Call(Operation.SYNC, True, str(folder), "", 2, 0, b""))
    return calls


def test_what_was_synced_is_kept_in_every_model(folder):
    calls = replace(folder, sync=True, sync_folder=True)
    for model in MODELS:
        assert {"old": b"after"} in states(folder, calls, model, len(calls))
        assert all(s == {"old": b"after"} for s in states(folder, calls, model, len(calls)))


def test_without_a_sync_of_the_file_the_strict_model_finds_it_empty_or_zeros(folder):
    calls = replace(folder, sync=False, sync_folder=True)
    assert {"old": b""} in states(folder, calls, "strict", len(calls))
    assert {"old": bytes(5)} in states(folder, calls, "strict, zero tails", len(calls))
    assert all(s == {"old": b"after"} for s in states(folder, calls, "ordered", len(calls)))


def test_zeros_take_the_place_of_what_was_not_synced_and_of_nothing_else(folder):
    old, inode = str(folder / "old"), (folder / "old").stat().st_ino
    calls = [
        Call(Operation.WRITE, True, old, "", inode, 0, b"AB"),
        Call(Operation.WRITE, True, old, "", inode, 3, b"D"),
    ]
    found = states(folder, calls, "strict, zero tails", len(calls))
    contents = [state["old"] for state in found]
    assert set(contents) == {b"ABfDre", b"ABf\0re", b"\0\0f\0re"}


def test_without_a_sync_of_the_folder_the_old_file_may_come_back(folder):
    calls = replace(folder, sync=True, sync_folder=False)
    assert {"old": b"before"} in states(folder, calls, "strict", len(calls))
    both = states(folder, calls, "strict, in part", len(calls))
    assert {"old": b"after"} in both
    assert {"old": b"before"} in both


def test_data_that_is_only_appended_may_be_missing_in_the_ordered_model(folder):
    old = str(folder / "old")
    inode = (folder / "old").stat().st_ino
    calls = [Call(Operation.WRITE, True, old, "", inode, 6, b" and more")]
    found = states(folder, calls, "ordered", 1)
    assert {"old": b"before"} in found
    assert {"old": b"before and more"} in found
