"""The folder of caches: names, list, verify, prune, remove; and the commands over them."""

import json
import os
import shutil

import pytest
from typer.testing import CliRunner

import roboreel as reel
from roboreel.cli import app
from roboreel.dataset.cache import build as build_module
from roboreel.dataset.cache.home import (
    cache_home,
    cache_path,
    list_caches,
    prune_caches,
    remove_cache,
    size_of,
    verify_cache,
)
from roboreel.errors import CacheError
from roboreel.schema import Feature
from tests.factory import NUMBERS, write_dataset

FEATURES = {**NUMBERS, "front": Feature("image", (8, 12, 3)), "side": Feature("image", (8, 12, 3))}


@pytest.fixture
def dataset(tmp_path):
    write_dataset(tmp_path / "data set", [3, 1, 5, 2, 7], features=FEATURES)
    return reel.open_dataset(tmp_path / "data set")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(build_module, "_PART_ROWS", 4)
    monkeypatch.setenv("ROBOREEL_CACHE", str(tmp_path / "home"))
    return tmp_path / "home"


def build(dataset, name, used_s):
    """Build a cache of numbers that was last used at a time."""
    root = cache_home() / name
    dataset.materialize(root)
    os.utime(root / "cache.json", (used_s, used_s))
    return root


def test_the_home_follows_the_environment(home, tmp_path, monkeypatch):
    assert cache_home() == home
    monkeypatch.delenv("ROBOREEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_home() == tmp_path / "x" / "roboreel"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_home().parts[-2:] == (".cache", "roboreel")


def test_a_default_name_tells_datasets_pictures_and_cameras_apart(home, tmp_path):
    jpeg, raw = reel.Jpeg((4, 6), 90), reel.Raw()
    paths = [
        cache_path(tmp_path / "a" / "data" / "my arm", {"*": jpeg}),
        cache_path(tmp_path / "b" / "data" / "my arm", {"*": jpeg}),
        cache_path(tmp_path / "a" / "data" / "my arm", {"*": raw}),
        cache_path(tmp_path / "a" / "data" / "my arm", {"front": raw}),
        cache_path(tmp_path / "a" / "data" / "my arm", {"side": raw}),
        cache_path(tmp_path / "a" / "data" / "my arm", {}),
    ]
    assert len(set(paths)) == len(paths)
    assert all(path.parent == home for path in paths)
    assert paths[0].name.startswith("data-my_arm-jpeg-4x6-q90-")
    assert paths[5].name.startswith("data-my_arm-numbers-")
    assert paths[0] == cache_path(tmp_path / "b" / ".." / "a" / "data" / "my arm", {"*": jpeg})


def test_caches_are_listed_the_last_used_first_and_other_folders_are_skipped(dataset, home):
    assert list_caches() == []
    old, new = build(dataset, "old", 1000), build(dataset, "new", 2000)
    (home / "notes").mkdir()
    (home / "file.txt").write_text("mine")
    entries = list_caches(home)
    assert [entry.path for entry in entries] == [new, old]
    assert entries[0].manifest.num_rows == 18
    assert entries[0].size_bytes == size_of(new) > 0
    reel.open_dataset(dataset.path, cache=old)
    assert [entry.path for entry in list_caches()] == [old, new]


def test_prune_removes_the_caches_used_longest_ago(dataset):
    caches = [build(dataset, f"c{used_s}", used_s) for used_s in (1000, 2000, 3000)]
    size_bytes = size_of(caches[0])
    planned = prune_caches(2 * size_bytes, dry_run=True)
    assert [entry.path for entry in planned.removed] == [caches[0]]
    assert caches[0].exists()
    assert prune_caches(2 * size_bytes) == planned
    assert [cache.exists() for cache in caches] == [False, True, True]
    assert planned.kept_bytes == 2 * size_bytes


@pytest.mark.parametrize("place", ["notes", "KEY/notes", "KEY/numbers/notes", "KEY/images-000000x"])
def test_neither_prune_nor_remove_touches_a_cache_that_holds_files_of_somebody_else(dataset, place):
    root = build(dataset, "c", 1000)
    key = next(path.name for path in root.iterdir() if path.is_dir())
    mine = root / place.replace("KEY", key)
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    with pytest.raises(CacheError, match="There are other files, such as"):
        remove_cache(root)
    pruned = prune_caches(0)
    assert pruned.removed == ()
    assert "There are other files" in pruned.refused[0]
    assert pruned.kept_bytes == size_of(root)
    with pytest.raises(CacheError, match="There are other files"):
        dataset.materialize(root, {"*": reel.Raw()})
    assert verify_cache(root) == []
    assert (mine / "thesis.txt").read_text() == "precious"


def test_no_link_is_followed_out_of_the_home(dataset, home, tmp_path):
    real = build(dataset, "c", 1000).rename(tmp_path / "elsewhere")
    before = size_of(real)
    (home / "linked").symlink_to(real, target_is_directory=True)
    with pytest.raises(CacheError, match=r"linked' is a link.*elsewhere"):
        remove_cache(home / "linked")
    assert "is a link" in prune_caches(0).refused[0]
    assert size_of(real) == before
    inside = build(dataset, "d", 1000)
    (inside / "0123456789abcdef").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(CacheError, match="0123456789abcdef"):
        remove_cache(inside)


@pytest.mark.parametrize("place", ["", "KEY", "KEY/numbers"])
@pytest.mark.parametrize("name", [".0123456789ab.tmp-thesis", "generation-0123456789ab", "numbers"])
def test_a_folder_named_as_ours_does_not_hide_files_of_somebody_else(dataset, place, name):
    root = build(dataset, "c", 1000)
    key = next(path.name for path in root.iterdir() if path.is_dir())
    mine = root / place.replace("KEY", key) / name
    mine.mkdir(parents=True, exist_ok=True)
    (mine / "thesis.txt").write_text("precious")
    with pytest.raises(CacheError, match="There are other files"):
        remove_cache(root)
    assert prune_caches(0).removed == ()
    assert (mine / "thesis.txt").read_text() == "precious"


def test_a_link_inside_a_cache_is_neither_followed_nor_removed(dataset, tmp_path):
    root = build(dataset, "c", 1000)
    (tmp_path / "home of others").mkdir()
    (tmp_path / "home of others" / "meta.json").write_text("precious")
    store = next(root.glob("*/numbers"))
    (store / "generation-0123456789ab").symlink_to(tmp_path / "home of others")
    assert prune_caches(0).removed == ()
    assert (tmp_path / "home of others" / "meta.json").read_text() == "precious"


def test_a_folder_that_is_not_a_cache_is_left_alone(dataset):
    for path in (dataset.path, dataset.path / "absent", dataset.path / "meta" / "info.json"):
        with pytest.raises(CacheError, match="No cache at"):
            remove_cache(path)
    assert (dataset.path / "meta" / "info.json").exists()


def test_verify_finds_missing_parts_damage_and_another_dataset(dataset, home):
    dataset.materialize(home / "c", {"front": reel.Raw()})
    assert verify_cache(home / "c", dataset.manifest, checksums=True) == []
    part = next((home / "c").glob("*/images-000002"))
    shutil.rmtree(part)
    assert "images-000002" in verify_cache(home / "c")[0]
    os.utime(dataset.path / "data" / "chunk-000" / "file-001.parquet", ns=(0, 0))
    assert "another size or time" in verify_cache(home / "c", dataset.manifest)[1]


@pytest.mark.parametrize("change", [{"part_rows": 0}, {"num_rows": -1}, {"source": 5}])
def test_a_manifest_with_impossible_numbers_is_refused(dataset, home, change):
    dataset.materialize(home / "c")
    path = home / "c" / "cache.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CacheError, match="Not a cache"):
        reel.open_dataset(dataset.path, cache=home / "c")


def test_the_commands_build_list_verify_prune_and_remove(dataset, tmp_path):
    run = CliRunner().invoke
    build = ["cache", "build", str(dataset.path), "--size", "4x6", "--jpeg", "90", "--json"]
    dry = json.loads(run(app, [*build, "--dry-run"]).stdout)
    assert (dry["frames"], dry["cameras"]) == (18, 2)
    assert not (tmp_path / "home").exists()
    built = json.loads(run(app, build).stdout)
    listed = json.loads(run(app, ["cache", "list", "--json"]).stdout)
    assert [entry["path"] for entry in listed] == [built["path"]]
    assert "data_set-jpeg-4x6-q90" in built["path"]
    good = run(
        app, ["cache", "verify", built["path"], "--dataset", str(dataset.path), "--checksums"]
    )
    assert good.exit_code == 0
    shard = next(p for p in (tmp_path / "home").rglob("shard-*.arrow"))
    shard.write_bytes(shard.read_bytes()[:-1])
    bad = run(app, ["cache", "verify", built["path"]])
    assert bad.exit_code == 1
    assert "Problem" in bad.stdout
    assert run(app, ["cache", "prune", "--keep-bytes", "1", "--dry-run"]).exit_code == 0
    assert shard.exists()
    assert run(app, ["cache", "prune", "--keep-bytes", "1"]).exit_code == 0
    assert not shard.exists()
    assert isinstance(run(app, ["cache", "remove", str(dataset.path)]).exception, CacheError)
    assert (dataset.path / "meta" / "info.json").exists()


def test_the_commands_refuse_what_the_library_refuses(dataset, home):
    run = CliRunner().invoke
    root = build(dataset, "c", 1000)
    (root / "mine").mkdir()
    pruned = run(app, ["cache", "prune", "--keep-bytes", "0"])
    assert pruned.exit_code == 1
    assert "Not removed: There are other files" in pruned.stdout
    (root / "mine").rmdir()
    assert "Would remove" in run(app, ["cache", "remove", str(root), "--dry-run"]).stdout
    assert run(app, ["cache", "remove", str(root)]).exit_code == 0
    assert not root.exists()
    for wrong in (["--size", "4x0"], ["--size", "big"], ["--raw", "--jpeg", "90"]):
        assert run(app, ["cache", "build", str(dataset.path), *wrong]).exit_code == 2
    assert run(app, ["cache", "prune", "--keep-bytes", "much"]).exit_code == 2
