"""Writers of everything else: shards, caches, rings, exports, reports, downloads, the demo."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.report import write_report
from roboreel.schema import Feature
from roboreel.shards import open_shards, validate_shards
from tests.factory import write_dataset
from tests.faults.recording import check_images, record_apart
from tests.faults.scenario import Remains, Scenario, check_no_litter

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.scenario import Say

__all__ = ["SCENARIOS", "start_hub"]

# --- shards


def write_store(folder: Path, version: int) -> None:
    """Write a store whose every row tells its version."""
    rows = ({"data": bytes([version]) * 50, "n": 100 * version + n} for n in range(6))
    reel.write_shards(
        rows, {"data": "bytes", "n": "int64"}, folder / "store", shard_size=600, batch_size=3
    )


def write_second(folder: Path, say: Say) -> None:
    write_store(folder, 2)
    say("written")


def verify_store(remains: Remains) -> None:
    store = remains.folder / "store"
    allowed = {2} if "written" in remains.said else {1, 2}
    assert version_of(store) in allowed
    write_store(remains.folder, 3)
    assert version_of(store) == 3
    names = sorted(entry.name for entry in store.iterdir() if not entry.name.startswith("gen"))
    assert names == ["current", "write.lock"], names
    assert len(list(store.glob("generation-*"))) == 1
    check_no_litter(remains.folder)


def write_first(folder: Path, say: Say) -> None:
    """Write a store to folders that do not exist."""
    write_store(folder / "new" / "folders", 2)
    say("written")


def verify_first(remains: Remains) -> None:
    folder = remains.folder / "new" / "folders"
    if "written" in remains.said:
        assert version_of(folder / "store") == 2
    write_store(folder, 3)
    assert version_of(folder / "store") == 3
    check_no_litter(remains.folder)


def version_of(store: Path) -> int:
    """Return the version that all rows of a store have."""
    rows = [int(row["n"]) for row in open_shards(store)]
    assert len(rows) == 6
    assert validate_shards(store, checksums=True) == []
    (version,) = {row // 100 for row in rows}
    return version


# --- a training cache

LENGTHS = [3, 3, 3]


def build_cache(folder: Path, say: Say) -> None:
    dataset = reel.open_dataset(folder / "dataset")
    dataset.materialize(folder / "cache", {"observation.images.*": reel.Jpeg()})
    say("built")


def verify_cache(remains: Remains) -> None:
    remains.once(check_images, remains.folder / "dataset", LENGTHS)
    if "built" in remains.said:
        check_cached(remains.folder)
    build_cache(remains.folder, lambda _: None)
    check_cached(remains.folder)
    check_no_litter(remains.folder)


def check_cached(folder: Path) -> None:
    """Check that the cache holds what the dataset does."""
    plain = reel.open_dataset(folder / "dataset")
    cached = reel.open_dataset(folder / "dataset", cache=folder / "cache")
    rows = np.arange(len(plain))
    expected, found = plain.read(rows), cached.read(rows)
    for name, values in expected.items():
        if name in plain.features and plain.features[name].is_camera:
            assert np.abs(values.astype(int) - found[name]).max() <= 8
        else:
            np.testing.assert_array_equal(values, found[name])


# --- a ring

RING = {"wide": Feature("int64", (1024,)), "number": Feature("int64", (1,))}
CAPACITY = 12


def episode_of(numbers: range) -> dict[str, Any]:
    wide = np.repeat(np.array(numbers, dtype=np.int64)[:, None], 1024, axis=1)
    return {"wide": wide, "number": wide[:, 0]}


def fill_ring(folder: Path, say: Say) -> None:
    """Add episodes until the ring has turned twice; say how far all is on the disk."""
    with reel.ReplayBuffer(folder / "ring", capacity=CAPACITY, features=RING) as buffer:
        say("made")
        start = 0
        for length in (3, 5, 1, 4, 6, 2, 3):
            buffer.add_episode(episode_of(range(start, start + length)))
            start += length
            say(f"added {start}")
            if length % 3 == 0:
                buffer.flush()
                say(f"flushed {start}")


def verify_ring(remains: Remains) -> None:
    ring = remains.folder / "ring"
    word = "flushed" if remains.is_cut else "added"
    promised = max((int(s.split()[1]) for s in remains.said if s.startswith(word)), default=0)
    if remains.is_cut:
        another_boot()
    made = "made" in remains.said
    options: dict[str, Any] = {} if made else {"capacity": CAPACITY, "features": RING}
    with reel.ReplayBuffer(ring, **options) as buffer:
        numbers = [number for episode in buffer.episodes() for number in whole(episode)]
        assert numbers == sorted(numbers)
        if not remains.is_cut:  # afterwards, frames that were being replaced are gone
            assert (numbers[-1] + 1 if numbers else 0) >= promised
            assert len(numbers) >= min(promised, CAPACITY - 6 - 6)
        if buffer.open_frames:
            buffer.discard_episode()
        buffer.add_episode(episode_of(range(1000, 1002)))
        assert whole(list(buffer.episodes())[-1]) == [1000, 1001]
    check_no_litter(remains.folder)


def whole(episode: Any) -> list[int]:
    """Return the numbers of an episode, each of whose frames is whole."""
    assert (episode["wide"] == episode["number"][:, None]).all()
    numbers: list[int] = episode["number"].reshape(-1).tolist()
    return numbers


def another_boot() -> None:
    """Let the ring believe that the machine was started anew."""
    from roboreel.replay import ring, writer

    for module in (ring, writer):
        vars(module)["current_boot"] = lambda: b"another boot 123"


# --- exports, reports


def export(folder: Path, say: Say) -> None:
    from roboreel.rerun import export_episodes

    export_episodes(reel.open_dataset(folder / "dataset"), folder / "out")
    say("exported")


def verify_export(remains: Remains) -> None:
    from tests.rerun.rrd_rows import rows_of

    out = remains.folder / "out"
    if "exported" not in remains.said:
        export(remains.folder, lambda _: None)
    names = sorted(path.name for path in out.iterdir())
    assert names == ["blueprint.rbl", *(f"episode_{e:06d}.rrd" for e in range(3))]
    for episode, length in enumerate(LENGTHS):
        rows = rows_of(out / f"episode_{episode:06d}.rrd")
        assert {time for *_, time in rows if time is not None} == set(range(length))
    assert (out / "blueprint.rbl").read_bytes()[:4] in (b"RRF2", b"RRIO")
    again = remains.folder / "again"
    from roboreel.rerun import export_episodes

    export_episodes(reel.open_dataset(remains.folder / "dataset"), again)
    sizes = [(folder / "blueprint.rbl").stat().st_size for folder in (out, again)]
    # Random names inside compress to more or to less: sizes differ by up to a hundred bytes.
    assert abs(sizes[0] - sizes[1]) < 512, f"the layout has {sizes[0]} bytes, not {sizes[1]}"
    check_no_litter(remains.folder)


def report(folder: Path, say: Say) -> None:
    write_report(reel.open_dataset(folder / "dataset"), folder / "pages" / "report.html")
    say("written")


def verify_report(remains: Remains) -> None:
    page = remains.folder / "pages" / "report.html"
    if page.exists() or "written" in remains.said:
        assert page.read_text().rstrip().endswith("</html>")
    report(remains.folder, lambda _: None)
    assert page.read_text().rstrip().endswith("</html>")
    check_no_litter(remains.folder)


# --- the demo


def make_demo(folder: Path, say: Say) -> None:
    spec = DemoSpec(episodes=2, frames=4, cameras=1, size=(48, 64), codec="h264")
    make_demo_dataset(folder / "demo", spec)
    say("made")


def verify_demo(remains: Remains) -> None:
    root = remains.folder / "demo"
    if "made" not in remains.said and not root.exists():
        make_demo(remains.folder, lambda _: None)
    dataset = reel.open_dataset(root)
    assert len(dataset.episodes) == 2
    values = dataset.read(np.arange(len(dataset)))
    assert values["index"].tolist() == list(range(len(dataset)))
    if "made" not in remains.said:
        check_no_litter(remains.folder)


# --- downloads


def start_hub(root: Path) -> int:
    """Serve a dataset on loopback from a process of its own; return the process.

    The Hub's library reads the address when it is imported, so this comes first.
    """
    from tests.remote.hub_server import HubServer

    write_dataset(root, [2, 3])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        server = HubServer(root)
        os.write(writing, server.endpoint.encode() + b"\n")
        signal.pause()
    address = os.read(reading, 100).decode().strip()
    os.environ.update(
        HF_ENDPOINT=address, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1",
        HF_HUB_DISABLE_TELEMETRY="1", HF_HOME=str(root.parent / "home"),
    )  # fmt: skip
    os.environ.pop("HF_HUB_OFFLINE", None)
    return child


def download(folder: Path, say: Say) -> None:
    from roboreel.huggingface import download

    download("owner/name", root=folder / "dataset")
    say("downloaded")


def verify_download(remains: Remains) -> None:
    root = remains.folder / "dataset"
    if "downloaded" not in remains.said:
        download(remains.folder, lambda _: None)
    dataset = reel.open_dataset(root)
    values = dataset.read(np.arange(5), ["index"])
    assert values["index"].tolist() == list(range(5))
    unfinished = [path for path in root.rglob("*.incomplete") if "downloaded" in remains.said]
    assert not unfinished


SCENARIOS = [
    Scenario("shards", write_second, verify_store, partial(write_store, version=1)),
    Scenario("new shards", write_first, verify_first),
    Scenario("cache", build_cache, verify_cache, partial(record_apart, store="image")),
    Scenario("replay buffer", fill_ring, verify_ring),
    Scenario(
        "export",
        export,
        verify_export,
        partial(record_apart, store="video"),
        ("roboreel.rerun", "tests.rerun.rrd_rows"),
    ),
    Scenario("report", report, verify_report, partial(record_apart, store="image")),
    Scenario("demo", make_demo, verify_demo),
    Scenario(
        "download",
        download,
        verify_download,
        modules=("roboreel.huggingface",),
        survives_power_cuts=False,  # The Hub's library does not sync what it downloads.
    ),
]
