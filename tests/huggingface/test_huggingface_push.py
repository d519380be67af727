"""Uploads to a stand-in for the Hub."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roboreel as reel
from tests.factory import write_dataset
from tests.remote.hub_server import COMMIT, HubServer

pytest.importorskip("datasets")

PUSH = """
import json, sys
from roboreel.huggingface import push
for arguments in json.loads(sys.argv[2]):
    print(push(sys.argv[1], "owner/name", **arguments))
"""


@pytest.fixture
def hub(tmp_path):
    (tmp_path / "hub").mkdir()
    with HubServer(tmp_path / "hub") as server:
        yield server
        server.shutdown()


@pytest.fixture
def root(tmp_path):
    write_dataset(tmp_path / "dataset", [3, 1, 7])
    for hidden in (".roboreel/undo/file.parquet", ".recording/lock", "images/waiting.png"):
        (tmp_path / "dataset" / hidden).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dataset" / hidden).write_bytes(b"not for others")
    return tmp_path / "dataset"


PUSH_TO_HUB = """
import json, sys
from roboreel.lerobot import LeRobotDataset
for arguments in json.loads(sys.argv[2]):
    LeRobotDataset("owner/name", sys.argv[1]).push_to_hub(**arguments)
"""


def run_push(
    hub: HubServer, home: Path, root: Path, *calls: dict[str, Any], script: str = PUSH
) -> subprocess.CompletedProcess[str]:
    """Push in a process of its own, since huggingface_hub reads its settings once."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("HF_")},
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(home),
        "HF_TOKEN": "hf_test",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", script, str(root), json.dumps(calls or [{}])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def files_of(root: Path) -> list[str]:
    hidden = (".", "images")
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    return [name for name in names if not name.startswith(hidden)]


def test_a_dataset_arrives_as_one_commit_with_a_card_and_its_version_as_tag(hub, root, tmp_path):
    done = run_push(hub, tmp_path, root)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith(f"/datasets/owner/name/commit/{COMMIT}")
    assert len(hub.commits) == 1
    assert sorted(hub.commits[0]) == sorted([*files_of(root), "README.md"])
    assert hub.tags == {"v3.0": 1}
    assert "LeRobot" in (hub.root / "README.md").read_text()
    assert len(reel.open_dataset(hub.root)) == 11


def test_the_progress_of_an_upload_is_shown(hub, root, tmp_path):
    done = run_push(hub, tmp_path, root)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "100%" in done.stderr


def test_the_drop_in_pushes_under_its_id(hub, root, tmp_path):
    pytest.importorskip("torch")
    part = {"tags": ["arm"], "license": "mit", "tag_version": False, "allow_patterns": "meta/*"}
    done = run_push(hub, tmp_path, root, part, {}, script=PUSH_TO_HUB)
    assert done.returncode == 0, done.stderr[-3000:]
    meta = [name for name in files_of(root) if name.startswith("meta/")]
    assert sorted(hub.commits[0]) == sorted([*meta, "README.md"])
    card = (hub.root / "README.md").read_text()
    assert "- arm" in card
    assert "license: mit" in card
    assert hub.tags == {"v3.0": 2}
    assert len(reel.open_dataset(hub.root)) == 11


def test_an_interrupted_upload_sends_only_the_rest(hub, root, tmp_path):
    hub.uploads_left = 1
    first = run_push(hub, tmp_path, root)
    assert first.returncode != 0
    assert (hub.commits, len(hub.uploaded)) == ([], 1)
    hub.uploads_left = None
    done = run_push(hub, tmp_path, root)
    assert done.returncode == 0, done.stderr[-3000:]
    large = [name for name in files_of(root) if name.endswith(".parquet")]
    hashes = {hashlib.sha256((root / name).read_bytes()).hexdigest() for name in large}
    assert sorted(hub.uploaded) == sorted(hashes)  # each of them once


def test_what_the_dataset_no_longer_has_is_removed_and_the_tag_moves(hub, root, tmp_path):
    for name in ("data/chunk-000/file-099.parquet", "notes/plan.txt", "README.md"):
        (hub.root / name).parent.mkdir(parents=True, exist_ok=True)
        (hub.root / name).write_bytes(b"old")
    hub.tags["v3.0"] = 0
    done = run_push(hub, tmp_path, root)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "-data/chunk-000/file-099.parquet" in hub.commits[0]
    assert (hub.root / "README.md").read_bytes() == b"old"
    assert (hub.root / "notes" / "plan.txt").exists()
    assert hub.tags == {"v3.0": 1}


def test_a_part_removes_nothing_and_the_tag_can_be_left(hub, root, tmp_path):
    (hub.root / "data").mkdir()
    (hub.root / "data" / "old.parquet").write_bytes(b"old")
    part = {"patterns": ["meta/*.json"], "tag_version": False, "card": {"tags": ["arm"]}}
    done = run_push(hub, tmp_path, root, part)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(hub.commits[0]) == ["README.md", "meta/info.json"]
    assert hub.tags == {}
    assert "- arm" in (hub.root / "README.md").read_text()


def test_what_is_no_dataset_is_not_pushed(hub, tmp_path):
    done = run_push(hub, tmp_path, tmp_path)
    assert "NotADatasetError" in done.stderr
    assert hub.commits == []
