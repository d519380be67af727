"""Many at once: threads, forks, files, abandoned loaders, interrupts, and recording beside readers."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import roboreel as reel
from tests import PROJECT
from tests.factory import write_dataset
from tests.recordings import FPS, features, frame, record

pytestmark = [pytest.mark.load, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("load") / "dataset"
    encoding = reel.Encoding("h264")
    with reel.create_dataset(
        path, fps=FPS, features=features("video", 2), encoding=encoding
    ) as recorder:
        for episode in range(6):
            record(recorder, episode, 8)
            recorder.save_episode()
    return path


def check_rows(dataset: reel.Dataset, chance: np.random.Generator) -> int:
    """Read some rows, and check that each value is that of its row."""
    rows = chance.integers(0, len(dataset), 8)
    batch = dataset.read(rows)
    for place, row in enumerate(rows.tolist()):
        number = row // 8 * 100 + row % 8
        assert batch["observation.state"][place][0] == number
        for name, expected in frame(row // 8, row % 8).items():
            if name.startswith("observation.images"):
                found = batch[name][place].astype(int)
                assert abs(found.mean() - expected.mean()) <= 4, (name, row)
    return len(rows)


def test_64_threads_read_right_values_from_one_dataset(root):
    dataset = reel.open_dataset(root)

    def work(seed: int) -> int:
        chance = np.random.default_rng(seed)
        return sum(check_rows(dataset, chance) for _ in range(20))

    with ThreadPoolExecutor(64) as pool:
        assert sum(pool.map(work, range(64))) == 64 * 20 * 8


def test_48_forks_of_a_process_that_reads_read_right_values(root):
    """Forked from a process of its own, whose threads are at work."""
    script = textwrap.dedent("""
        import os, sys
        import numpy as np
        import roboreel as reel
        from tests.project.test_load import check_rows
        dataset = reel.open_dataset(sys.argv[1])
        check_rows(dataset, np.random.default_rng(0))
        children = []
        for seed in range(48):
            child = os.fork()
            if child == 0:
                try:
                    chance = np.random.default_rng(seed)
                    for _ in range(3):
                        check_rows(dataset, chance)
                    os._exit(0)
                except BaseException:
                    import traceback
                    traceback.print_exc()
                    os._exit(1)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        sys.exit(any(codes))
    """)
    assert run_script(script, root) == 0


def test_10_000_files_are_opened_with_a_thousand_handles(tmp_path, monkeypatch):
    import resource

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        write_dataset(tmp_path / "d", [1] * 10_000, episodes_per_file=1)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        dataset = reel.open_dataset(tmp_path / "d")
        rows = np.random.default_rng(0).permutation(10_000)
        assert dataset.read(rows, ["index"])["index"].tolist() == rows.tolist()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_200_abandoned_loaders_leave_no_threads(root):
    pytest.importorskip("torch")
    from roboreel.torch import Loader

    dataset = reel.open_dataset(root)
    before = threading.active_count()
    for _ in range(200):
        loader = Loader(dataset, batch_size=4)
        next(iter(loader))
        del loader
    gc.collect()
    stop_s = time.monotonic() + 60
    while threading.active_count() > before + 4 and time.monotonic() < stop_s:
        time.sleep(0.1)
    assert threading.active_count() <= before + 4


def test_bursts_of_interrupts_end_a_loader_and_never_hang_it(root):
    pytest.importorskip("torch")
    script = textwrap.dedent("""
        import signal, sys
        import roboreel as reel
        from roboreel.torch import Loader
        dataset = reel.open_dataset(sys.argv[1])
        print("ready", flush=True)
        interrupted = 0
        while interrupted < 20:
            try:
                while True:
                    for batch in Loader(dataset, batch_size=4):
                        pass
            except KeyboardInterrupt:
                interrupted += 1
        # Those that are still coming.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    """)
    with start_script(script, root) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stop_s = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < stop_s:
            for _ in range(3):
                process.send_signal(signal.SIGINT)
                time.sleep(0.002)
            time.sleep(0.05)
        hangs = process.poll() is None
        process.kill()
    assert not hangs


def test_recording_compaction_and_readers_side_by_side(tmp_path):
    """Whatever a reader sees, it sees whole; the recorder is not disturbed."""
    root = tmp_path / "d"
    script = textwrap.dedent("""
        import sys
        import roboreel as reel
        from roboreel.record.compact import compact_dataset
        from tests.recordings import FPS, features, record
        with reel.create_dataset(sys.argv[1], fps=FPS, features=features("image", 1)):
            pass
        print("ready", flush=True)
        for episode in range(30):
            with reel.resume_dataset(sys.argv[1], compact_on_close=False) as recorder:
                record(recorder, episode, 2)
                recorder.save_episode()
            if episode % 4 == 3:
                compact_dataset(sys.argv[1])
    """)
    seen = []
    with start_script(script, root) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while process.poll() is None:
            dataset = reel.open_dataset(root)
            rows = np.arange(len(dataset))
            if len(rows):
                try:
                    state = dataset.read(rows, ["observation.state"])["observation.state"]
                except reel.DatasetError:
                    continue  # Its files were joined while they were read; the next one is whole.
                assert state[:, 0].tolist() == [row // 2 * 100 + row % 2 for row in rows.tolist()]
            seen.append(len(dataset.episodes))
        assert process.returncode == 0
    assert seen == sorted(seen)
    assert len(reel.open_dataset(root).episodes) == 30


def start_script(script: str, root: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}{os.pathsep}{PROJECT}"}
    command = [sys.executable, "-c", script, str(root)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)


def run_script(script: str, root: Path) -> int:
    with start_script(script, root) as process:
        return process.wait(600)
