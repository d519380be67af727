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
from roboreel.errors import CacheError, FeatureNotFoundError, NotADatasetError, TooLargeError
from roboreel.format import write_manifest
from roboreel.format.hub import find_dataset, parse_hub_url
from roboreel.format.write_data import write_data_file
from roboreel.schema import Feature
from tests.factory import NUMBERS, columns_of, image_of, make_manifest, write_dataset
from tests.memory_of import peak_of
from tests.remote.hub_server import COMMIT, HubServer

pytest.importorskip("datasets")

LENGTHS = [3, 1, 7, 2, 5]
IMAGES = {**NUMBERS, "observation.images.front": Feature("image", (8, 12, 3))}

DOWNLOAD = """
import json, sys
from roboreel.huggingface import download
for arguments in json.loads(sys.argv[1]):
    try:
        print(json.dumps(str(download("owner/name", **arguments))))
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
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


def run_downloads(
    server: HubServer, home: Path, *calls: dict[str, Any], offline: bool = False
) -> list[str]:
    """Return the folder of each download, or its error.

    They run in a process of their own, since huggingface_hub reads its settings once.
    """
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("HF_")},
        "HF_ENDPOINT": server.endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **({"HF_HUB_OFFLINE": "1"} if offline else {}),
    }
    done = subprocess.run(
        [sys.executable, "-c", DOWNLOAD, json.dumps(calls)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


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
    def test_only_the_files_that_the_episodes_need_are_fetched_and_only_once(self, hub, tmp_path):
        wanted = {"episodes": [2]}
        folder, again, said = run_downloads(hub, tmp_path, wanted, wanted, {"episodes": [99]})
        fetched = [name for name, _ in hub.fetched]
        assert [name for name in fetched if name.startswith("data/")] == [
            "data/chunk-000/file-001.parquet"
        ]
        assert len(fetched) == len(set(fetched))  # nothing again
        assert again == folder
        assert said.startswith("EpisodeNotFoundError: Episode 99 does not exist")
        view = reel.open_dataset(folder).select(episodes=[2, 3])
        assert view.read(range(9), ["index"])["index"].tolist() == list(range(4, 13))

    def test_what_was_downloaded_is_found_by_its_id(self, hub, tmp_path, monkeypatch):
        [folder] = run_downloads(hub, tmp_path, {})
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        monkeypatch.delenv("HF_HUB_CACHE", raising=False)
        monkeypatch.delenv("HF_LEROBOT_HOME", raising=False)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert str(find_dataset("owner/name")) == folder
        assert len(reel.open_dataset("hf://datasets/owner/name")) == 18
        assert len(reel.open_dataset(f"hf://datasets/owner/name@{COMMIT}")) == 18
        with pytest.raises(NotADatasetError, match="'owner/name' at revision 'v9'"):
            reel.open_dataset("hf://datasets/owner/name@v9")

    @pytest.mark.long
    def test_a_download_that_was_cut_off_goes_on(self, hub, tmp_path):
        here = {"root": str(tmp_path / "here")}
        hub.cut_after = 500
        run_downloads(hub, tmp_path, here)
        assert hub.cut_after is None
        [folder] = run_downloads(hub, tmp_path, here)
        assert reel.open_dataset(folder).read(range(18), ["index"])["index"].tolist() == [
            *range(18)
        ]

    def test_offline_nothing_is_fetched_and_what_lacks_is_named(self, hub, tmp_path):
        here, more = {"episodes": [0]}, {"episodes": [0, 4]}
        [folder] = run_downloads(hub, tmp_path, here)
        hub.fetched.clear()
        again, said = run_downloads(hub, tmp_path, here, more, offline=True)
        assert (again, hub.fetched) == (folder, [])
        assert "MissingFileError" in said
        assert "HF_HUB_OFFLINE" in said


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


class TestLargeViews:
    def test_a_folder_holds_the_same_values_mapped(self, root, tmp_path):
        from roboreel.huggingface import to_datasets

        dataset = reel.open_dataset(root)
        mapped, held = to_datasets(dataset, folder=tmp_path), to_datasets(dataset)
        assert mapped.features == held.features
        assert mapped.data.table.equals(held.data.table)
        assert [entry["filename"] for entry in mapped.cache_files] == [
            str(tmp_path / "frames.arrow")
        ]
        with pytest.raises(CacheError, match=r"'frames\.arrow' is there already"):
            to_datasets(dataset, folder=tmp_path)

    def test_a_disk_that_is_too_small_is_said_first(self, root, tmp_path, monkeypatch):
        import shutil

        from roboreel.huggingface import arrow_bytes, to_datasets

        dataset = reel.open_dataset(root)
        size = arrow_bytes(dataset)
        assert 0.5 * size < to_datasets(dataset).data.nbytes < 2 * size
        usage = shutil.disk_usage(tmp_path)._replace(free=size - 1)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
        with pytest.raises(TooLargeError, match=f"about {size:,} bytes"):
            to_datasets(dataset, folder=tmp_path)
        assert not list(tmp_path.iterdir())

    def test_a_stream_has_the_same_values_shuffles_and_resumes(self, root):
        from roboreel.huggingface import to_datasets, to_iterable

        view = reel.open_dataset(root).select([0, 2, 3])
        stream = to_iterable(view)
        assert stream.num_shards == 3
        for one, other in zip(stream, to_datasets(view), strict=True):
            assert one.keys() == other.keys()
            for name in one:
                assert np.array_equal(np.asarray(one[name]), np.asarray(other[name])), name
        shuffled = to_iterable(view, ["index"]).shuffle(seed=1, buffer_size=4)
        order = [example["index"] for example in shuffled]
        assert sorted(order) == view[:]["index"].tolist() != order
        plain = to_iterable(view, ["index"])
        started = iter(plain)
        first = [next(started)["index"] for _ in range(5)]
        state = plain.state_dict()
        resumed = to_iterable(view, ["index"])
        resumed.load_state_dict(state)
        rest = [example["index"] for example in resumed]
        assert first + rest == view[:]["index"].tolist()

    def test_items_are_tensors_as_lerobots_are(self, root):
        torch = pytest.importorskip("torch")
        from roboreel.huggingface import to_datasets, to_iterable

        dataset = reel.open_dataset(root)
        wanted = torch.from_numpy(dataset[5]["observation.images.front"]).float() / 255
        for item in (
            to_datasets(dataset, tensors=True)[5],
            list(to_iterable(dataset, tensors=True))[5],
        ):
            assert torch.equal(item["observation.images.front"], wanted)
            assert torch.equal(item["observation.state"], torch.tensor([500.0, 501.0, 502.0]))
            assert item["note"] == "row 5"

    # With a copy of all 79 MB the stream and the folder would take more than 100.
    @pytest.mark.long
    @pytest.mark.parametrize(("form", "most"), [("memory", 190), ("folder", 75), ("stream", 75)])
    def test_memory_is_that_of_the_result(self, root, large, tmp_path, form, most):
        peak, said = peak_of(CONVERT, str(root), str(large), form, str(tmp_path))
        assert said.strip() == "400", said
        assert peak < most * 1e6, f"{peak / 1e6:.0f} MB"

    @pytest.mark.slow
    @pytest.mark.parametrize(("form", "most"), [("memory", 480), ("folder", 110), ("stream", 110)])
    def test_memory_besides_the_copy_does_not_grow(self, root, tmp_path, form, most):
        noise = write_noise(tmp_path / "noise", episodes=18)  # 354 MB
        peak, said = peak_of(CONVERT, str(root), str(noise), form, str(tmp_path))
        print(f"{form}: {peak / 1e6:.0f} MB")
        assert said.strip() == "1800", said
        assert peak < most * 1e6, f"{peak / 1e6:.0f} MB"


# A small dataset comes first: what `datasets` imports late, and threads, are no part of the result.
CONVERT = """
import sys
import PIL.PngImagePlugin
import roboreel
from roboreel.huggingface import to_datasets, to_iterable

small, large, form, folder = sys.argv[1:]

def convert(path, name):
    dataset = roboreel.open_dataset(path)
    if form == "stream":
        return sum(1 for example in to_iterable(dataset))
    return len(to_datasets(dataset, folder=None if form == "memory" else f"{folder}/{name}"))

convert(small, "small")
print("ready"); sys.stdin.readline()
print(convert(large, "large"))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_noise(tmp_path_factory.mktemp("large"), episodes=4)  # 79 MB


def write_noise(root, episodes):
    """Write 100 pictures of noise in each episode, 197 KB each."""
    import imagecodecs

    features = {**NUMBERS, "observation.images.front": Feature("image", (256, 256, 3))}
    manifest = make_manifest(root, [100] * episodes, features=features)
    noise = np.random.default_rng(0).integers(0, 256, (256, 256, 3), np.uint8)
    picture = imagecodecs.png_encode(noise, level=1)
    for file in range(episodes // 2):
        parts = []
        for episode in (2 * file, 2 * file + 1):
            columns = columns_of(dict(NUMBERS), 100 * episode, 100, episode)
            parts.append({**columns, "observation.images.front": [picture] * 100})
        write_data_file(root / manifest.data_files[file], parts, manifest.features)
    write_manifest(manifest)
    return root
