"""Mirrors: blocks are fetched once, kept within a limit, and never read before they are there."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roboreel.mirror
import roboreel.threads
from roboreel.errors import DatasetChangedError, MirrorError, MissingFileError
from roboreel.mirror import holes
from roboreel.mirror.block_map import State
from roboreel.mirror.connection import Connection
from roboreel.mirror.fetching import Fetcher
from roboreel.mirror.geometry import (
    BLOCK_BYTES,
    SEGMENT_BLOCKS,
    SEGMENT_BYTES,
    blocks_of,
    requests_for,
    runs_of,
)
from roboreel.mirror.holes import DiskAbility
from roboreel.mirror.home import MirrorHome
from roboreel.mirror.listing import list_mirrors, prune_mirrors
from roboreel.mirror.opening import _make
from roboreel.threads import _Worker
from tests.mirror.poison import PoisonedFile, cure, poison
from tests.mirror.remote_folder import FolderClient, mirror_folder
from tests.record import test_interrupts

SIZES = {"a.bin": 3 * SEGMENT_BYTES + 17, "sub/b.bin": 5 * BLOCK_BYTES, "c.bin": 10, "empty": 0}


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Bytes that were not fetched are not zeros, so that reading one is seen."""
    poison(monkeypatch)


@pytest.fixture
def far(tmp_path):
    random = np.random.default_rng(0)
    for name, size in SIZES.items():
        path = tmp_path / "far" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.bytes(size))
    return FolderClient(tmp_path / "far")


def read(mirror, name, start, stop):
    file = mirror.open(mirror.folder.tree / name, "file")
    try:
        return file.read(start, stop)
    finally:
        file.close()


def entry_of(mirror, name):
    entry = mirror.folder.table.find(name)
    assert entry is not None
    return entry


def disk_bytes(home: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in home.glob("*/bytes/*"))


class TestArithmetic:
    @given(
        st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 90_000)), max_size=8),
        st.integers(0, 5),
        st.integers(1, 9),
    )
    def test_requests_cover_all_blocks_and_are_no_longer_than_allowed(self, pairs, gap, most):
        spans = [(start, start + length) for start, length in pairs]
        blocks = blocks_of(spans, 250_000)
        touched = {
            byte // BLOCK_BYTES
            for start, stop in spans
            for byte in range(start, min(stop, 250_000))
        }
        assert set(blocks.tolist()) == touched
        asked = requests_for(blocks, gap * BLOCK_BYTES, most * BLOCK_BYTES)
        covered = {block for first, stop in asked for block in range(first, stop)}
        assert touched <= covered
        assert all(0 < stop - first <= most for first, stop in asked)
        assert sum(stop - first for first, stop in asked) == len(covered)

    @given(st.sets(st.integers(0, 60), max_size=20))
    def test_runs_hold_every_number_once(self, numbers):
        ordered = np.array(sorted(numbers), np.int64)
        runs = runs_of(ordered)
        assert [n for run in runs for n in run.tolist()] == ordered.tolist()
        assert all((np.diff(run) == 1).all() for run in runs)


class TestReading:
    @settings(max_examples=10)
    @given(data=st.data())
    def test_any_span_is_what_the_far_end_has(self, data, tmp_path_factory):
        root = tmp_path_factory.mktemp("far")
        content = np.random.default_rng(1).bytes(100_003)
        (root / "x").write_bytes(content)
        mirror = mirror_folder(FolderClient(root), tmp_path_factory.mktemp("home"))
        for _ in range(9):
            start = data.draw(st.integers(0, len(content)))
            stop = data.draw(st.integers(start, len(content)))
            assert read(mirror, "x", start, stop) == content[start:stop]

    def test_bytes_are_fetched_once(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home")
        for _ in range(3):
            read(mirror, "a.bin", 100, 70_000)
        assert len(far.asked) == 1
        assert mirror.fetched().requests == 1

    def test_spans_of_many_files_are_fetched_in_one_round(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home")
        tree = mirror.folder.tree
        whole = {tree / name: [(0, size)] for name, size in SIZES.items()}
        assert mirror.fetch(whole) >= sum(SIZES.values())
        far.root = tmp_path / "gone"  # Nothing is asked for again.
        assert len(read(mirror, "a.bin", 0, SIZES["a.bin"])) == SIZES["a.bin"]

    def test_a_file_that_does_not_exist_is_named(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home")
        with pytest.raises(MissingFileError, match=r"no video file 'x\.mp4'"):
            mirror.open(mirror.folder.tree / "x.mp4", "video file")

    def test_a_file_that_changed_is_never_mixed(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home")
        before = read(mirror, "a.bin", 0, 100)
        content = (far.root / "a.bin").read_bytes()
        (far.root / "a.bin").write_bytes(content[::-1])
        with pytest.raises(DatasetChangedError):
            read(mirror, "a.bin", 2 * SEGMENT_BYTES, 2 * SEGMENT_BYTES + 5)
        assert read(mirror, "a.bin", 0, 100) == before == content[:100]

    def test_the_files_of_the_tree_are_empty(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home")
        read(mirror, "a.bin", 0, 100)
        assert {p.name: p.stat().st_size for p in mirror.folder.tree.rglob("*") if p.is_file()} == {
            Path(name).name: 0 for name in SIZES
        }

    @pytest.mark.parametrize("in_order", [True, False], ids=["x86", "Arm"])
    def test_eight_threads_read_the_same_bytes_and_fetch_each_once(
        self, far, tmp_path, monkeypatch, in_order
    ):
        monkeypatch.setattr("roboreel.mirror.mirror._STORES_IN_ORDER", in_order)
        far.pause_s = 0.002
        mirror = mirror_folder(far, tmp_path / "home")
        content = (far.root / "a.bin").read_bytes()
        wrong = []

        def work(seed):
            nonlocal wrong
            random = np.random.default_rng(seed)
            for start in random.integers(0, len(content) - 50_000, 40).tolist():
                same = read(mirror, "a.bin", start, start + 50_000) == content[start:][:50_000]
                wrong += [] if same else [start]

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        held = mirror.folder.blocks.count_held()
        assert held == int((mirror.folder.blocks.state == State.PRESENT).sum())
        # A request may pass over a few blocks that another thread fetches.
        assert mirror.fetched().fetched_bytes <= 1.3 * held * BLOCK_BYTES


class TestLimit:
    def test_it_is_never_passed_and_every_byte_is_right(self, far, tmp_path):
        limit = SEGMENT_BYTES + SEGMENT_BYTES // 2
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=limit)
        content = (far.root / "a.bin").read_bytes()
        random = np.random.default_rng(2)
        for start in random.integers(0, len(content) - 40_000, 60).tolist():
            assert read(mirror, "a.bin", start, start + 40_000) == content[start : start + 40_000]
            assert mirror.fetched().held_bytes <= limit

    def test_holes_are_made_on_the_disk(self, far, tmp_path, monkeypatch):
        cure(monkeypatch)
        limit = SEGMENT_BYTES + SEGMENT_BYTES // 2
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=limit)
        for start in range(0, SIZES["a.bin"], 100_000):
            read(mirror, "a.bin", start, min(start + 100_000, SIZES["a.bin"]))
            assert disk_bytes(tmp_path / "home") <= limit

    def test_where_there_are_no_holes_whole_files_go(self, far, tmp_path, monkeypatch):
        monkeypatch.setattr("roboreel.mirror.home.find_ability", lambda _: DiskAbility(True, False))
        cure(monkeypatch)
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=2 * SEGMENT_BYTES)
        content = (far.root / "a.bin").read_bytes()
        for start in range(0, SIZES["a.bin"] - 100_000, 100_000):
            assert read(mirror, "a.bin", start, start + 100_000) == content[start : start + 100_000]
            assert disk_bytes(tmp_path / "home") <= 2 * SEGMENT_BYTES

    def test_where_files_are_not_sparse_they_are_fetched_and_kept_whole(
        self, far, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(
            "roboreel.mirror.home.find_ability", lambda _: DiskAbility(False, False)
        )
        cure(monkeypatch)
        with pytest.warns(UserWarning, match="kept whole"):
            mirror = mirror_folder(far, tmp_path / "home", limit_bytes=4 * SEGMENT_BYTES)
        content = {name: (far.root / name).read_bytes() for name in SIZES}
        for name in ("sub/b.bin", "a.bin", "c.bin", "sub/b.bin"):
            stop = min(SIZES[name], 30_000)
            assert read(mirror, name, 5, stop) == content[name][5:stop]
            path = mirror.folder.path / "bytes" / str(entry_of(mirror, name).number)
            assert path.read_bytes() == content[name]  # Nowhere a hole.
            assert disk_bytes(tmp_path / "home") <= 4 * SEGMENT_BYTES
        mirror.home.limit_bytes = 2 * SEGMENT_BYTES
        mirror.home.reserve(mirror.folder, np.arange(0))
        with pytest.raises(MirrorError, match="larger mirror_limit="):
            read(mirror, "a.bin", 0, 10)
        assert disk_bytes(tmp_path / "home") <= 2 * SEGMENT_BYTES

    def test_a_file_is_not_emptied_while_another_part_of_it_is_fetched(
        self, far, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("roboreel.mirror.home.find_ability", lambda _: DiskAbility(True, False))
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=10 * SEGMENT_BYTES)
        content = (far.root / "a.bin").read_bytes()
        read(mirror, "a.bin", 0, 100)
        base = entry_of(mirror, "a.bin").segment * SEGMENT_BLOCKS
        blocks = mirror.folder.claims.take(np.arange(base + 2 * SEGMENT_BLOCKS, base + 130))
        assert mirror.home.reserve(mirror.folder, blocks)
        with mirror.home.locked():
            assert mirror.folder.evict(base // SEGMENT_BLOCKS) == 0
        far.asked.clear()
        assert read(mirror, "a.bin", 0, 100) == content[:100]
        assert not far.asked

    def test_what_is_held_stays_and_others_wait_or_are_told(self, far, tmp_path, monkeypatch):
        monkeypatch.setattr("roboreel.mirror.fetching._ROOM_WAIT_S", 0.2)
        limit = 2 * SEGMENT_BYTES
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=limit)
        content = (far.root / "a.bin").read_bytes()
        entry = entry_of(mirror, "a.bin")
        start, stop = SEGMENT_BYTES, 3 * SEGMENT_BYTES - 20 * BLOCK_BYTES
        with mirror._fetcher.held(entry, blocks_of([(start, stop)], SIZES["a.bin"])):
            far.asked.clear()
            with pytest.raises(MirrorError, match="what others fetch or read now stays"):
                read(mirror, "a.bin", 0, SEGMENT_BYTES)
            assert mirror.fetched().held_bytes <= limit
            assert read(mirror, "a.bin", start, stop) == content[start:stop]
            assert not far.asked
        assert read(mirror, "a.bin", 0, SEGMENT_BYTES) == content[:SEGMENT_BYTES]
        assert mirror.fetched().held_bytes <= limit

    def test_what_another_process_holds_stays(self, far, tmp_path, monkeypatch):
        monkeypatch.setattr("roboreel.mirror.fetching._ROOM_WAIT_S", 0.2)
        limit = 2 * SEGMENT_BYTES
        code = f"""
import sys
from pathlib import Path
from roboreel.mirror.geometry import blocks_of
from tests.mirror.remote_folder import FolderClient, mirror_folder
client = FolderClient(Path({str(far.root)!r}))
mirror = mirror_folder(client, Path({str(tmp_path / "home")!r}), limit_bytes={limit})
entry = mirror.folder.table.find("a.bin")
with mirror._fetcher.held(entry, blocks_of([(0, {SEGMENT_BYTES})], {SIZES["a.bin"]})):
    print("held", flush=True)
    sys.stdin.readline()
"""
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=limit)
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"held\n"
            with pytest.raises(MirrorError, match="what others fetch or read now stays"):
                read(mirror, "a.bin", SEGMENT_BYTES, 3 * SEGMENT_BYTES - 20 * BLOCK_BYTES)
            assert mirror.folder.blocks.are_present(
                *[64 * entry_of(mirror, "a.bin").segment + n for n in (0, 64)]
            )
        finally:
            child.kill()  # Its pins go with it.
            child.communicate()
        assert read(mirror, "a.bin", SEGMENT_BYTES, 3 * SEGMENT_BYTES - 20 * BLOCK_BYTES)
        assert mirror.fetched().held_bytes <= limit

    def test_two_processes_of_four_threads_with_less_room_than_a_batch_get_through(
        self, far, tmp_path
    ):
        limit = 3 * SEGMENT_BYTES
        code = f"""
import sys, threading
import numpy as np
from pathlib import Path
from tests.mirror.poison import poison_process
poison_process()
from tests.mirror.remote_folder import FolderClient, mirror_folder
client = FolderClient(Path({str(far.root)!r}), pause_s=0.001)
mirror = mirror_folder(client, Path({str(tmp_path / "home")!r}), limit_bytes={limit})
content = (client.root / "a.bin").read_bytes()
file = mirror.open(mirror.folder.tree / "a.bin", "file")
most = [0]
def work(seed):
    for start in np.random.default_rng(seed).integers(0, {SEGMENT_BYTES}, 12).tolist():
        stop = start + 2 * {SEGMENT_BYTES} - 40 * {BLOCK_BYTES}
        mirror.fetch({{mirror.folder.tree / "a.bin": [(0, len(content))]}})
        assert file.read(start, stop) == content[start:stop]
        most.append(mirror.fetched().held_bytes)
        done.append(seed)
done = []
threads = [threading.Thread(target=work, args=(4 * int(sys.argv[1]) + n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(done), max(most))
"""
        mirror_folder(far, tmp_path / "home")
        two = [
            subprocess.Popen([sys.executable, "-c", code, str(n)], stdout=subprocess.PIPE)
            for n in range(2)
        ]
        try:
            for one in two:
                done, most = one.communicate(timeout=120)[0].split()
                assert int(done) == 48
                assert int(most) <= limit
        finally:
            for one in two:
                one.kill()
                one.wait()

    def test_what_was_fetched_ahead_is_not_the_first_to_go(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=2 * SEGMENT_BYTES)
        read(mirror, "a.bin", 0, SEGMENT_BYTES // 2)
        mirror.folder.blocks.used_s[:] = 1000  # A while ago.
        ahead = mirror.folder.tree / "a.bin"
        mirror.fetch({ahead: [(SEGMENT_BYTES, SEGMENT_BYTES + SEGMENT_BYTES // 2)]})
        read(mirror, "a.bin", 2 * SEGMENT_BYTES, 3 * SEGMENT_BYTES)
        far.asked.clear()
        read(mirror, "a.bin", SEGMENT_BYTES, SEGMENT_BYTES + SEGMENT_BYTES // 2)
        assert not far.asked

    def test_threads_that_evict_each_other_read_the_right_bytes(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=SEGMENT_BYTES)
        content = (far.root / "a.bin").read_bytes()
        wrong = []

        def work(seed):
            nonlocal wrong
            for start in np.random.default_rng(seed).integers(0, len(content) - 9000, 50).tolist():
                same = read(mirror, "a.bin", start, start + 9000) == content[start:][:9000]
                wrong += [] if same else [start]

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_what_others_fetch_again_after_an_eviction_is_left_to_them(
        self, far, tmp_path, monkeypatch
    ):
        mirror = mirror_folder(far, tmp_path / "home")
        folder, give_up = mirror.folder, Fetcher._give_up
        again: list[np.ndarray] = []

        def late(fetcher, jobs, claimed):
            if not again:  # Between the last byte and the end of the first fetch.
                with mirror.home.locked():
                    assert folder.evict(0) == 2 * BLOCK_BYTES
                again.append(folder.claims.take(np.arange(2)))
                assert mirror.home.reserve(folder, again[0])
            give_up(fetcher, jobs, claimed)

        monkeypatch.setattr(Fetcher, "_give_up", late)
        mirror._fetcher._bring_free({entry_of(mirror, "a.bin").number: np.arange(2)})
        assert again[0].tolist() == [0, 1]
        assert folder.blocks.state[:2].tolist() == [State.WANTED] * 2
        assert not len(folder.claims.take(np.arange(2)))

    def test_a_read_larger_than_the_limit_says_what_to_do(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=SEGMENT_BYTES)
        with pytest.raises(MirrorError, match="larger mirror_limit="):
            read(mirror, "a.bin", 0, 2 * SEGMENT_BYTES)
        assert mirror.fetched().held_bytes == 0

    def test_room_that_others_are_filling_is_waited_for(self, far, tmp_path, monkeypatch):
        monkeypatch.setattr("roboreel.mirror.fetching._ROOM_WAIT_S", 0.2)
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=SEGMENT_BYTES)
        blocks = mirror.folder.claims.take(np.arange(60))
        assert mirror.home.reserve(mirror.folder, blocks)
        with pytest.raises(MirrorError, match="what others fetch or read now stays"):
            read(mirror, "a.bin", SEGMENT_BYTES, SEGMENT_BYTES + 10 * BLOCK_BYTES)
        assert mirror.fetched().held_bytes <= SEGMENT_BYTES
        mirror.home.give_back(mirror.folder, blocks)
        assert read(mirror, "a.bin", SEGMENT_BYTES, SEGMENT_BYTES + 10 * BLOCK_BYTES)

    def test_indexes_go_last(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home", limit_bytes=2 * SEGMENT_BYTES)
        file = mirror.open(mirror.folder.tree / "a.bin", "file")
        file.fetch([(0, 100)], keep=True)
        for segment in (1, 2, 1, 2, 1):
            start = segment * SEGMENT_BYTES
            file.read(start, start + SEGMENT_BYTES - 1)
        assert mirror.folder.blocks.state[0] == State.PRESENT


def test_a_new_file_is_filled_by_one_of_two_who_open_it_at_once(tmp_path, monkeypatch):
    stat = os.fstat
    opened: list[int] = []

    def slow(handle):
        status = stat(handle)
        if not opened:  # Another one opens the file and writes to it meanwhile.
            opened.append(handle)
            other = PoisonedFile(tmp_path / "0", 100)
            other.write(0, memoryview(b"fetched"))
            other.close()
        return status

    monkeypatch.setattr("tests.mirror.poison.os", SimpleNamespace(**{**vars(os), "fstat": slow}))
    file = PoisonedFile(tmp_path / "0", 100)
    assert file.read(0, 8) == b"fetched\xa5"
    file.close()


class TestCrashes:
    def test_after_a_kill_while_fetching_all_bytes_are_right(self, far, tmp_path):
        code = f"""
import threading, os
from pathlib import Path
from tests.mirror.poison import poison_process
poison_process()
from tests.mirror.remote_folder import FolderClient, mirror_folder
client = FolderClient(Path({str(far.root)!r}), pause_s=0.004)
mirror = mirror_folder(client, Path({str(tmp_path / "home")!r}))
file = mirror.open(mirror.folder.tree / "a.bin", "file")
print("begun", flush=True)
for start in range(0, {SIZES["a.bin"]}, 3 * {BLOCK_BYTES}):
    file.fetch([(start, start + {BLOCK_BYTES})])
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        threading.Event().wait(0.06)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        mirror = mirror_folder(far, tmp_path / "home")
        content = (far.root / "a.bin").read_bytes()
        assert read(mirror, "a.bin", 0, len(content)) == content
        held = mirror.fetched().held_bytes
        assert held == int((mirror.folder.blocks.state == State.PRESENT).sum()) * BLOCK_BYTES

    def test_what_a_killed_process_had_begun_to_make_is_removed(self, far, tmp_path):
        home = MirrorHome(tmp_path / "home")
        (home.path / ".0123456789ab.tmp-other" / "files").mkdir(parents=True)
        _make(home, "mirror", far.list_files(), {})
        assert {path.name for path in home.path.iterdir()} == {"lock", "mirror"}

    def test_after_the_machine_was_started_again_a_checksum_decides(
        self, far, tmp_path, monkeypatch
    ):
        mirror = mirror_folder(far, tmp_path / "home")
        content = (far.root / "a.bin").read_bytes()
        read(mirror, "a.bin", 0, 4 * BLOCK_BYTES)
        with (mirror.folder.path / "bytes" / "0").open("r+b") as file:
            file.seek(BLOCK_BYTES)
            file.write(bytes(BLOCK_BYTES))  # What a power cut can leave.
        monkeypatch.setattr("roboreel.mirror.folder.boot_id", lambda: "another start")
        far.asked.clear()
        again = mirror_folder(far, tmp_path / "home")
        assert read(again, "a.bin", 0, 4 * BLOCK_BYTES) == content[: 4 * BLOCK_BYTES]
        assert far.asked == [("a.bin", BLOCK_BYTES, 2 * BLOCK_BYTES)]

    def test_a_line_that_was_cut_off_is_written_again(self, far, tmp_path):
        mirror = mirror_folder(far, tmp_path / "home")
        table = mirror.folder.path / "table.jsonl"
        whole = table.read_bytes()
        table.write_bytes(whole[:-10])
        again = mirror_folder(far, tmp_path / "home", name="mirror")
        assert len(again.folder.table) == len(SIZES) - 1
        again.folder.table.add(far.list_files())
        assert table.read_bytes() == whole


def check_settled(mirror) -> None:
    """Check that nothing is claimed any more, and that all that is there is counted."""
    deadline = time.monotonic() + 60
    while mirror.folder.claims._mine and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not mirror.folder.claims._mine
    assert not (mirror.folder.blocks.state == State.WANTED).any()
    with mirror.home.locked():
        assert mirror.home._held_bytes() == mirror.folder.blocks.count_held() * BLOCK_BYTES


class Gated(FolderClient):
    """Answers when it is allowed to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked_once, self.gate = threading.Event(), threading.Event()

    def read(self, file, start, stop):
        self.asked_once.set()
        assert self.gate.wait(60)
        return super().read(file, start, stop)


class MirrorInterrupt(test_interrupts.Interrupt):
    """Strikes no ``pass`` either: alone in a block, Python handles no signal there."""

    def _leaves_a_block(self, current):
        line = Path(current.f_code.co_filename).read_text().splitlines()[current.f_lineno - 1]
        return super()._leaves_a_block(current) or line.strip() == "pass"


class TestInterrupts:
    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("can't start new thread")])
    @pytest.mark.parametrize("struck", [1, 2])
    def test_what_is_still_fetched_when_a_thread_cannot_be_started_stays_claimed(
        self, far, tmp_path, monkeypatch, struck, error
    ):
        client, start, starts = Gated(far.root), _Worker.__init__, []
        mirror = mirror_folder(client, tmp_path / "home")

        def strike(worker, *arguments):
            start(worker, *arguments)
            starts.append(worker)
            if len(starts) == struck:
                assert client.asked_once.wait(60)  # A request is under way.
                raise error

        monkeypatch.setattr(_Worker, "__init__", strike)
        spans = [(at, at + 1) for at in range(0, 3 * SEGMENT_BYTES, SEGMENT_BYTES)]
        with pytest.raises((KeyboardInterrupt, RuntimeError)):
            mirror.fetch({Path(mirror.root) / "a.bin": spans})
        assert mirror.folder.claims._mine
        assert (mirror.folder.blocks.state == State.WANTED).any()
        client.gate.set()
        check_settled(mirror)
        assert read(mirror, "a.bin", 0, 100) == (far.root / "a.bin").read_bytes()[:100]
        check_settled(mirror)

    def test_whoever_interrupts_does_not_wait_for_the_network(self, far, tmp_path, monkeypatch):
        client = Gated(far.root)
        mirror = mirror_folder(client, tmp_path / "home")

        def strike(_):
            assert client.asked_once.wait(60)
            raise KeyboardInterrupt

        monkeypatch.setattr(roboreel.threads.Job, "result", strike)
        with pytest.raises(KeyboardInterrupt):
            read(mirror, "a.bin", 0, 100)  # It would wait for the gate otherwise.
        monkeypatch.undo()
        assert not mirror.folder._pins._counts
        client.gate.set()
        check_settled(mirror)

    def test_an_error_between_two_claims_frees_the_first(self, far, tmp_path, monkeypatch):
        mirror = mirror_folder(far, tmp_path / "home")
        numbers = [entry_of(mirror, name).number for name in ("a.bin", "sub/b.bin")]
        spans = [[(0, 1)]]
        monkeypatch.setattr(Fetcher, "_spans", lambda *_: spans.pop())
        with pytest.raises(IndexError):
            mirror.bring({number: np.arange(1) for number in numbers})
        check_settled(mirror)

    @pytest.mark.parametrize("way", ["fetch", "read"])
    def test_after_an_interrupt_anywhere_all_bytes_can_be_read(
        self, far, tmp_path, monkeypatch, way
    ):
        folder = str(Path(roboreel.mirror.__file__).parent)
        places = (folder + os.sep + "fetching", folder + os.sep + "claims")
        monkeypatch.setattr(test_interrupts, "FOLDER", (*places, roboreel.threads.__file__))
        content = (far.root / "a.bin").read_bytes()
        line, left = 0, 0
        while left <= 0:
            line += 1
            mirror = mirror_folder(far, tmp_path / str(line))
            with MirrorInterrupt(line) as interrupt:
                try:
                    if way == "read":
                        read(mirror, "a.bin", 0, len(content))
                    else:
                        mirror.fetch({Path(mirror.root) / "a.bin": [(0, len(content))]})
                except KeyboardInterrupt:
                    pass
            left = interrupt.left
            again: list[bytes] = []
            thread = threading.Thread(
                target=lambda m=mirror, got=again: got.append(read(m, "a.bin", 0, len(content))),
                daemon=True,
            )
            thread.start()
            thread.join(timeout=60)
            assert again == [content], interrupt.where
            check_settled(mirror)
            shutil.rmtree(tmp_path / str(line))
        assert line > 20


def test_two_processes_share_a_mirror_and_fetch_each_block_once(far, tmp_path):
    code = f"""
import sys
from pathlib import Path
from tests.mirror.remote_folder import FolderClient, mirror_folder
client = FolderClient(Path({str(far.root)!r}), pause_s=0.003)
mirror = mirror_folder(client, Path({str(tmp_path / "home")!r}))
content = (client.root / "a.bin").read_bytes()
file = mirror.open(mirror.folder.tree / "a.bin", "file")
for start in range(0, len(content), 5 * {BLOCK_BYTES}):
    stop = min(start + {BLOCK_BYTES}, len(content))
    assert file.read(start, stop) == content[start:stop]
print(mirror.fetched().fetched_bytes)
"""
    mirror_folder(far, tmp_path / "home")
    two = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    fetched = sum(int(one.communicate(timeout=60)[0]) for one in two)
    assert all(one.returncode == 0 for one in two)
    held = mirror_folder(far, tmp_path / "home").fetched().held_bytes
    assert fetched <= held


@pytest.mark.parametrize("name", ["mirror.json", "table.jsonl"])
def test_a_damaged_mirror_is_listed_and_always_pruned(far, tmp_path, name):
    home = tmp_path / "m"
    for mirror in ("good", "bad"):
        _make(MirrorHome(home), mirror, far.list_files(), {"url": "test://folder"})
    bad = home / "bad"
    (bad / name).write_text("[\n")
    listed = {entry.path.name: entry.url for entry in list_mirrors(home)}
    assert listed == {"bad": "(damaged)", "good": "test://folder"}
    pruned = prune_mirrors(10**12, home)
    assert [entry.path.name for entry in pruned.removed] == ["bad"]
    assert not bad.exists()


def test_a_connection_shows_and_pickles_no_secret():
    import pickle

    from roboreel.errors import RemoteError

    secret = Connection(options={"region": "x", "secret_access_key": "hush"})
    assert "hush" not in repr(secret)
    assert "hush" not in str(secret)
    with pytest.raises(RemoteError, match="environment, a profile or a credential_provider"):
        pickle.dumps(secret)
    plain = Connection(options={"region": "x", "endpoint": "http://127.0.0.1:1"})
    assert pickle.loads(pickle.dumps(plain)) == plain


def test_a_fork_after_a_home_was_removed_does_no_harm(tmp_path):
    home = MirrorHome(tmp_path / "home")
    shutil.rmtree(tmp_path / "home")
    home._after_fork()
    assert home.held_bytes() == 0


def test_bytes_of_a_process_that_does_not_fill_files_stay(tmp_path):
    path = tmp_path / "0"
    file = holes.SparseFile(path)
    file.write(0, memoryview(b"fetched"))
    file.close()
    file = PoisonedFile(path, 100)
    assert file.read(0, 9) == b"fetched\xa5\xa5"
    file.close()
