"""The store's contract: the same for shards on disk, tables in memory and selections."""

import multiprocessing
import pickle
import threading
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
    FeatureNotFoundError,
    MissingFileError,
    RowNotFoundError,
)
from roboreel.shards.features import (
    Array,
    ClassLabel,
    Image,
    Sequence,
    VideoPath,
    arrow_schema,
)
from roboreel.shards.features import normalize_features as normalize
from roboreel.shards.store import Store, open_shards
from roboreel.shards.write import write_shards

NOT_ROWS = r"Rows are (whole|a sequence of|a flat sequence of) numbers"
FEATURES = {
    "image": Image(),
    "label": ClassLabel(["cat", "dog"]),
    "depth": Array((2, 3, 1), "uint16"),
    "mask": Array((3, 3), "bool"),
    "state": Sequence("float32", 4),
    "clip": VideoPath(),
    "n": "int64",
    "flag": "bool",
    "maybe": "int32",
    "path": ["float32"],
    "words": ["string"],
    "pose": {"xyz": Array((3,), "float64"), "name": "string"},
}
ROWS = 57


def example(n: int) -> dict[str, Any]:
    return {
        "image": np.full((4, 5, 3), n, np.uint8),
        "label": ("cat", "dog")[n % 2],
        "depth": np.full((2, 3, 1), n, np.uint16),
        "mask": np.arange(9).reshape(3, 3) % (n + 1) == 0,
        "state": np.arange(4) + n,
        "clip": f"clip-{n}.mp4",
        "n": n,
        "flag": n % 3 == 0,
        "maybe": None if n % 5 == 0 else n,
        "path": np.arange(n % 4) + n,
        "words": [f"wört{n}"] * (n % 3),
        "pose": {"xyz": np.full(3, n), "name": f"pose {n}"},
    }


def equal(left: Any, right: Any) -> bool:
    """Compare values of any kind, with their types."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return isinstance(right, list) and all(map(equal, left, right)) and len(left) == len(right)
    if isinstance(left, (np.ndarray, np.generic)):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return type(left) is type(right) and left == right


def write(path: Path, shard_size: str = "9KB") -> Path:
    examples = map(example, range(ROWS))
    write_shards(examples, FEATURES, path, shard_size=shard_size, batch_size=5)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("shards") / "store")


class StoreContract:
    """``store`` holds the examples ``numbers``, in that order."""

    numbers: tuple[int, ...]

    @pytest.fixture
    def store(self):
        raise NotImplementedError

    def test_every_row_is_the_example_that_was_written(self, store):
        assert len(store) == len(self.numbers)
        for row, n in enumerate(self.numbers):
            found, given_ = store[row], example(n)
            assert found["n"] == n
            assert found["label"] == n % 2
            assert found["clip"] == given_["clip"]
            assert found["flag"] == given_["flag"]
            assert found["maybe"] == given_["maybe"]
            assert found["words"] == given_["words"]
            assert found["pose"]["name"] == given_["pose"]["name"]
            for name in ("depth", "mask", "state", "path"):
                assert np.array_equal(found[name], given_[name])
                assert found[name].shape == np.shape(given_[name])

    def test_types_are_those_declared(self, store):
        row = store[1]
        assert isinstance(row["image"], bytes)
        assert row["depth"].dtype == np.uint16
        assert row["mask"].dtype == bool
        assert row["state"].dtype == np.float32
        assert row["path"].dtype == np.float32
        assert isinstance(row["n"], np.int64)
        assert row["pose"]["xyz"].dtype == np.float64

    def test_iteration_gives_the_rows_of_the_view(self, store):
        assert [row["n"] for row in store] == list(self.numbers)

    def test_negative_rows_count_from_the_end(self, store):
        assert store[-1]["n"] == self.numbers[-1]
        assert store.take([-1, 0])["n"].tolist() == [self.numbers[-1], self.numbers[0]]

    @pytest.mark.parametrize("rows", [[9, 2, 2, 21], [0], [], [3, 4, 5, 6], [6, 5, 4], [20, 1]])
    def test_take_gives_the_columns_of_single_rows(self, store, rows):
        batch = store.take(rows)
        assert list(batch) == list(FEATURES)
        self.check_columns(batch, [store[row] for row in rows])

    def test_slices_across_shards_give_the_columns_of_single_rows(self, store):
        for start in range(0, len(store), 7):
            for count in (0, 1, 6, len(store) - start):
                if start + count <= len(store):
                    rows = [store[row] for row in range(start, start + count)]
                    self.check_columns(store.slice(start, count), rows)

    def check_columns(self, batch: Any, rows: list[Any]) -> None:
        for name in ("n", "label", "depth", "mask", "state", "flag"):
            assert isinstance(batch[name], np.ndarray)
            assert len(batch[name]) == len(rows)
            assert equal(list(batch[name]), [row[name] for row in rows])
        for name in ("image", "clip", "path", "words"):
            assert equal(batch[name], [row[name] for row in rows])
        assert equal(list(batch["pose"]["xyz"]), [row["pose"]["xyz"] for row in rows])
        assert batch["pose"]["name"] == [row["pose"]["name"] for row in rows]
        assert equal(list(batch["maybe"]), [row["maybe"] for row in rows])

    def test_a_column_with_a_null_is_a_list_and_without_one_an_array(self, store):
        nulls = [row for row, n in enumerate(self.numbers) if n % 5 == 0][:2]
        others = [row for row, n in enumerate(self.numbers) if n % 5][:2]
        assert store.take(nulls)["maybe"] == [None, None]
        assert store.take(others)["maybe"].dtype == np.int32

    def test_some_features_can_be_taken_alone(self, store):
        assert list(store.take([1, 0], features=["n", "state"])) == ["n", "state"]
        assert list(store.slice(0, 2, features=["n"])) == ["n"]
        assert list(store.take([0], features="n")) == ["n"]
        batches = store.iter_batches(8, features=iter(["n"]))
        assert all(list(batch) == ["n"] for batch in batches)
        with pytest.raises(FeatureNotFoundError, match="There is no feature 'x'"):
            store.take([0], features=["x"])

    def test_rows_that_do_not_exist_are_refused(self, store):
        for row in (len(store), -len(store) - 1):
            with pytest.raises(RowNotFoundError, match="does not exist"):
                store[row]
            with pytest.raises(RowNotFoundError, match="does not exist"):
                store.take([0, row])
        with pytest.raises(RowNotFoundError, match="do not all exist"):
            store.slice(len(store) - 1, 2)

    def test_the_error_names_the_row_as_it_was_asked_for(self, store):
        count = len(store)
        for row in (count, -count - 1, -3001, 2**40):
            there = rf"Row {row} does not exist: there are {count} rows, 0 to {count - 1}, in "
            for read in (
                store.__getitem__,
                lambda row: store[[0, row]],
                lambda row: store.take([row]),
            ):
                with pytest.raises(RowNotFoundError, match=there):
                    read(row)
        with pytest.raises(RowNotFoundError, match="does not exist"):
            store[np.array([2**64 - 1], np.uint64)]

    @pytest.mark.parametrize(
        "key",
        [slice(2, 5), slice(-3, None), slice(None, None, 4), slice(9, 2, -2), slice(5, 2),
         slice(20, 10**9), slice(3, 4), range(4, 1, -1), (5, 2), [6, -1, 6], [], np.array([3, 1]),
         np.array([4], np.uint8)],
        ids=repr,
    )  # fmt: skip
    def test_a_slice_or_a_list_of_rows_gives_columns(self, store, key):
        rows = range(len(store))[key] if isinstance(key, slice) else list(key)
        self.check_columns(store[key], [store[int(row)] for row in rows])

    @pytest.mark.parametrize(
        "number", [np.int64(3), np.uint8(3), np.array(3)], ids=["int64", "uint8", "array"]
    )
    def test_any_whole_number_gives_a_row(self, store, number):
        assert store[number]["n"] == self.numbers[3]

    def test_what_is_no_whole_number_is_refused(self, store):
        mask = np.ones(len(store), bool)
        wrong = [
            1.0,
            np.float32(1),
            True,
            np.True_,
            "n",
            None,
            [0.5],
            [True, False],
            mask,
            [[0], [1]],
            ["n"],
        ]
        for rows in wrong:
            with pytest.raises(TypeError, match=NOT_ROWS):
                store[rows]
        for rows in (3, [0.5], mask, [[0], [1]]):
            for read in (store.take, store.select):
                with pytest.raises(TypeError, match=NOT_ROWS):
                    read(rows)

    def test_a_view_keeps_its_rows_when_the_array_they_came_from_changes(self, store):
        rows = np.array([2, 0])
        view = store.select(rows)
        rows[:] = 1
        assert rows.flags.writeable
        assert [view[place]["n"] for place in (0, 1)] == [store[row]["n"] for row in (2, 0)]

    def test_batches_give_every_row_once(self, store):
        batches = list(store.iter_batches(8))
        assert [len(batch["n"]) for batch in batches[:-1]] == [8] * (len(batches) - 1)
        assert np.concatenate([batch["n"] for batch in batches]).tolist() == list(self.numbers)

    def test_a_short_last_batch_can_be_dropped(self, store):
        count = sum(len(batch["n"]) for batch in store.iter_batches(8, drop_last=True))
        assert count == len(self.numbers) // 8 * 8

    def test_shuffled_batches_give_every_row_once_in_another_order(self, store):
        shuffled = self.order(store)
        assert shuffled != list(self.numbers)
        assert sorted(shuffled) == sorted(self.numbers)

    def test_shuffling_without_a_seed_differs_and_with_one_repeats(self, store):
        assert self.order(store) != self.order(store)
        assert self.order(store, 7) == self.order(store, 7) != self.order(store, 8)

    def order(self, store: Store, seed: int | None = None) -> list[int]:
        batches = store.iter_batches(8, shuffle=True, seed=seed)
        return [int(n) for batch in batches for n in batch["n"]]

    def test_a_selection_holds_its_rows_on_every_path(self, store):
        rows = [11, 3, 3, -1, 8]
        numbers = [self.numbers[row] for row in rows]
        view = store.select(rows)
        assert len(view) == 5
        assert [row["n"] for row in view] == numbers
        assert view.slice(0, 5)["n"].tolist() == numbers
        assert view.take(range(5))["n"].tolist() == numbers
        assert [n for batch in view.iter_batches(2) for n in batch["n"]] == numbers
        assert sorted(self.order(view)) == sorted(numbers)
        assert [row["n"] for row in pickle.loads(pickle.dumps(view))] == numbers
        assert view.select([1, 0]).take([0, 1])["n"].tolist() == [numbers[1], numbers[0]]
        with pytest.raises(RowNotFoundError):
            view[5]

    def test_a_split_shares_no_row_and_loses_none(self, store):
        train, test = store.split(test=0.25, seed=3)
        train_rows, test_rows = [row["n"] for row in train], [row["n"] for row in test]
        assert len(test_rows) == round(0.25 * len(self.numbers))
        assert not set(train_rows) & set(test_rows)
        assert sorted(train_rows + test_rows) == sorted(self.numbers)
        again = [row["n"] for row in store.split(test=0.25, seed=3)[1]]
        other = [row["n"] for row in store.split(test=0.25, seed=4)[1]]
        assert again == test_rows != other

    def test_decoded_gives_pixels_and_leaves_the_rest(self, store):
        decoded = store.decoded()
        assert equal(decoded[2]["image"], example(self.numbers[2])["image"])
        assert decoded[2]["clip"] == store[2]["clip"]
        images = decoded.take([4, 1])["image"]
        assert [int(image[0, 0, 0]) for image in images] == [self.numbers[4], self.numbers[1]]
        assert equal(decoded.select([3])[0]["image"], decoded[3]["image"])
        assert isinstance(pickle.loads(pickle.dumps(decoded))[0]["image"], np.ndarray)
        assert isinstance(store[2]["image"], bytes)

    def test_what_comes_back_is_the_callers_own(self, store):
        store[1]["depth"][:] = 999
        store.slice(0, 4)["state"][:] = -1
        store.take([1])["pose"]["xyz"][:] = -1
        assert store[1]["depth"].max() == self.numbers[1]
        assert store[1]["state"][0] == self.numbers[1]
        assert store[1]["pose"]["xyz"][0] == self.numbers[1]

    def test_a_pickle_holds_the_same_rows(self, store):
        assert equal(pickle.loads(pickle.dumps(store))[3], store[3])

    def test_the_schema_has_large_types(self, store):
        assert store.schema.equals(arrow_schema(normalize(FEATURES)))
        assert store.schema.field("image").type == pa.large_binary()
        assert list(store.features) == list(FEATURES)

    def test_threads_read_the_right_rows(self, store):
        wrong: list[int] = []

        def read(seed):
            rows = np.random.default_rng(seed).integers(0, len(store), 300).tolist()
            wrong.extend(row for row in rows if store[row]["n"] != self.numbers[row])

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


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
    table = store._table
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
    assert store._table._open == {0, 2}


def test_rows_are_the_same_when_reads_are_prefetched(folder):
    store = open_shards(folder, max_open=2)
    for row in (3, 50, 3, 20):
        store._table._disk.waits = True
        assert store[row]["n"] == row
        store._table._disk.waits = True
        assert store.take([row, 0, 41])["n"].tolist() == [row, 0, 41]
        store._table._disk.waits = True
        assert store.slice(row, 7)["clip"] == [f"clip-{row + n}.mp4" for n in range(7)]


def test_a_slice_across_shards_touches_no_other_shard(tmp_path):
    store = open_shards(write(tmp_path / "store", shard_size="4KB"))
    store.slice(8, 4)
    assert store._table._open == {1, 2}


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
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(MissingFileError, match="There are no shards"):
            open_shards(path)


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
