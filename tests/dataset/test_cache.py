"""Training caches: the same dataset, decoded once."""

import gc
import os
import subprocess
import sys

import imagecodecs
import numpy as np
import pytest

import roboreel as reel
from roboreel.dataset.cache import build as build_module
from roboreel.dataset.cache import reader as reader_module
from roboreel.errors import CacheError
from roboreel.schema import Feature
from tests.factory import NUMBERS, image_of, write_dataset

CAMERA = "observation.images.front"
FEATURES = {**NUMBERS, CAMERA: Feature("image", (8, 12, 3)), "side": Feature("image", (8, 12, 3))}
LENGTHS = [3, 1, 5, 2, 7]


@pytest.fixture
def dataset(tmp_path):
    write_dataset(tmp_path / "data set", LENGTHS, features=FEATURES)
    return reel.open_dataset(tmp_path / "data set")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    # Several parts out of a few rows.
    monkeypatch.setattr(build_module, "_PART_ROWS", 4)


def test_raw_pixels_are_those_of_the_source(dataset, tmp_path):
    cached = dataset.materialize(tmp_path / "c", {"*": reel.Raw()})
    rows = [17, 3, 3, 0, 9]
    ours, theirs = cached.read(rows), dataset.read(rows)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert np.array_equal(ours[name], theirs[name]), name
    hwc = cached.read(rows, [CAMERA], layout="hwc")[CAMERA]
    assert np.array_equal(hwc[0], image_of(17))
    assert cached.memory.paths[CAMERA] == "training cache, mapped"
    assert cached.memory.paths["action"] == "training cache, mapped"


def test_jpeg_comes_in_the_size_of_the_cache_and_other_sizes_from_the_source(dataset, tmp_path):
    cached = dataset.materialize(
        tmp_path / "c", {"observation.images.*": reel.Jpeg(size=(4, 6), quality=90)}
    )
    images = cached.read([5], [CAMERA])[CAMERA]
    small = dataset.read([5], [CAMERA], image_size=(4, 6), layout="hwc")[CAMERA][0]
    expected = imagecodecs.jpeg8_decode(imagecodecs.jpeg8_encode(small, level=90))
    assert np.array_equal(images[0], expected.transpose(2, 0, 1))
    full = cached.read([5], [CAMERA], image_size=(8, 12))[CAMERA]
    assert np.array_equal(full[0].transpose(1, 2, 0), image_of(5))
    assert np.array_equal(cached.read([5], ["side"])["side"][0].transpose(1, 2, 0), image_of(5))
    streamed = list(cached.episodes[2].stream(CAMERA))
    assert np.array_equal(np.stack(streamed), cached.episodes[2].read([CAMERA])[CAMERA])


def test_windows_and_views_read_through_the_cache(dataset, tmp_path):
    cached = reel.open_dataset(dataset.path, cache=_built(dataset, tmp_path / "c"))
    windows = {"action": reel.Window(frames=range(-2, 3)), CAMERA: reel.Window(frames=(-1, 0))}
    view, source = cached.select(episodes=[4, 1]), dataset.select(episodes=[4, 1])
    ours, theirs = (v.read(range(len(v)), windows=windows) for v in (view, source))
    for name in theirs:
        assert np.array_equal(ours[name], theirs[name]), name


def _built(dataset, path):
    dataset.materialize(path, {"*": reel.Raw()})
    return path


def test_other_picks_find_the_same_cache(dataset, tmp_path):
    root = _built(dataset, tmp_path / "c")
    before = sorted((p, p.stat().st_mtime_ns) for p in root.rglob("*.arrow"))
    view = dataset.select(episodes=[2]).materialize(root, {"*": reel.Raw()})
    assert len(view) == 5
    assert view.read([0], ["index"])["index"].tolist() == [4]
    assert sorted((p, p.stat().st_mtime_ns) for p in root.rglob("*.arrow")) == before


def test_an_interrupted_build_goes_on_where_it_stopped(dataset, tmp_path):
    root = tmp_path / "c"
    seen = []

    def stop(done, total):
        seen.append(done)
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dataset.materialize(root, {"*": reel.Raw()}, on_rows=stop)
    with pytest.raises(CacheError, match="No cache"):
        reel.open_dataset(dataset.path, cache=root)
    first = next(root.glob("*/images-000000"))
    kept = sorted((p, p.stat().st_mtime_ns) for p in first.rglob("*") if p.is_file())
    cached = dataset.materialize(root, {"*": reel.Raw()})
    assert sorted((p, p.stat().st_mtime_ns) for p in first.rglob("*") if p.is_file()) == kept
    assert np.array_equal(cached.read(range(18))[CAMERA], dataset.read(range(18))[CAMERA])


def test_a_new_cache_takes_the_place_of_an_old_one(dataset, tmp_path):
    root = _built(dataset, tmp_path / "c")
    dataset.materialize(root, {"*": reel.Jpeg(size=(4, 6))})
    assert reel.open_dataset(dataset.path, cache=root).read([0])[CAMERA].shape == (1, 3, 4, 6)
    assert len([p for p in root.iterdir() if p.is_dir()]) == 1


def test_a_cache_that_is_being_read_outlives_its_successor_and_goes_with_a_later_one(
    dataset, tmp_path
):
    root = _built(dataset, tmp_path / "c")
    old = reel.open_dataset(dataset.path, cache=root)
    dataset.materialize(root, {"*": reel.Jpeg(size=(4, 6))})
    # Parts that it had not opened yet are there too.
    assert np.array_equal(old.read(range(18))[CAMERA], dataset.read(range(18))[CAMERA])
    assert "mapped" in old.memory.paths[CAMERA]
    del old
    gc.collect()
    dataset.materialize(root, {"*": reel.Jpeg(size=(2, 3))})
    assert len([p for p in root.iterdir() if p.is_dir()]) == 1


def test_a_stale_cache_is_refused_with_what_to_do(dataset, tmp_path):
    root = _built(dataset, tmp_path / "c")
    path = dataset.path / "data" / "chunk-000" / "file-001.parquet"
    os.utime(path, ns=(0, 0))
    with pytest.raises(CacheError, match=r"another size or time.*roboreel cache build"):
        reel.open_dataset(dataset.path, cache=root)


def test_wrong_wishes_are_refused(dataset, tmp_path):
    with pytest.raises(CacheError, match="No camera matches 'wrist'"):
        dataset.materialize(tmp_path / "c", {"wrist": reel.Raw()})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(CacheError, match=r"other files, such as 'thesis\.txt'"):
        dataset.materialize(tmp_path / "mine")
    with pytest.raises(ValueError, match="a whole number from 1 to 100"):
        reel.Jpeg(quality=0)
    (tmp_path / "mine" / "cache.json").write_text("{}")
    with pytest.raises(CacheError, match="Not a cache"):
        reel.open_dataset(dataset.path, cache=tmp_path / "mine")


@pytest.mark.parametrize("name", [".git", ".ssh"])
def test_a_folder_of_somebody_else_is_never_swept(dataset, tmp_path, name):
    (tmp_path / "home" / name).mkdir(parents=True)
    (tmp_path / "home" / name / "key").write_text("precious")
    with pytest.raises(CacheError, match=f"other files, such as '{name}'"):
        dataset.materialize(tmp_path / "home")
    assert (tmp_path / "home" / name / "key").read_text() == "precious"


def test_few_parts_are_open_at_once(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(reader_module, "_MAX_OPEN_PARTS", 2)
    cached = dataset.materialize(tmp_path / "c", {"*": reel.Raw()})
    ours, theirs = cached.read(range(18))[CAMERA], dataset.read(range(18))[CAMERA]
    assert np.array_equal(ours, theirs)
    assert len(cached._reader._cache._parts.items()) == 2


_SHARE = """
import sys, numpy as np, roboreel as reel
dataset = reel.open_dataset(sys.argv[1], cache=sys.argv[2])
dataset.read(range(len(dataset)), ["observation.state"])
print("read", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="needs Linux's smaps")  # noqa: PTH110
def test_processes_share_one_copy_of_the_numbers(tmp_path):
    features = {"observation.state": Feature("float32", (500,))}
    write_dataset(tmp_path / "d", [500] * 4, features=features)
    reel.open_dataset(tmp_path / "d").materialize(tmp_path / "c")
    command = [sys.executable, "-c", _SHARE, str(tmp_path / "d"), str(tmp_path / "c")]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "read\n"
        mapped = [_mapped_bytes(child.pid, "shard-") for child in children]
    finally:
        for child in children:
            child.communicate("\n")
    column = 2000 * 500 * 4
    # Pages of a file are shared by all that map it, but those that one has made its own.
    assert all(size >= column for size, _ in mapped)
    assert [copied for _, copied in mapped] == [0, 0]


def _mapped_bytes(pid, name):
    """Return how much a process maps of files so named, and the bytes that it has copied of them.

    Not how much is resident: a machine that is short of memory drops pages of files at any time.
    """
    size = copied = 0
    inside = False
    with open(f"/proc/{pid}/smaps") as lines:  # noqa: PTH123
        for line in lines:
            if "-" in line.split(" ", 1)[0]:
                inside = name in line
            elif inside and line.startswith("Size:"):
                size += int(line.split()[1]) * 1024
            elif inside and line.startswith("Anonymous:"):
                copied += int(line.split()[1]) * 1024
    return size, copied
