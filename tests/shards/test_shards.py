"""Writing shards: rotation, publication, staleness, and what a broken store says."""

import json
import multiprocessing
import os
import pickle
import re
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roboreel.shards
from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    MetadataError,
    MissingFileError,
    UnsafePathError,
    UnsupportedVersionError,
)
from roboreel.shards import (
    Image,
    open_shards,
    read_manifest,
    validate_shards,
    write_shards,
)
from roboreel.shards.write import ShardFile

FEATURES = {"data": "bytes", "n": "int64"}


def examples(count: int, version: int = 0) -> Any:
    return ({"data": bytes([n % 256]) * 1000, "n": n + version * 1000} for n in range(count))


def never() -> Any:
    return map(pytest.fail, ["the examples were touched"])


def numbers(path: Path) -> list[int]:
    return [int(row["n"]) for row in open_shards(path)]


def generation_of(path: Path) -> Path:
    return path / (path / "current").read_text().strip()


def test_shards_stay_below_their_size_and_batches_below_theirs(tmp_path):
    manifest = write_shards(
        examples(100), FEATURES, tmp_path / "s", shard_size="20KB", batch_size=7
    )
    assert len(manifest.shards) > 3
    assert all(shard.size_bytes <= 22_000 for shard in manifest.shards)
    assert all(rows <= 7 for shard in manifest.shards for rows in shard.batch_rows)
    assert manifest.num_rows == 100
    assert numbers(tmp_path / "s") == list(range(100))
    assert read_manifest(tmp_path / "s") == manifest


def test_a_batch_of_large_examples_ends_at_the_size_of_a_shard(tmp_path):
    manifest = write_shards(examples(50), FEATURES, tmp_path / "s", shard_size="5KB")
    assert all(rows <= 5 for shard in manifest.shards for rows in shard.batch_rows)


def test_an_array_of_bytes_survives_in_the_order_given_with_many_threads(tmp_path):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 200, 200)
    pictures = [{"x": np.full((size, size), n, np.uint8)} for n, size in enumerate(sizes)]
    write_shards(pictures, {"x": Image()}, tmp_path / "s", threads=4, batch_size=30)
    read = [row["x"] for row in open_shards(tmp_path / "s").decoded()]
    assert [(image.shape[0], int(image[0, 0, 0])) for image in read] == list(
        zip(sizes.tolist(), range(200), strict=True)
    )


def test_the_same_source_is_written_once(tmp_path):
    path, source = tmp_path / "s", {"file": "a.bin", "size": 5, "times": (1, 2)}
    manifest = write_shards(examples(9), FEATURES, path, source=source)
    assert write_shards(never(), FEATURES, path, source=dict(source)) == manifest
    assert numbers(path) == list(range(9))


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"size": 6}},
        {"features": {"data": "bytes", "n": "int32"}},
        {"features": {"n": "int64", "data": "bytes"}},
        {"overwrite": True},
        {"source": None},
    ],
)
def test_another_source_or_features_or_the_wish_writes_again(tmp_path, change):
    arguments: dict[str, Any] = {"features": FEATURES, "source": {"size": 5}}
    write_shards(examples(9), path=tmp_path / "s", **arguments)
    write_shards(examples(9, 1), path=tmp_path / "s", **(arguments | change))
    assert numbers(tmp_path / "s") == list(range(1000, 1009))


def test_a_damaged_store_is_written_again_although_its_source_is_the_same(tmp_path):
    write_shards(examples(9), FEATURES, tmp_path / "s", source={})
    os.truncate(generation_of(tmp_path / "s") / "shard-00000.arrow", 100)
    write_shards(examples(9, 1), FEATURES, tmp_path / "s", source={})
    assert numbers(tmp_path / "s") == list(range(1000, 1009))


def test_a_source_is_what_json_can_say(tmp_path):
    with pytest.raises(ValueError, match="text, numbers, lists and dicts"):
        write_shards(never(), FEATURES, tmp_path / "s", source={"x": object()})
    assert not (tmp_path / "s").exists()


def test_two_processes_that_want_the_same_store_write_it_once(tmp_path):
    # Not multiprocessing.Pool, which waits for ever when its children cannot start.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        wrote = list(pool.map(_write_slowly, [tmp_path / "s"] * 2, [tmp_path] * 2))
    assert sorted(wrote) == [False, True]
    assert numbers(tmp_path / "s") == list(range(20))


def _write_slowly(path: Path, meeting: Path) -> bool:
    (meeting / f"here-{os.getpid()}").touch()
    while len(list(meeting.glob("here-*"))) < 2:
        time.sleep(0.01)
    touched = []

    def slow() -> Any:
        touched.append(True)
        for example in examples(20):
            time.sleep(0.02)
            yield example

    write_shards(slow(), FEATURES, path, source={"a": 1})
    return bool(touched)


def test_names_with_dots_have_locks_of_their_own(tmp_path):
    def inner() -> Any:
        write_shards(examples(3), FEATURES, tmp_path / "g1.train")
        yield from examples(3)

    write_shards(inner(), FEATURES, tmp_path / "g1.test")
    assert numbers(tmp_path / "g1.train") == numbers(tmp_path / "g1.test") == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g1.test", "g1.train"]


def test_a_reader_keeps_the_rows_it_opened_while_they_are_replaced(tmp_path):
    path = tmp_path / "s"
    write_shards(examples(60), FEATURES, path, shard_size="9KB", batch_size=5)
    reader = open_shards(path)
    reader[0]
    for version in (1, 2):
        write_shards(examples(60, version), FEATURES, path, shard_size="9KB", batch_size=5)
        assert numbers(path)[0] == version * 1000
    assert [row["n"] for row in reader] == list(range(60))
    assert [row["n"] for row in pickle.loads(pickle.dumps(reader))] == list(range(60))
    reader.close()
    write_shards(examples(60, 3), FEATURES, path)
    assert len(list(path.glob("generation-*"))) == 1


def test_a_pickled_reader_whose_rows_are_gone_says_so(tmp_path):
    write_shards(examples(3), FEATURES, tmp_path / "s")
    with open_shards(tmp_path / "s") as store:
        pickled = pickle.dumps(store)
    write_shards(examples(3, 1), FEATURES, tmp_path / "s")
    with pytest.raises(MissingFileError, match=r"was rewritten.*Open the store again"):
        pickle.loads(pickled)


def test_examples_may_come_from_the_store_that_they_replace(tmp_path):
    path = tmp_path / "s"
    write_shards(examples(60), FEATURES, path, shard_size="9KB")
    old = open_shards(path)
    write_shards(({**row, "n": row["n"] + 1} for row in old), FEATURES, path)
    assert numbers(path) == list(range(1, 61))


def test_a_generator_that_raises_leaves_the_old_store_and_no_litter(tmp_path):
    def failing() -> Any:
        yield from examples(20, 1)
        raise RuntimeError("the simulator fell over")

    path = tmp_path / "s"
    for old in ([], list(range(9))):
        if old:
            write_shards(examples(9), FEATURES, path)
        with pytest.raises(RuntimeError, match="fell over"):
            write_shards(failing(), FEATURES, path, batch_size=5, shard_size="9KB")
        assert len(list(path.glob("generation-*"))) == (1 if old else 0)
    assert numbers(path) == list(range(9))


def test_a_full_disk_leaves_the_old_store_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "s"
    write_shards(examples(9), FEATURES, path)
    write, room = ShardFile.write, [30_000]

    def write_while_there_is_room(file: ShardFile, data: Any) -> int:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(ShardFile, "write", write_while_there_is_room)
    with pytest.raises(OSError, match="No space left"):
        write_shards(examples(99, 1), FEATURES, path, batch_size=5, shard_size="9KB")
    assert numbers(path) == list(range(9))
    assert len(list(path.glob("generation-*"))) == 1


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match=r"'thesis.tex', which is not part of a shard store"):
        write_shards(never(), FEATURES, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("limits", [{"shard_size": 0}, {"batch_size": 0}, {"shard_size": "much"}])
def test_sizes_that_hold_nothing_are_refused(tmp_path, limits):
    with pytest.raises(ValueError, match=r"must be at least 1|is not a size"):
        write_shards(never(), FEATURES, tmp_path / "s", **limits)


class TestValidate:
    @pytest.fixture
    def path(self, tmp_path):
        write_shards(
            examples(60), FEATURES, tmp_path / "s", shard_size="9KB", batch_size=5, source={"a": 1}
        )
        return tmp_path / "s"

    def test_a_good_store_has_no_problems(self, path):
        assert validate_shards(path, features=FEATURES, source={"a": 1}, checksums=True) == []

    def test_a_stale_store_says_what_differs_and_what_to_do(self, path):
        features = {"data": "bytes", "n": "int32", "more": "bool"}
        problems = validate_shards(path, features=features, source={"a": 2})
        assert len(problems) == 3
        assert "'n' is Value(dtype='int64') in the store, not Value(dtype='int32')" in problems[0]
        assert "'more' is None in the store, not Value(dtype='bool')" in problems[1]
        assert "The source's 'a' was 1 and is now 2." in problems[2]
        assert all("Write the shards again" in problem for problem in problems)

    def test_another_order_of_features_is_stale(self, path):
        assert "order" in validate_shards(path, features={"n": "int64", "data": "bytes"})[0]

    def test_a_flipped_byte_is_found_by_its_checksum(self, path):
        shard = generation_of(path) / "shard-00001.arrow"
        flip(shard, shard.stat().st_size // 2)
        assert "shard-00001.arrow holds other bytes" in validate_shards(path, checksums=True)[0]

    def test_missing_and_short_files_are_found(self, path):
        (generation_of(path) / "shard-00001.arrow").unlink()
        os.truncate(generation_of(path) / "shard-00002.arrow", 77)
        missing, short = validate_shards(path)
        assert "shard-00001.arrow is missing" in missing
        assert "shard-00002.arrow has 77 bytes" in short

    def test_rows_that_were_never_written_are_found(self, path):
        def change(meta: Any) -> None:
            meta["shards"][0]["batch_rows"][0] += 1
            meta["num_rows"] += 1

        edit(path, change)
        assert "rows, meta.json says" in validate_shards(path)[0]

    def test_where_there_is_nothing_it_says_so(self, tmp_path):
        assert "There are no shards" in validate_shards(tmp_path / "absent")[0]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def edit(path: Path, change: Any) -> None:
    meta = generation_of(path) / "meta.json"
    plain = json.loads(meta.read_text())
    change(plain)
    meta.write_text(json.dumps(plain))


class TestBrokenStores:
    @pytest.fixture
    def path(self, tmp_path):
        write_shards(examples(60), FEATURES, tmp_path / "s", shard_size="9KB", batch_size=5)
        return tmp_path / "s"

    def test_a_truncated_shard_is_refused_with_its_name(self, path):
        os.truncate(generation_of(path) / "shard-00002.arrow", 1000)
        with pytest.raises(CorruptFileError, match=r"1000 bytes, \d+ were written.*shard-00002"):
            open_shards(path).take(range(60))

    def test_an_empty_shard_is_refused(self, path):
        os.truncate(generation_of(path) / "shard-00000.arrow", 0)
        with pytest.raises(CorruptFileError, match="shard-00000"):
            open_shards(path)[0]

    def test_a_missing_shard_is_refused_with_its_name(self, path):
        (generation_of(path) / "shard-00001.arrow").unlink()
        store = open_shards(path)
        assert store[0]["n"] == 0
        with pytest.raises(MissingFileError, match=r"shard-00001"):
            store.slice(0, 60)

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("{", CorruptFileError), ("", CorruptFileError), ("[]", MetadataError),
            ("{}", MetadataError), ("null", MetadataError), ('{"layout": 99}', UnsupportedVersionError),
            ('{"layout": 1, "shards": 5}', MetadataError),
            ('{"layout": 1, "shards": [{}]}', MetadataError),
        ],
    )  # fmt: skip
    def test_a_broken_meta_json_is_refused_with_its_path(self, path, text, error):
        (generation_of(path) / "meta.json").write_text(text)
        with pytest.raises(error, match=r"meta\.json"):
            open_shards(path)

    @pytest.mark.parametrize(
        "name", ["../../secret.arrow", "/etc/passwd", "a/shard-00000.arrow", 5]
    )
    def test_a_file_outside_the_folder_is_not_opened(self, path, name):
        edit(path, lambda meta: meta["shards"][0].update(file=name))
        with pytest.raises(UnsafePathError, match="is not the name of a shard"):
            open_shards(path)

    @pytest.mark.parametrize("numbers", [[-5, 10], ["5", 5], [5.0, 5]])
    def test_numbers_that_cannot_be_are_refused(self, path, numbers):
        edit(path, lambda meta: meta["shards"][0].update(batch_rows=numbers))
        with pytest.raises(DatasetError, match=r"meta\.json"):
            open_shards(path)

    def test_counts_that_do_not_add_up_are_refused(self, path):
        edit(path, lambda meta: meta.update(num_rows=61))
        with pytest.raises(CorruptFileError, match="num_rows is 61, but the shards have 60 rows"):
            open_shards(path)

    def test_features_that_the_shards_do_not_have_are_refused(self, path):
        def change(meta: Any) -> None:
            meta["features"][1][1]["dtype"] = "int32"

        edit(path, change)
        with pytest.raises(CorruptFileError, match="The columns differ"):
            open_shards(path)[0]

    @pytest.mark.parametrize("text", ["../../etc", "generation-zzz", "", "\x00"])
    def test_a_pointer_that_leads_nowhere_is_refused(self, path, text):
        (path / "current").write_text(text)
        with pytest.raises(CorruptFileError, match="current"):
            open_shards(path)

    def test_a_pointer_to_a_generation_that_is_gone_says_so(self, path):
        (path / "current").write_text("generation-000000000000")
        with pytest.raises(MissingFileError, match=r"meta\.json is missing"):
            open_shards(path)

    def test_a_broken_store_can_be_written_again(self, path):
        for breakage in ("", "generation-000000000000"):
            (path / "current").write_text(breakage)
            write_shards(examples(5, 1), FEATURES, path)
            assert numbers(path) == list(range(1000, 1005))
            assert len(list(path.glob("generation-*"))) == 1

    def test_flipped_bytes_give_an_error_or_other_values_but_no_crash(self, path):
        shard = generation_of(path) / "shard-00000.arrow"
        whole = shard.read_bytes()
        for place in np.random.default_rng(0).integers(0, len(whole), 150).tolist():
            flip(shard, place)
            try:
                store = open_shards(path)
                store.slice(0, 5)
                list(store)
            except DatasetError:
                pass
            shard.write_bytes(whole)


def test_the_docstring_lists_every_public_name():
    assert roboreel.shards.__doc__ is not None
    documented = set(re.findall(r"`(\w+)`", roboreel.shards.__doc__))
    assert documented == set(roboreel.shards.__all__)
