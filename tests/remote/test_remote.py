"""Remote datasets: the same values as local ones, whatever the network does."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from email.utils import formatdate
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.errors import (
    DatasetChangedError,
    MissingFileError,
    NotADatasetError,
    RemoteError,
)
from roboreel.frames.frame_reader import FrameReader
from roboreel.io.budget import Budget
from roboreel.loading import Loader
from roboreel.mirror import holes
from roboreel.mirror.addresses import parse_address
from roboreel.mirror.file_table import RemoteFile
from roboreel.mirror.opening import mirror_of
from tests.factory import SHARED, edit_info, needs_shared, write_dataset, write_dataset_v2
from tests.mirror.poison import cure, poison
from tests.remote.hub_server import COMMIT, HubServer
from tests.remote.remote_servers import FileServer
from tests.remote.s3_server import SharedServer, weed

pytest.importorskip("obstore")
from roboreel.remote.objects import connect

needs_weed = pytest.mark.skipif(weed() is None, reason="SeaweedFS is not installed")
NAMES = [
    "lerobot_v30_depth_061",
    "lerobot_v30_image",
    "lerobot_v30_numeric",
    "lerobot_v30_video",
    "unitree_g1_v21",
]


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Bytes that were not fetched are not zeros, so that reading one is seen."""
    poison(monkeypatch)


@pytest.fixture(scope="session")
def s3(tmp_path_factory, worker_id):
    base = tmp_path_factory.getbasetemp()
    with SharedServer(base if worker_id == "master" else base.parent) as server:
        yield server


@pytest.fixture(scope="session")
def stored(s3):
    """Return the address of one of the shared datasets, uploaded once per test process."""
    addresses: dict[str, str] = {}

    def address(name: str) -> str:
        if name not in addresses:
            addresses[name] = s3.upload(SHARED / name, f"{os.getpid()}/{name}")
        return addresses[name]

    return address


@pytest.fixture
def waits(monkeypatch):
    """The waits for busy servers, which do not take place."""
    noted: list[float] = []
    clock = SimpleNamespace(sleep=noted.append, monotonic=time.monotonic)
    monkeypatch.setattr("roboreel.remote.patience.time", clock)
    return noted


@pytest.fixture
def served(tmp_path):
    """A web server that sends a small dataset of the factory."""
    root = tmp_path / "near" / "arm"
    write_dataset(root, [7, 5, 6])
    with FileServer(root.parent) as server:
        yield server


def same(one, other):
    """Assert that two batches are equal in every value."""
    assert one.keys() == other.keys()
    for name, values in other.items():
        if isinstance(values, list):
            assert one[name] == values
        elif values.dtype == object:
            assert one[name].tolist() == values.tolist()
        else:
            np.testing.assert_array_equal(one[name], values)
            assert one[name].dtype == values.dtype


def fetched(dataset):
    mirror = mirror_of(dataset.path)
    assert mirror is not None
    return mirror.fetched()


def test_numbers_beyond_the_budget_do_not_fetch_whole_files(tmp_path):
    root = tmp_path / "near" / "arm"
    write_dataset(root, [20_000], episodes_per_file=1)
    (path,) = (root / "data").rglob("*.parquet")
    pq.write_table(pq.read_table(path), path, row_group_size=500)
    with FileServer(root.parent) as server:
        far = reel.open_dataset(f"{server.url}/arm", mirror=tmp_path / "mirror")
        before = fetched(far).fetched_bytes
        values = FrameReader(far.manifest, Budget(1000)).columns.gather("action", np.arange(5))
        assert fetched(far).fetched_bytes - before < path.stat().st_size // 2
    near = reel.open_dataset(root)
    assert np.array_equal(values, near.read(range(5), ["action"])["action"])


@pytest.mark.long
@needs_shared
@needs_weed
class TestObjectStore:
    @pytest.mark.parametrize("threads", [1, 8])
    @pytest.mark.parametrize("name", NAMES)
    def test_every_value_is_that_of_the_local_dataset(self, s3, stored, tmp_path, name, threads):
        far = reel.open_dataset(
            stored(name), mirror=tmp_path, storage_options=s3.options, decode_threads=threads
        )
        near = reel.open_dataset(SHARED / name)
        assert far.features == near.features
        assert dict(far.tasks) == dict(near.tasks)
        step = 1 if len(near) < 200 else 37
        order = np.random.default_rng(threads).permutation(len(near))[::step]
        for samples in np.array_split(order, 4):
            same(far.read(samples), near.read(samples))
        numbers = [n for n, f in near.features.items() if not f.is_camera]
        same(far.read(range(len(near)), numbers), near.read(range(len(near)), numbers))

    def test_two_processes_at_once_read_the_same_values(self, s3, stored, tmp_path):
        pairs = [(stored(name), str(SHARED / name)) for name in NAMES]
        code = f"""
import sys
from tests.mirror.poison import poison_process
poison_process()
import numpy as np, roboreel as reel
from tests.remote.test_remote import same
for url, path in {pairs!r}:
    far = reel.open_dataset(url, mirror={str(tmp_path)!r}, storage_options={s3.options!r})
    near = reel.open_dataset(path)
    step = max(1, len(near) // 40)
    order = np.random.default_rng(int(sys.argv[1])).permutation(len(near))[::step]
    for samples in np.array_split(order, 4):
        same(far.read(samples), near.read(samples))
"""
        two = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(2)]
        assert [one.wait(timeout=200) for one in two] == [0, 0]

    def test_the_loader_gives_the_same_batches_and_resumes(self, s3, stored, tmp_path):
        name = "lerobot_v30_video"
        far = reel.open_dataset(stored(name), mirror=tmp_path, storage_options=s3.options)
        near = reel.open_dataset(SHARED / name)
        windows = {"action": range(4)}
        from roboreel.loading.samples import Samples

        loaders = [
            Loader(Samples(one, windows), batch_size=16, shuffle=True, seed=3)
            for one in (far, near)
        ]
        states = []
        for one, other in zip(*loaders, strict=True):
            same(one, other)
            states.append(loaders[0].state_dict())
        state = states[2]
        again = Loader(Samples(far, windows), batch_size=16, shuffle=True, seed=3)
        again.load_state_dict(state)
        fresh = Loader(Samples(near, windows), batch_size=16, shuffle=True, seed=3)
        fresh.load_state_dict(state)
        for one, other in zip(again, fresh, strict=True):
            same(one, other)

    def test_local_and_remote_datasets_mix(self, s3, stored, tmp_path):
        name = "lerobot_v30_numeric"
        far = reel.open_dataset(stored(name), mirror=tmp_path, storage_options=s3.options)
        near = reel.open_dataset(SHARED / name)
        again = reel.open_dataset(SHARED / name)
        mixed, plain = reel.Mixture({near: 1, far: 1}), reel.Mixture({near: 1, again: 1})
        one, other = (
            Loader(mixed, batch_size=32, shuffle=True),
            Loader(plain, batch_size=32, shuffle=True),
        )
        for left, right in zip(one, other, strict=True):
            same(left, right)

    def test_views_statistics_and_caches_are_the_same(self, s3, stored, tmp_path):
        name = "lerobot_v30_image"
        far = reel.open_dataset(stored(name), mirror=tmp_path, storage_options=s3.options)
        near = reel.open_dataset(SHARED / name)
        same(far.select(episodes=[1]).read([0, 3]), near.select(episodes=[1]).read([0, 3]))
        ours, theirs = far.compute_stats(), near.compute_stats()
        for feature, stats in theirs.items():
            np.testing.assert_array_equal(ours[feature].mean, stats.mean)
        built = far.materialize(tmp_path / "cache", {far.cameras[0]: reel.Raw()})
        same(built.read(range(20)), near.read(range(20)))

    def test_workers_read_it_by_credentials_of_the_environment(
        self, s3, stored, tmp_path, monkeypatch
    ):
        name = "lerobot_v30_video"
        secret = reel.open_dataset(stored(name), mirror=tmp_path, storage_options=s3.options)
        with pytest.raises(RemoteError, match="environment, a profile"):
            pickle.dumps(secret)
        for key, value in s3.options.items():
            monkeypatch.setenv(f"AWS_{key.upper()}", value)
        far = reel.open_dataset(
            stored(name), mirror=tmp_path, storage_options={"endpoint": s3.endpoint}
        )
        near = reel.open_dataset(SHARED / name)
        one = Loader(far, batch_size=16, shuffle=True, workers=1)
        for left, right in zip(one, Loader(near, batch_size=16, shuffle=True), strict=True):
            same(left, right)

    def test_a_second_process_finds_what_the_first_has_fetched(self, s3, stored, tmp_path):
        name = "lerobot_v30_video"
        far = reel.open_dataset(stored(name), mirror=tmp_path, storage_options=s3.options)
        far.read(range(len(far)))
        code = f"""
import roboreel as reel
from roboreel.mirror.addresses import parse_address
from roboreel.mirror.file_table import RemoteFile
from roboreel.mirror.opening import mirror_of
far = reel.open_dataset({stored(name)!r}, mirror={str(tmp_path)!r}, storage_options={s3.options!r})
far.read(range(len(far)))
print(mirror_of(far.path).fetched().requests)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
        )
        assert done.stdout.strip() == "0"

    def test_a_file_that_changed_is_an_error(self, s3, tmp_path):
        import obstore

        root = tmp_path / "near"
        write_dataset(root, [4, 4])
        url = s3.upload(root, f"{os.getpid()}/changing")
        far = reel.open_dataset(url, mirror=tmp_path / "m", storage_options=s3.options)
        (data,) = root.glob("data/*/*.parquet")
        key = f"{os.getpid()}/changing/{data.relative_to(root).as_posix()}"
        obstore.put(s3.store(), key, data.read_bytes()[::-1])
        with pytest.raises(DatasetChangedError, match="Open the dataset again"):
            far.read([0])
        obstore.delete(s3.store(), key)
        with pytest.raises(MissingFileError, match=r"\.parquet"):
            reel.open_dataset(url, mirror=tmp_path / "m", storage_options=s3.options).read([0])

    def test_wrong_keys_are_refused_and_never_shown(self, s3, stored, tmp_path):
        options = {**s3.options, "secret_access_key": "hushhush"}
        with pytest.raises(RemoteError, match="403 Forbidden") as caught:
            reel.open_dataset(stored(NAMES[2]), mirror=tmp_path, storage_options=options)
        assert "hushhush" not in str(caught.value)
        assert "docs/remote.md" in str(caught.value)

    def test_what_is_no_dataset_is_said(self, s3, stored, tmp_path):
        parent = stored(NAMES[2]).rpartition("/")[0]
        for url, said in (
            (parent, rf"no meta/info\.json, but .*{NAMES[2]}"),
            (f"{parent}/nothing", "nothing lies below it"),
        ):
            with pytest.raises(NotADatasetError, match=said):
                reel.open_dataset(url, mirror=tmp_path, storage_options=s3.options)

    def test_after_a_kill_while_fetching_all_values_are_right(self, s3, stored, tmp_path):
        name = "unitree_g1_v21"
        code = f"""
import roboreel as reel
far = reel.open_dataset({stored(name)!r}, mirror={str(tmp_path)!r}, storage_options={s3.options!r})
print("opened", flush=True)
for first in range(0, len(far), 40):
    far.read(range(first, first + 2))
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        far = reel.open_dataset(stored(name), mirror=tmp_path, storage_options=s3.options)
        near = reel.open_dataset(SHARED / name)
        samples = list(range(0, len(near), 120))
        same(far.read(samples), near.read(samples))


class TestWebServer:
    def test_a_dataset_without_a_list_is_read_by_its_names(self, served, tmp_path):
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        near = reel.open_dataset(served.root / "arm")
        same(far.read(range(len(near))), near.read(range(len(near))))
        # The name of the mirror is readable; its key is not the port alone.
        assert far.path.parent.name.startswith("127.0.0.1")
        assert far.url == f"{served.url}/arm"

    def test_ten_thousand_files_are_not_asked_for_one_by_one(self, served, tmp_path):
        root = served.root / "many"
        write_dataset_v2(root, [3, 3])
        line = {"tasks": ["pick"], "length": 3}
        lines = [json.dumps({"episode_index": number, **line}) for number in range(10_000)]
        (root / "meta" / "episodes.jsonl").write_text("\n".join(lines) + "\n")
        edit_info(root, total_episodes=10_000, total_frames=30_000, total_chunks=10)
        served.asked.clear()
        far = reel.open_dataset(f"{served.url}/many", mirror=tmp_path / "m")
        assert len(far) == 30_000
        assert len(served.asked) < 20
        assert far.read([1, 4])["index"].tolist() == [1, 4]
        assert len(served.asked) < 30

    def test_the_loader_fetches_batches_before_they_are_read(self, served, tmp_path, monkeypatch):
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        mirror = mirror_of(far.path)
        assert mirror is not None
        waited = []
        held = mirror._fetcher.held

        def noted(entry, blocks):
            waited.append(entry.file.name)
            return held(entry, blocks)

        monkeypatch.setattr(mirror._fetcher, "held", noted)
        near = reel.open_dataset(served.root / "arm")
        loaders = [Loader(one, batch_size=3, shuffle=True) for one in (far, near)]
        for one, other in zip(*loaders, strict=True):
            same(one, other)
        # Reads find what was fetched for them, but for footers, which are read as they are found.
        assert len(waited) <= len(mirror.folder.table)

    def test_a_signature_is_used_and_never_shown(self, served, tmp_path):
        far = reel.open_dataset(f"{served.url}/arm?signature=hush", mirror=tmp_path / "m")
        far.read([0])
        assert "hush" not in repr(far)
        assert not any("hush" in p.read_text() for p in (tmp_path / "m").glob("*/*.json*"))

    def test_files_without_an_etag_are_shared_with_nobody(self, served, tmp_path):
        served.etags = False
        one = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        two = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        same(one.read([3]), two.read([3]))
        assert one.path != two.path

    def test_a_server_that_sends_whole_files_is_read_all_the_same(self, served, tmp_path):
        served.ranges = False
        with pytest.warns(UserWarning, match="does not send parts of files"):
            far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        near = reel.open_dataset(served.root / "arm")
        same(far.read(range(len(near))), near.read(range(len(near))))

    @pytest.mark.parametrize("fault", ["503", "429", "cut"])
    def test_faults_that_pass_are_survived(self, served, tmp_path, fault):
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        served.faults += [fault, fault]
        near = reel.open_dataset(served.root / "arm")
        same(far.read(range(len(near))), near.read(range(len(near))))
        assert not served.faults

    @pytest.mark.long
    @pytest.mark.parametrize("status", [429, 503])
    @pytest.mark.parametrize("said", ["37", "a date"])
    def test_a_busy_server_is_given_the_time_it_asks_for(
        self, served, tmp_path, waits, status, said
    ):
        if said == "a date":
            said = formatdate(time.time() + 37, usegmt=True)
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        near = reel.open_dataset(served.root / "arm")
        served.busy += [(status, said)] * 5  # obstore's own tries, and the question.
        same(far.read([0]), near.read([0]))
        assert not served.busy
        assert any(35 < wait < 42 for wait in waits)

    @pytest.mark.long
    def test_a_busy_server_that_says_nothing_is_tried_with_longer_waits(
        self, served, tmp_path, waits
    ):
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        near = reel.open_dataset(served.root / "arm")
        served.busy += [(503, "")] * 15
        same(far.read([0]), near.read([0]))
        assert not served.busy
        assert max(waits) < 37

    def test_a_server_that_asks_for_an_hour_is_not_waited_for(self, served, tmp_path, waits):
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        served.busy += [(429, "3600")] * 500
        with pytest.raises(RemoteError, match=r"429.*tried 4 times, and asks to wait 3,600 s"):
            far.read([0])
        assert not any(waits)

    def test_an_object_store_is_asked_by_a_signed_address(self, served, waits):
        (served.root / "bucket" / "arm").mkdir(parents=True)
        (served.root / "bucket" / "arm" / "x").write_bytes(b"0123456789")
        options = {
            "endpoint": served.url, "region": "x", "access_key_id": "a", "secret_access_key": "b",
        }  # fmt: skip
        client, _ = connect(parse_address("s3://bucket/arm"), options)
        served.busy += [(503, "37")] * 5
        assert bytes(client.read(RemoteFile("x", 10), 2, 5)) == b"234"
        assert any(35 < wait < 42 for wait in waits)
        assert served.asked[-2] == ("bucket/arm/x", "bytes=0-0")

    def test_a_body_that_stalls_is_asked_for_again(self, served, tmp_path):
        from datetime import timedelta

        options = {"client_options": {"timeout": timedelta(seconds=1)}}
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m", storage_options=options)
        served.faults += ["stall"]
        near = reel.open_dataset(served.root / "arm")
        same(far.read(range(len(near))), near.read(range(len(near))))

    def test_faults_that_stay_name_address_span_and_tries(self, served, tmp_path):
        options = {"retry_config": {"max_retries": 2}}
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m", storage_options=options)
        served.faults += ["503"] * 50
        with pytest.raises(RemoteError, match=r"bytes 0 to .*503.*tried 3 times.*/arm/"):
            far.read([0])
        served.faults.clear()
        near = reel.open_dataset(served.root / "arm")
        same(far.read(range(len(near))), near.read(range(len(near))))

    def test_a_refusal_is_no_bad_sample(self, served, tmp_path):
        options = {"retry_config": {"max_retries": 0}}
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m", storage_options=options)
        served.faults += ["403"] * 500
        loader = Loader(far, batch_size=4, on_error="skip")
        with pytest.raises(RemoteError, match="403 Forbidden"):
            list(loader)
        assert not loader.skipped

    def test_an_interrupt_does_not_wait_for_a_server_that_says_nothing(self, served, tmp_path):
        code = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import roboreel as reel
from roboreel.loading import Loader
far = reel.open_dataset({served.url!r} + "/arm", mirror={str(tmp_path / "m")!r})
print("opened", flush=True)
sys.stdin.readline()
try:
    list(Loader(far, batch_size=4))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "opened\n"
        served.faults += ["stall"] * 100
        child.stdin.write("\n")
        child.stdin.flush()
        while len(served.faults) == 100:
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        # A stall lasts a minute, and a request twenty seconds.
        try:
            out, _ = child.communicate(timeout=15)
        finally:
            child.kill()
        assert out == "interrupted\n"

    def test_a_forked_child_reads_it_too(self, served, tmp_path):
        code = f"""
import multiprocessing, numpy as np, roboreel as reel
far = reel.open_dataset({served.url!r} + "/arm", mirror={str(tmp_path / "m")!r})
near = reel.open_dataset({str(served.root / "arm")!r})
far.read([0])
def work(queue):
    queue.put([np.array_equal(far.read([5])[n], near.read([5])[n]) for n in ("index", "action")])
context = multiprocessing.get_context("fork")
queue = context.SimpleQueue()
child = context.Process(target=work, args=(queue,))
child.start()
print(queue.get(), far.read([9])["index"])
child.join()
"""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stdout == "[True, True] [9]\n", done.stderr

    def test_the_mirror_opens_by_its_folder(self, served, tmp_path):
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        code = f"""
import roboreel as reel
far = reel.open_dataset({str(far.path)!r})
print(far.url, len(far), far.read([0])["index"])
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.split() == [far.url, "18", "[0]"]

    def test_it_cannot_be_written(self, served, tmp_path):
        far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        with pytest.raises(RemoteError, match="only read"):
            reel.resume_dataset(far.path)
        with pytest.raises(NotADatasetError, match="written to a folder"):
            reel.create_dataset(f"{served.url}/new", fps=30, features={})


class TestHub:
    """By a process of its own: huggingface_hub reads its settings once."""

    def run(self, code, hub, tmp_path, **environment):
        variables = {
            **{name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"},
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_TOKEN": "hub-secret",
            "ROBOREEL_CACHE": str(tmp_path / "cache"),
            **environment,
        }
        return subprocess.run(
            [sys.executable, "-c", code],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def test_a_dataset_is_read_in_place_and_each_file_is_resolved_once(self, served, tmp_path):
        root = served.root / "arm"
        with HubServer(root) as hub, FileServer(root) as cdn:
            hub.cdn = cdn.url.replace("127.0.0.1", "localhost")
            hub.too_many = 1
            code = f"""
import numpy as np, roboreel as reel
far = reel.open_dataset("hf://datasets/owner/name")
near = reel.open_dataset({str(root)!r})
for _ in range(2):
    one, other = far.read(range(len(near))), near.read(range(len(near)))
    assert all(np.array_equal(one[n], other[n]) for n in other if n not in ("task", "note"))
print(far.url)
"""
            done = self.run(code, hub, tmp_path)
            assert done.stdout.strip() == f"hf://datasets/owner/name@{COMMIT}", done.stderr
            assert len(set(hub.resolved)) >= len(hub.resolved) - 1  # One was refused first.
            assert hub.tokens == {"Bearer hub-secret"}
            assert cdn.tokens == {None}
            hub.shutdown()
            hub.server_close()

    def test_without_the_network_the_error_says_which_switch_holds(self, served, tmp_path):
        code = "import roboreel as reel; reel.open_dataset('hf://datasets/owner/name')"
        with HubServer(served.root / "arm") as hub:
            done = self.run(code, hub, tmp_path, HF_HUB_OFFLINE="1")
            assert "HF_HUB_OFFLINE is set" in done.stderr
            missing = "import sys; sys.modules['obstore'] = None; " + code
            assert "pip install 'roboreel[remote]'" in self.run(missing, hub, tmp_path).stderr
            hub.shutdown()
            hub.server_close()

    def test_a_dataset_that_is_not_there_is_said(self, served, tmp_path):
        code = "import roboreel as reel; reel.open_dataset('hf://datasets/other/name')"
        with HubServer(served.root / "arm") as hub:
            done = self.run(code, hub, tmp_path)
            assert "NotADatasetError: The Hub has no dataset" in done.stderr
            hub.shutdown()
            hub.server_close()


def test_the_command_line_fetches_lists_and_prunes(served, tmp_path):
    def run(*words):
        done = subprocess.run(
            [sys.executable, "-m", "roboreel", *words, "--home", str(tmp_path / "m")],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout + done.stderr

    url = f"{served.url}/arm"
    assert "MB fetched by" in run("prefetch", url, "--episodes", "0-1")
    far = reel.open_dataset(url, mirror=tmp_path / "m")
    before = far.fetched
    assert before is not None
    near = reel.open_dataset(served.root / "arm")
    same(far.select(episodes=[0, 1]).read(range(12)), near.select(episodes=[0, 1]).read(range(12)))
    after = far.fetched
    assert after is not None
    assert after.requests == before.requests
    assert "127.0.0.1" in run("mirror", "list")
    assert "a process has it open" in run("mirror", "prune", "--keep-bytes", "0")


class TestAsOnWindows:
    """Without record locks, reads at a place, and sparse files."""

    SWITCHES = """
import warnings
from roboreel.mirror import holes, locks
from roboreel.mirror.holes import DiskAbility
locks.SHARES = holes._CAN_READ_AT = False
import roboreel.mirror.home
roboreel.mirror.home.find_ability = lambda _: DiskAbility(False, False)
"""

    @pytest.fixture(autouse=True)
    def switched(self, monkeypatch):
        monkeypatch.setattr("roboreel.mirror.locks.SHARES", False)
        monkeypatch.setattr(holes, "_CAN_READ_AT", False)
        cure(monkeypatch)
        monkeypatch.setattr(
            "roboreel.mirror.home.find_ability", lambda _: holes.DiskAbility(False, False)
        )

    def test_whole_files_are_fetched_and_that_is_said(self, served, tmp_path):
        with pytest.warns(UserWarning, match="fetched and kept whole"):
            far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        near = reel.open_dataset(served.root / "arm")
        same(far.read(range(len(near))), near.read(range(len(near))))
        again = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")  # Said once.
        assert again.path == far.path
        mirror = mirror_of(far.path)
        assert mirror is not None
        for part in (far.path.parent / "bytes").iterdir():
            name = mirror.folder.table[int(part.name)].file.name
            assert part.read_bytes() in (b"", (served.root / "arm" / name).read_bytes())

    def test_another_process_has_a_mirror_of_its_own(self, served, tmp_path):
        with pytest.warns(UserWarning, match="whole"):
            far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
        near = reel.open_dataset(served.root / "arm")
        code = f"""{self.SWITCHES}
import numpy as np, roboreel as reel
warnings.simplefilter("ignore")
for place in ({served.url!r} + "/arm", {str(far.path)!r}):
    far = reel.open_dataset(place, mirror={str(tmp_path / "m")!r})
    near = reel.open_dataset({str(near.path)!r})
    one, other = far.read(range(18)), near.read(range(18))
    assert all(np.array_equal(one[n], other[n]) for n in other if n not in ("task", "note"))
    print(far.path)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
        others = done.stdout.split()
        assert len(others) == 2, done.stderr
        assert str(far.path) not in others
        same(far.read(range(len(near))), near.read(range(len(near))))
        assert {path.name for path in (tmp_path / "m").glob("*/mirror.json")} == {"mirror.json"}
        assert len(list((tmp_path / "m").glob("*/mirror.json"))) == 1  # Its own are gone.

    def test_the_limit_holds(self, served, tmp_path):
        with pytest.warns(UserWarning, match="whole"):
            dataset = reel.open_dataset(
                f"{served.url}/arm", mirror=tmp_path / "m", mirror_limit=200_000
            )
        near = reel.open_dataset(served.root / "arm")
        for row in (0, 9, 17, 4):
            same(dataset.read([row]), near.read([row]))
            assert fetched(dataset).held_bytes <= 200_000


def test_less_room_than_a_batch_gives_the_same_values_in_two_processes(served, tmp_path):
    near = reel.open_dataset(served.root / "arm")
    files = [path.stat().st_size for path in served.root.rglob("*.*")]
    limit = max(300_000, sum(files) // 4)
    code = f"""
import sys
from tests.mirror.poison import poison_process
poison_process()
import numpy as np, roboreel as reel
from roboreel.loading import Loader
far = reel.open_dataset(
    {served.url!r} + "/arm", mirror={str(tmp_path / "m")!r}, mirror_limit={limit}
)
near = reel.open_dataset({str(near.path)!r})
count = 0
for epoch in range(2):
    far_batches, near_batches = (
        Loader(one, batch_size=6, shuffle=True, seed=int(sys.argv[1])) for one in (far, near)
    )
    for one, other in zip(far_batches, near_batches, strict=True):
        assert all(np.array_equal(one[n], other[n]) for n in other if n not in ("task", "note"))
        assert far.fetched.held_bytes <= {limit}
        count += 1
print(count)
"""
    two = [
        subprocess.Popen([sys.executable, "-c", code, str(n)], stdout=subprocess.PIPE)
        for n in range(2)
    ]
    try:
        assert [one.communicate(timeout=120)[0].strip() for one in two] == [b"6", b"6"]
    finally:
        for one in two:
            one.kill()
            one.wait()


def test_importing_roboreel_imports_nothing_of_the_network():
    code = "import roboreel, sys; print([m for m in ('obstore', 'huggingface_hub', 'httpx', 'requests') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_mirror_is_for_its_owner_alone(served, tmp_path):
    far = reel.open_dataset(f"{served.url}/arm", mirror=tmp_path / "m")
    assert (tmp_path / "m").stat().st_mode & 0o077 == 0
    assert far.path.parent.stat().st_mode & 0o077 == 0
    shutil.rmtree(tmp_path / "m")
