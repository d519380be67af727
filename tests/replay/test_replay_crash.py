"""The replay buffer under kills, power cuts and readers beside the writer."""

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from roboreel.replay import ring, slots, writer
from roboreel.replay.buffer import ReplayBuffer
from roboreel.replay.header import HEADER_BYTES
from roboreel.schema import Feature
from roboreel.window import Window
from tests import PROJECT

PAGE_BYTES = 4096
# Two pages per frame, so that a frame and an episode can be torn.
FEATURES = {"wide": Feature("int64", (1024,)), "number": Feature("int64", (1,))}


def episode_of(numbers: list[int]) -> dict[str, Any]:
    wide = np.repeat(np.array(numbers, dtype=np.int64)[:, None], 1024, axis=1)
    return {"wide": wide, "number": wide[:, 0]}


def frame_of(number: int) -> dict[str, Any]:
    return {name: values[0] for name, values in episode_of([number]).items()}


def held_numbers(buffer: ReplayBuffer) -> list[list[int]]:
    """Return what the episodes hold, after a look at every element."""
    held = []
    for episode in buffer.episodes():
        assert (episode["wide"] == episode["number"][:, None]).all()
        held.append(episode["number"].tolist())
    return held


class Killed(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Held:
    """What a buffer holds: complete episodes and the open one."""

    episodes: tuple[tuple[int, ...], ...] = ()
    open: tuple[int, ...] = ()

    def with_room(self, count: int, capacity: int) -> "Held":
        episodes = self.episodes
        while sum(map(len, episodes)) + len(self.open) + count > capacity:
            episodes = episodes[1:]
        return replace(self, episodes=episodes)

    def plus(self, numbers: tuple[int, ...]) -> "Held":
        return replace(self, open=self.open + numbers)

    def ended(self) -> "Held":
        return Held((*self.episodes, self.open))


def operations() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield episodes added whole and frame by frame, in turn; the ring turns twice."""
    number = 0
    for length in (3, 5, 1, 4, 6, 2, 3):
        numbers = tuple(range(number, number + length))
        if length % 2:
            yield "add_episode", numbers
        else:
            yield from (("add", (n,)) for n in numbers)
            yield "end_episode", ()
        number += length


def run_operations(buffer: ReplayBuffer, moments: list[Held]) -> None:
    """Run them; note before each one in which states a kill may leave the buffer."""
    after = Held()
    for name, numbers in operations():
        room = after.with_room(len(numbers), buffer.capacity)
        moments[:] = [after, room]
        after = room.plus(numbers) if name == "add" else room.plus(numbers).ended()
        moments.append(after)
        if name == "add":
            buffer.add(frame_of(*numbers))
        elif name == "add_episode":
            buffer.add_episode(episode_of(list(numbers)))
        else:
            buffer.end_episode()
    moments[:] = [after]


def kill_at(write: int, part: float) -> Any:
    """Return a `write_at` that ends the process in the middle of one write."""
    whole, count = slots.write_at, 0

    def cut(file: Any, offset: int, data: Any) -> None:
        nonlocal count
        count += 1
        if count > write:
            raise Killed
        if count == write:
            view = memoryview(data)
            whole(file, offset, view[: int(len(view) * part)])
            raise Killed
        whole(file, offset, data)

    return cut


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_kill_in_any_write_leaves_the_state_before_or_after_the_operation(
    tmp_path, monkeypatch, part
):
    # The page cache outlives a process, so syncing plays no part here.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    write, moments = 0, [Held(), Held()]
    while len(moments) > 1:
        write += 1
        path = tmp_path / f"{write}"
        buffer = ReplayBuffer(path, capacity=12, features=FEATURES)
        with monkeypatch.context() as patch, suppress(Killed):
            cut = kill_at(write, part)
            patch.setattr(slots, "write_at", cut)
            patch.setattr(writer, "write_at", cut)
            run_operations(buffer, moments)
        # The kernel frees the lock of a process that ended; nothing else is tidied up.
        assert buffer._writer is not None
        buffer._writer.close()
        with ReplayBuffer(path) as opened:
            held = tuple(map(tuple, held_numbers(opened)))
            states = [(moment.episodes, len(moment.open)) for moment in moments]
            assert (held, opened.open_frames) in states
            opened.discard_episode()
            opened.add_episode(episode_of([100, 101]))
            assert held_numbers(opened)[-1] == [100, 101]
    assert write > 60


def disk_after_power_cut(
    live: Path, synced: dict[str, bytes], chance: random.Random
) -> dict[str, bytes]:
    """Return every file with each page as it was last synced, or as it is now."""
    files = {}
    for path in live.rglob("*.bin"):
        name, now = str(path.relative_to(live)), path.read_bytes()
        before = synced.get(name, bytes(len(now)))
        pages = range(0, len(now), PAGE_BYTES)
        files[name] = b"".join(
            chance.choice((before, now))[page : page + PAGE_BYTES] for page in pages
        )
        if name == "header.bin" and before != now:
            files[name] = torn_page(files[name], before, now, chance)
    return files


def torn_page(data: bytes, before: bytes, now: bytes, chance: random.Random) -> bytes:
    """Return the header with every page that was on its way to the disk cut in the middle."""
    for page in range(0, HEADER_BYTES, PAGE_BYTES):
        if before[page:][:100] != now[page:][:100]:
            cut, stop = page + chance.randrange(100), page + PAGE_BYTES
            data = data[:page] + now[page:cut] + before[cut:stop] + data[stop:]
    return data


@pytest.mark.parametrize("seed", range(60))
def test_after_a_power_cut_what_was_flushed_is_whole_or_gone(tmp_path, monkeypatch, seed):
    chance, live = random.Random(seed), tmp_path / "live"
    synced: dict[str, bytes] = {}

    def fsync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.suffix == ".bin":
            synced[str(path.relative_to(live))] = path.read_bytes()

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to see what is synced")
    capacity, longest = chance.choice((10, 100, 200)), chance.choice((1, 8))
    buffer = ReplayBuffer(live, capacity=capacity, features=FEATURES, flush_every_s=None)
    for path in live.rglob("*.bin"):
        synced[str(path.relative_to(live))] = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        number, flushed = 0, []
        for _ in range(chance.randrange(1, 500 // longest)):
            length = chance.randrange(1, longest + 1)
            buffer.add_episode(episode_of(list(range(number, number + length))))
            number += length
            if chance.random() < 0.03:
                buffer.flush()
                flushed = held_numbers(buffer)
        disk = disk_after_power_cut(live, synced, chance)
    newest, header_now = number, buffer._ring.header()
    buffer.close()
    copy = tmp_path / "copy"
    shutil.copytree(live, copy)
    for name, data in disk.items():
        (copy / name).write_bytes(data)
    # The machine started anew: nothing tells which pages reached the disk.
    monkeypatch.setattr(ring, "current_boot", lambda: b"another boot 123")
    monkeypatch.setattr(writer, "current_boot", lambda: b"another boot 123")
    must = [episode for episode in flushed if episode[0] >= header_now.reserved - capacity]
    reader = ReplayBuffer(copy)
    assert held_numbers(reader) == must
    with ReplayBuffer(copy) as again:
        again.add_episode(episode_of([newest, newest + 1]))
        assert held_numbers(again)[-1] == [newest, newest + 1]
        assert held_numbers(again)[:-1] == must[len(must) - len(held_numbers(again)) + 1 :]
    assert held_numbers(reader) == held_numbers(ReplayBuffer(copy))


WRITER = textwrap.dedent("""
    import sys
    from tests.replay.test_replay_crash import FEATURES, ReplayBuffer, episode_of, frame_of
    buffer = ReplayBuffer(sys.argv[1], capacity=40, features=FEATURES)
    number = 0
    while True:
        length = 1 + number % 7
        buffer.add_episode(episode_of(list(range(number, number + length))))
        number += length
        for _ in range(number % 3):
            buffer.add(frame_of(number))
            number += 1
            sys.stdout.write(f"{number}\\n")
            sys.stdout.flush()
        if buffer.open_frames:
            buffer.end_episode()
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
""")


@contextmanager
def started(script: str, path: Path) -> Iterator[IO[bytes]]:
    """Run a writer in another process, give what it prints, and kill it in the end."""
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / 'src'}"}
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_killed_process_leaves_all_it_had_added(tmp_path):
    for seed in range(4):
        path = tmp_path / str(seed)
        lines = []
        with started(WRITER, path) as printed:
            lines += [printed.readline() for _ in range(5 + random.Random(seed).randrange(60))]
        promised = int(lines[-1])
        with ReplayBuffer(path) as buffer:
            if buffer.open_frames:
                buffer.end_episode()
            numbers = [number for episode in held_numbers(buffer) for number in episode]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert numbers[-1] + 1 >= promised
            assert len(numbers) >= min(promised, 40 - 7 - 7)


FAST_WRITER = textwrap.dedent("""
    import sys
    import numpy as np
    from tests.replay.test_replay_crash import IMAGES, ReplayBuffer
    buffer = ReplayBuffer(sys.argv[1], capacity=64, features=IMAGES, flush_every_s=None)
    for number in range(10**9):
        steps = np.arange(1 + number % 5)
        wide = np.repeat((number * 8 + steps)[:, None], 64, axis=1)
        pixels = np.broadcast_to((number % 16 * 16).__index__(), (len(steps), 16, 16, 3))
        buffer.add_episode({"wide": wide, "image": pixels.astype(np.uint8)})
        if number == 30:
            print("ready", flush=True)
""")
IMAGES = {"wide": Feature("int64", (64,)), "image": Feature("image", (16, 16, 3))}


def test_readers_see_whole_frames_of_one_episode_while_another_process_writes(tmp_path):
    windows = {"wide": Window(frames=(-1, 0, 1))}
    with started(FAST_WRITER, tmp_path / "buffer") as printed:
        assert printed.readline() == b"ready\n"
        buffer = ReplayBuffer(tmp_path / "buffer")
        seen: set[int] = set()
        # At least so often, and on until the writer has come some way: it may get little time.
        for reads in count():
            if reads >= 400 and (len(seen) > 100 or reads >= 40_000):
                break
            time.sleep(0.001)  # The writer needs a processor, too.
            sample = buffer.sample(16, windows=windows)
            wide = sample["wide"]
            assert (wide == wide[..., :1]).all(), "a frame is torn"
            episode, step = np.divmod(wide[..., 0], 8)
            assert (episode == episode[:, :1]).all(), "a window holds two episodes"
            wanted = np.clip(step[:, 1:2] + [-1, 0, 1], 0, episode[:, :1] % 5)
            assert (step == wanted).all(), "a window holds other frames"
            pixels = sample["image"].astype(int) - (episode[:, 0] % 16 * 16)[:, None, None, None]
            assert np.abs(pixels).max() <= 2, "an image is of another frame"
            seen.update(episode[:, 0].tolist())
    assert len(seen) > 100, "the writer stood still"


@pytest.mark.parametrize("count", range(6))
def test_episodes_that_leave_while_their_table_is_read_are_not_in_it(tmp_path, monkeypatch, count):
    reader = ReplayBuffer(tmp_path / "buffer", capacity=4, features=FEATURES)
    with ReplayBuffer(tmp_path / "buffer") as buffer:
        for number in range(4):
            buffer.add_episode(episode_of([number]))
        held = reader._ring
        read = held._read_starts

        def late(first: int, stop: int) -> Any:
            for number in range(count):
                buffer.add_episode(episode_of([10 + number]))
            return read(first, stop)

        monkeypatch.setattr(held, "_read_starts", late)
        assert held.snapshot().starts.tolist() == list(range(min(count, 4), 5))


@pytest.mark.parametrize("count", range(1, 9))
def test_frames_overwritten_while_they_are_read_are_drawn_anew(tmp_path, monkeypatch, count):
    reader = ReplayBuffer(tmp_path / "buffer", capacity=8, features=FEATURES)
    with ReplayBuffer(tmp_path / "buffer") as buffer:
        for number in range(0, 8, 2):
            buffer.add_episode(episode_of([number, number + 1]))
        numbers = iter(range(8, 8 + count))
        numbered = reader._ring.slots["number"]
        fetch = numbered.fetch

        def late(places: Any) -> Any:
            for number in numbers:
                buffer.add_episode(episode_of([number]))
            return fetch(places)

        # "wide" is read before the new episodes come, "number" after.
        monkeypatch.setattr(numbered, "fetch", late)
        sample = reader.sample(50, windows={"wide": Window(frames=(0,))}, seed=0)
        assert (sample["wide"][:, 0] == sample["number"][:, None]).all()
        held = [number for episode in held_numbers(buffer) for number in episode]
        assert set(sample["number"].tolist()) <= set(held)


def test_a_sample_is_drawn_though_all_episodes_left_while_they_were_listed(tmp_path, monkeypatch):
    reader = ReplayBuffer(tmp_path / "buffer", capacity=4, features=FEATURES)
    with ReplayBuffer(tmp_path / "buffer") as buffer:
        for number in range(4):
            buffer.add_episode(episode_of([number]))
        held = reader._ring
        read = held._read_starts

        def late(first: int, stop: int) -> Any:
            monkeypatch.undo()
            for number in range(4):
                buffer.add_episode(episode_of([10 + number]))
            return read(first, stop)

        monkeypatch.setattr(held, "_read_starts", late)
        assert len(reader.sample(2)["row"]) == 2
