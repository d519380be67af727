"""The store's contract: the same for shards on disk, tables in memory and selections."""

import json
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import (
    CorruptFileError,
    MissingFileError,
)
from roboreel.shards.features import Image, Sequence
from roboreel.shards.opening import open_shards
from roboreel.shards.store import Store
from roboreel.shards.write import write_shards
from tests.shards.contracts_shards import FEATURES, ROWS, StoreContract, example


def write(path: Path, shard_size: str = "9KB") -> Path:
    examples = map(example, range(ROWS))
    write_shards(examples, FEATURES, path, shard_size=shard_size, batch_size=5)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("shards") / "store")


@pytest.fixture(scope="module")
def mapped(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("mapped") / "store"
    open_shards(folder).map(dict, path, shard_size="9KB", batch_size=5)
    return path


@pytest.fixture(scope="module")
def flattened(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("flat") / "store"
    view = open_shards(folder).select(range(40, 9, -1))
    view.flatten(path, shard_size="9KB", batch_size=7)
    return path


@pytest.fixture(scope="module")
def foreign(folder, tmp_path_factory):
    return write_stable_cache(read_table(folder), tmp_path_factory.mktemp("foreign"))


class TestShardsOnDisk(StoreContract):
    numbers = tuple(range(ROWS))

    @pytest.fixture
    def store(self, folder):
        return open_shards(folder)


class TestFewShardsOpenAtOnce(StoreContract):
    numbers = tuple(range(ROWS))

    @pytest.fixture
    def store(self, folder):
        return open_shards(folder, max_open=1)


class TestTableInMemory(StoreContract):
    numbers = tuple(range(ROWS))

    @pytest.fixture
    def store(self, folder):
        return Store.from_table(read_table(folder))


class TestSlicedTableWithSmallOffsets(StoreContract):
    """Chunks that begin inside their buffers, and the 32-bit types that other tools write."""

    numbers = tuple(range(4, 51))

    @pytest.fixture
    def store(self, folder):
        table = read_table(folder)
        table = table.cast(pa.schema([small_type(field) for field in table.schema])).slice(4, 47)
        return Store.from_table(table, FEATURES)


class TestForeignStreams(StoreContract):
    """A folder of IPC streams, as `datasets` leaves them."""

    numbers = tuple(range(ROWS))

    @pytest.fixture
    def store(self, folder, tmp_path):
        table = read_table(folder)
        for part, start in enumerate(range(0, ROWS, 20)):
            path = str(tmp_path / f"part-{part}.arrow")
            with pa.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table.slice(start, 20), max_chunksize=6)
        return open_shards(tmp_path)


class TestSelection(StoreContract):
    numbers = (40, 3, 5, 56, 0, 1, 2, 4, 10, 9, 8, 7, 33, 34, 35, 36, 20, 11, 22, 44, 55, 50, 51)

    @pytest.fixture
    def store(self, folder):
        return open_shards(folder).select(self.numbers)


class TestView(StoreContract):
    """Rows, renamed columns and an added one, over two tables."""

    numbers = tuple(range(50, 5, -1))

    @pytest.fixture
    def store(self, folder):
        store = open_shards(folder).select(self.numbers).rename_column("n", "old")
        view = store.add_column("n", iter(self.numbers), "int64").remove_columns("old")
        return view.select_columns(list(FEATURES))


class TestMappedStore(StoreContract):
    numbers = tuple(range(ROWS))

    @pytest.fixture
    def store(self, mapped):
        return open_shards(mapped)


class TestFlattenedStore(StoreContract):
    numbers = tuple(range(40, 9, -1))

    @pytest.fixture
    def store(self, flattened):
        return open_shards(flattened)


class TestForeignFolder(StoreContract):
    """A cache of stable-datasets: its own metadata, small offsets, arrays as bytes."""

    numbers = tuple(range(ROWS))

    @pytest.fixture
    def store(self, foreign):
        return open_shards(foreign, features=FEATURES)


def write_stable_cache(table: pa.Table, path: Path) -> Path:
    """Write a table as stable-datasets does; the names of its files do not tell their order."""
    table = table.cast(pa.schema([small_type(field) for field in table.schema]))
    depth = pa.array([np.asarray(row, np.uint16).tobytes() for row in table["depth"].to_pylist()])
    table = table.set_column(table.schema.names.index("depth"), "depth", depth)
    names, counts = ["shard-b.arrow", "shard-a.arrow"], [30, table.num_rows - 30]
    for name, start, count in zip(names, (0, 30), counts, strict=True):
        with pa.ipc.new_file(str(path / name), table.schema) as writer:
            writer.write_table(table.slice(start, count), max_chunksize=8)
    meta = {
        "cache_format_version": 1,
        "schema_fingerprint": "0" * 16,
        "num_rows": table.num_rows,
        "num_shards": 2,
        "shard_row_counts": counts,
        "shard_filenames": names,
        "shard_size_target_bytes": None,
    }
    (path / "_metadata.json").write_text(json.dumps(meta))
    (path / "shard-c.arrow").write_bytes(b"a leftover")
    return path


def read_table(path: Path) -> pa.Table:
    generation = path / (path / "current").read_text().strip()
    tables = [pa.ipc.open_file(shard).read_all() for shard in sorted(generation.glob("*.arrow"))]
    return pa.concat_tables(tables)


def small_type(field: pa.Field) -> pa.Field:
    def small(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_large_binary(kind):
            return pa.binary()
        if pa.types.is_large_string(kind):
            return pa.string()
        if pa.types.is_large_list(kind):
            return pa.list_(small(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([(inner.name, small(inner.type)) for inner in kind])
        return kind

    return pa.field(field.name, small(field.type))


def test_a_flattened_table_opens_although_its_schema_describes_the_old_one(folder, tmp_path):
    table = read_table(folder).flatten()
    with pa.ipc.new_file(str(tmp_path / "flat.arrow"), table.schema) as writer:
        writer.write_table(table)
    store = open_shards(tmp_path)
    assert store[3]["pose.name"] == "pose 3"
    assert store[3]["depth"].shape == (2, 3, 1)


def test_dictionary_columns_read_as_their_values():
    words = pa.array(["a", "b", None, "a"]).dictionary_encode()
    numbers = pa.array([1.5, 2.5, 2.5, 1.5]).dictionary_encode()
    store = Store.from_table(pa.table({"word": words, "number": numbers}))
    assert [row["word"] for row in store] == ["a", "b", None, "a"]
    assert store.take([3, 1])["number"].tolist() == [1.5, 2.5]
    assert store.take([3, 1])["word"] == ["a", "b"]


def test_null_structs_and_null_lists_are_none(tmp_path):
    features = {"pose": {"x": "float32"}, "images": [Image()], "state": Sequence("float32", 2)}
    examples: list[dict[str, Any]] = [
        {"pose": {"x": 1}, "images": [b"a", None], "state": [1, 2]},
        {"pose": None, "images": None, "state": None},
    ]
    write_shards(examples, features, tmp_path / "s")
    store = open_shards(tmp_path / "s")
    assert store[1] == {"pose": None, "images": None, "state": None}
    assert store.take([0])["pose"]["x"].tolist() == [1.0]
    assert store.take([1, 0])["pose"] == [None, {"x": 1.0}]
    assert store.take([1, 0])["images"] == [None, [b"a", None]]
    assert store.take([1, 0])["state"][0] is None


def test_an_image_that_cannot_be_decoded_is_named(tmp_path):
    write_shards([{"x": None}, {"x": b"no picture"}], {"x": Image()}, tmp_path / "s")
    store = open_shards(tmp_path / "s").decoded()
    assert store[0]["x"] is None
    with pytest.raises(CorruptFileError, match="Cannot decode the image in 'x' of row 1: "):
        store[1]
    with pytest.raises(CorruptFileError, match="Cannot decode the image in value 0 of 'x': "):
        store.take([1, 0])


def test_a_pickled_store_is_small_and_holds_no_data(folder):
    assert len(pickle.dumps(open_shards(folder))) < 1000


def test_shards_are_mapped_on_first_use_and_only_so_many(folder):
    store = open_shards(folder, max_open=2)
    table = store._columns[0].table
    assert table.num_open == 0
    store[0]
    assert table.num_open == 1
    list(store)
    store.take(range(ROWS))
    assert table.num_open == 2
    store.close()
    assert table.num_open == 0
    assert store[9]["n"] == 9


def test_the_shard_used_longest_ago_is_let_go_of(tmp_path):
    store = open_shards(write(tmp_path / "store", shard_size="4KB"), max_open=2)
    for row in (0, 5, 1, 10):  # five rows to a shard: 0, 1, 0, 2
        store[row]
    assert store._columns[0].table._open == {0, 2}


def test_rows_are_the_same_when_reads_are_prefetched(folder):
    store = open_shards(folder, max_open=2)
    for row in (3, 50, 3, 20):
        store._columns[0].table._disk.waits = True
        assert store[row]["n"] == row
        store._columns[0].table._disk.waits = True
        assert store.take([row, 0, 41])["n"].tolist() == [row, 0, 41]
        store._columns[0].table._disk.waits = True
        assert store.slice(row, 7)["clip"] == [f"clip-{row + n}.mp4" for n in range(7)]


def test_a_slice_across_shards_touches_no_other_shard(tmp_path):
    store = open_shards(write(tmp_path / "store", shard_size="4KB"))
    store.slice(8, 4)
    assert store._columns[0].table._open == {1, 2}


def test_an_empty_store_has_columns_of_length_zero(tmp_path):
    manifest = write_shards(iter(()), FEATURES, tmp_path / "s")
    store = open_shards(tmp_path / "s")
    assert manifest.shards == ()
    assert len(store) == 0
    assert list(store) == list(store.iter_batches()) == []
    assert store.take([])["depth"].shape == (0, 2, 3, 1)
    assert store.slice(0, 0)["image"] == []
    assert store.schema.field("image").type == pa.large_binary()


def test_a_folder_without_shards_says_so(tmp_path):
    with pytest.raises(MissingFileError, match="There are no shards"):
        open_shards(tmp_path)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_another_process_reads_the_same_rows(folder, method):
    store = open_shards(folder).select(range(50, 0, -1))
    store[0]
    # Not multiprocessing.Pool, which waits for ever when its children cannot start.
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(_numbers_of, store).result() == list(range(50, 0, -1))


def _numbers_of(store):
    return [int(row["n"]) for row in store]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12).flatmap(
        lambda lengths: st.tuples(
            st.just(lengths), st.lists(st.integers(0, sum(lengths) - 1), max_size=30)
        )
    )
)
def test_take_finds_every_row_however_the_batches_lie(lengths_and_rows):
    lengths, rows = lengths_and_rows
    numbers = np.arange(sum(lengths))
    batches = [
        pa.record_batch({"n": part, "text": pa.array(map(str, part))})
        for part in np.split(numbers, np.cumsum(lengths)[:-1])
    ]
    store = Store.from_table(pa.Table.from_batches(batches))
    batch = store.take(rows)
    assert batch["n"].tolist() == rows
    assert batch["text"] == [str(row) for row in rows]
    assert [store[row]["n"] for row in rows] == rows


@pytest.mark.slow
def test_a_binary_column_past_2_gib_is_taken_from_correctly(tmp_path):
    blob = np.random.default_rng(0).bytes(1 << 20)
    chunk = pa.array([bytes([n % 256]) + blob for n in range(1100)], pa.binary())
    struct = pa.StructArray.from_arrays([chunk], ["bytes"])
    with pa.ipc.new_file(
        str(tmp_path / "old.arrow"), pa.schema([("image", pa.binary())])
    ) as writer:
        for _ in range(2):
            writer.write_batch(pa.record_batch({"image": chunk}))
    assert (tmp_path / "old.arrow").stat().st_size > 2**31
    on_disk = open_shards(tmp_path)
    nested = Store.from_table(pa.table({"image": pa.chunked_array([struct, struct])}))
    rows = [2199, 3, 1100, 1500, 2199]
    expected = [bytes([row % 1100 % 256]) + blob for row in rows]
    assert on_disk.take(rows)["image"] == expected
    assert nested.take(rows)["image"]["bytes"] == expected
    assert on_disk[2199]["image"] == nested[2199]["image"]["bytes"] == expected[0]
    assert on_disk.slice(1099, 2)["image"][1] == expected[2]
    assert on_disk.schema.field("image").type == pa.large_binary()
    assert nested.schema.field("image").type[0].type == pa.large_binary()
