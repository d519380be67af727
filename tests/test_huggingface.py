"""Views as `datasets.Dataset`, and downloads from a stand-in for the Hub."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import FeatureNotFoundError, NotADatasetError
from roboreel.format.hub import find_dataset, parse_hub_url
from roboreel.schema import Feature

from .factory import NUMBERS, image_of, write_dataset
from .hub_server import COMMIT, HubServer

pytest.importorskip("datasets")

LENGTHS = [3, 1, 7, 2, 5]
IMAGES = {**NUMBERS, "observation.images.front": Feature("image", (8, 12, 3))}

DOWNLOAD = """
import json, sys
from roboreel.huggingface import download
print(json.dumps(str(download("owner/name", **json.loads(sys.argv[1])))))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("hf") / "dataset"
    write_dataset(root, LENGTHS, features=IMAGES)
    return root


@pytest.fixture
def hub(root):
    with HubServer(root) as server:
        yield server
        server.shutdown()


def run_download(
    server: HubServer, home: Path, *, check: bool = True, offline: bool = False, **arguments: Any
) -> str:
    """Download in a process of its own, since huggingface_hub reads its settings once."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("HF_")},
        "HF_ENDPOINT": server.endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **({"HF_HUB_OFFLINE": "1"} if offline else {}),
    }
    done = subprocess.run(
        [sys.executable, "-c", DOWNLOAD, json.dumps(arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr[-3000:]
    return str(json.loads(done.stdout)) if done.returncode == 0 else done.stderr


class TestConversion:
    def test_a_view_becomes_a_dataset_with_the_same_values(self, root):
        from roboreel.huggingface import to_datasets

        view = reel.open_dataset(root).select(episodes=[2, 4])
        converted = to_datasets(view)
        assert len(converted) == 12
        values = view.read(range(12))
        for name in ("observation.state", "grid", "mode", "next.done", "note"):
            assert np.array_equal(np.asarray(converted[name]), values[name]), name
        assert np.array_equal(np.asarray(converted[7]["observation.images.front"]), image_of(13))

    def test_no_cache_is_touched(self, root, tmp_path):
        code = (
            "import sys, roboreel\n"
            "from roboreel.huggingface import to_datasets\n"
            "made = to_datasets(roboreel.open_dataset(sys.argv[1]))\n"
            "made[3]; made.with_format('numpy')['action']; print(made.cache_files)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(root)],
            env={**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == "[]"
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_features_can_be_chosen_and_must_exist(self, root):
        from roboreel.huggingface import to_datasets

        dataset = reel.open_dataset(root)
        assert to_datasets(dataset, ["mode"]).column_names == ["mode"]
        with pytest.raises(FeatureNotFoundError, match="no feature 'akshun'"):
            to_datasets(dataset, ["akshun"])


class TestDownload:
    def test_only_the_files_that_the_episodes_need_are_fetched(self, hub, tmp_path):
        folder = run_download(hub, tmp_path, episodes=[2])
        data = [name for name, _ in hub.fetched if name.startswith("data/")]
        assert data == ["data/chunk-000/file-001.parquet"]
        view = reel.open_dataset(folder).select(episodes=[2, 3])
        assert view.read(range(9), ["index"])["index"].tolist() == list(range(4, 13))
        hub.fetched.clear()
        again = run_download(hub, tmp_path, episodes=[2])
        assert (again, hub.fetched) == (folder, [])

    def test_what_was_downloaded_is_found_by_its_id(self, hub, tmp_path, monkeypatch):
        folder = run_download(hub, tmp_path)
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        monkeypatch.delenv("HF_HUB_CACHE", raising=False)
        monkeypatch.delenv("HF_LEROBOT_HOME", raising=False)
        assert str(find_dataset("owner/name")) == folder
        assert len(reel.open_dataset("hf://datasets/owner/name")) == 18
        assert len(reel.open_dataset(f"hf://datasets/owner/name@{COMMIT}")) == 18
        with pytest.raises(NotADatasetError, match="'owner/name' at revision 'v9'"):
            reel.open_dataset("hf://datasets/owner/name@v9")

    def test_a_download_that_was_cut_off_goes_on(self, hub, tmp_path):
        root = tmp_path / "here"
        hub.cut_after = 500
        run_download(hub, tmp_path, check=False, root=str(root))
        folder = run_download(hub, tmp_path, root=str(root))
        assert reel.open_dataset(folder).read(range(18), ["index"])["index"].tolist() == [
            *range(18)
        ]

    def test_offline_nothing_is_fetched_and_what_lacks_is_named(self, hub, tmp_path):
        run_download(hub, tmp_path, episodes=[0])
        hub.fetched.clear()
        run_download(hub, tmp_path, offline=True, episodes=[0])
        said = run_download(hub, tmp_path, check=False, offline=True, episodes=[0, 4])
        assert hub.fetched == []
        assert "MissingFileError" in said
        assert "HF_HUB_OFFLINE" in said

    def test_an_episode_that_does_not_exist_is_said(self, hub, tmp_path):
        said = run_download(hub, tmp_path, check=False, episodes=[99])
        assert "EpisodeNotFoundError: Episode 99 does not exist" in said


class TestIds:
    def test_an_address_has_an_id_and_maybe_a_revision(self):
        assert parse_hub_url("hf://datasets/a/b") == ("a/b", None)
        assert parse_hub_url("hf://datasets/a/b@v3.0") == ("a/b", "v3.0")
        for wrong in ("hf://datasets/a", "hf://datasets/../b", "hf://datasets/a/b/c"):
            with pytest.raises(NotADatasetError, match="not the id of a dataset"):
                parse_hub_url(wrong)

    def test_lerobots_home_comes_before_the_snapshots(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        snapshot = tmp_path / "hub" / "datasets--a--b" / "snapshots" / "abc"
        write_dataset(snapshot, [2])
        assert find_dataset("a/b") == snapshot
        assert find_dataset("a/b", "abc") == snapshot
        (tmp_path / "hub" / "datasets--a--b" / "refs").mkdir()
        (tmp_path / "hub" / "datasets--a--b" / "refs" / "v3.0").write_text("abc")
        assert find_dataset("a/b", "v3.0") == snapshot
        write_dataset(tmp_path / "home" / "a" / "b", [3])
        assert find_dataset("a/b") == tmp_path / "home" / "a" / "b"
        assert find_dataset("a/b", "v3.0") == snapshot

    def test_a_ref_cannot_lead_elsewhere(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        write_dataset(tmp_path / "elsewhere", [2])
        refs = tmp_path / "hub" / "datasets--a--b" / "refs"
        refs.mkdir(parents=True)
        (refs / "main").write_text("../../../elsewhere")
        with pytest.raises(NotADatasetError):
            find_dataset("a/b")
