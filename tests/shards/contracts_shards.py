"""What every `BatchReader`, `Origin` and `Store` promises, however its rows are kept."""

import itertools
import pickle
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from roboreel.errors import FeatureNotFoundError, RowNotFoundError
from roboreel.shards import (
    Array,
    ClassLabel,
    Image,
    Sequence,
    Store,
    VideoPath,
    open_shards,
    validate_shards,
)
from roboreel.shards.arrow import arrow_schema
from roboreel.shards.features import normalize_features as normalize

FEW = 17
TABLE = pa.table({"n": pa.array(range(FEW), pa.int64())})


class BatchReaderContract:
    """``reader`` has the rows of `TABLE`."""

    @pytest.fixture
    def reader(self, tmp_path):
        raise NotImplementedError

    def numbers(self, reader, batches):
        return [n for batch in batches for n in reader.read(batch)["n"].to_pylist()]

    def test_the_batches_hold_all_rows(self, reader):
        assert sum(reader.batch_rows) == FEW
        assert self.numbers(reader, range(len(reader.batch_rows))) == list(range(FEW))

    def test_each_batch_has_the_rows_that_were_announced(self, reader):
        for batch, rows in enumerate(reader.batch_rows):
            assert reader.read(batch).num_rows == rows

    def test_batches_may_be_read_in_any_order(self, reader):
        last = len(reader.batch_rows) - 1
        assert self.numbers(reader, [last])[-1] == FEW - 1
        assert self.numbers(reader, [0])[0] == 0

    def test_a_batch_outlives_its_reader_and_a_closed_reader_opens_again(self, reader):
        held = reader.read(0)
        reader.close()
        assert held["n"][0].as_py() == 0
        assert reader.read(0).equals(held)

    def test_prefetching_changes_nothing(self, reader):
        buffer = reader.read(0)["n"].buffers()[1]
        reader.prefetch([(buffer.address, buffer.size)])
        reader.prefetch([])
        assert self.numbers(reader, [0])[0] == 0

    def test_it_names_its_place(self, reader):
        assert str(reader)


class OriginContract:
    """``origin`` opens rows with a feature ``n`` that counts them."""

    @pytest.fixture
    def origin(self, tmp_path):
        raise NotImplementedError

    def numbers(self, origin):
        rows = origin.open()
        assert rows.num_rows == FEW
        return rows.gather(np.arange(FEW), ["n"])["n"].tolist()

    def test_the_rows_can_be_opened_again_and_again(self, origin):
        assert self.numbers(origin) == self.numbers(origin) == list(range(FEW))

    def test_nothing_is_mapped_until_it_is_read(self, origin):
        rows = origin.open()
        assert rows.num_open == 0
        assert rows.row(3)["n"] == 3

    def test_another_process_opens_the_same_rows(self, origin):
        copy = pickle.loads(pickle.dumps(origin))
        assert self.numbers(copy) == list(range(FEW))
        assert str(copy) == str(origin)


NOT_ROWS = r"Rows are (whole|a sequence of|a flat sequence of) numbers|Row .* is not a whole number"
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

    # --- the Arrow door ---

    def test_the_table_holds_the_rows_in_the_types_of_the_schema(self, store):
        table = store.table
        assert table.schema.equals(store.schema, check_metadata=True)
        table.validate(full=True)
        assert table["n"].to_pylist() == list(self.numbers)
        assert table["pose"].to_pylist() == [
            {"xyz": [n] * 3, "name": f"pose {n}"} for n in self.numbers
        ]
        assert table["maybe"].to_pylist() == [example(n)["maybe"] for n in self.numbers]
        assert table["image"].to_pylist() == [row["image"] for row in store]

    def test_batches_of_arrow_hold_every_row_once(self, store):
        batches = list(store.to_batches(features=["words", "n"]))
        assert all(batch.schema.names == ["words", "n"] for batch in batches)
        numbers = [n for batch in batches for n in batch["n"].to_pylist()]
        assert numbers == list(self.numbers)
        assert [w for batch in batches for w in batch["words"].to_pylist()] == [
            example(n)["words"] for n in self.numbers
        ]

    @pytest.mark.parametrize("rows", [[9, 2, 2, 21], [0], [], [3, 4, 5, 6], [6, 5, 4], [-1, 1]])
    def test_taken_tables_hold_the_values_of_take(self, store, rows):
        table = store.take_table(rows)
        table.validate(full=True)
        assert table.schema.equals(store.schema)
        again = Store.from_table(table)
        assert equal(again.take(range(len(rows))), store.take(rows))
        with pytest.raises(RowNotFoundError):
            store.take_table([len(store)])

    def test_a_run_of_rows_is_the_table_of_these_rows_taken_one_by_one(self, store):
        count = len(store)
        for rows in (range(count), range(3, 9), range(count - 1, count), range(5, count - 2)):
            single = [store.take_table([row, row]).slice(0, 1) for row in rows]
            for asked in (rows, slice(rows.start, rows.stop), np.array(rows)):
                table = store.take_table(asked)
                table.validate(full=True)
                assert table.schema.equals(store.schema, check_metadata=True)
                assert table.equals(pa.concat_tables(single))

    # --- views ---

    def test_a_filter_keeps_the_rows_that_it_is_true_for_on_every_path(self, store):
        view = store.filter(lambda row: bool(row["n"] % 3 == 1), features="n")
        expected = [n for n in self.numbers if n % 3 == 1]
        assert [row["n"] for row in view] == view.table["n"].to_pylist() == expected
        assert list(view.features) == list(FEATURES)
        assert [n for batch in view.iter_batches(3) for n in batch["n"]] == expected
        with pytest.raises(TypeError, match="not True or False"):
            store.filter(lambda row: row["state"])

    def test_columns_are_renamed_removed_added_and_chosen(self, store):
        view = store.rename_column("n", "number").remove_columns(["image", "mask"])
        doubled = [[2.0 * n] for n in self.numbers]
        view = view.add_column("double", doubled, ["float32"]).select([5, 1])
        wanted = [self.numbers[5], self.numbers[1]]
        assert (
            list(view.features)
            == list(view[0])
            == [
                "number" if name == "n" else name
                for name in FEATURES
                if name not in ("image", "mask")
            ]
            + ["double"]
        )
        assert view.take([0, 1])["number"].tolist() == wanted
        assert [float(row["double"][0]) for row in view] == [2.0 * n for n in wanted]
        assert view.table["double"].to_pylist() == [[2.0 * n] for n in wanted]
        assert [b["number"].to_pylist() for b in view.to_batches()] == [wanted]
        copy = pickle.loads(pickle.dumps(view))
        assert equal(copy[1], view[1])
        assert list(view.select_columns(["double", "label"])[0]) == ["double", "label"]
        for wrong in (lambda: view.take([0], features="n"), lambda: view.remove_columns("n")):
            with pytest.raises(FeatureNotFoundError, match="'n'"):
                wrong()
        with pytest.raises(ValueError, match="already a feature 'label'"):
            view.rename_column("number", "label")
        with pytest.raises(ValueError, match="already a feature 'label'"):
            view.add_column("label", [0, 1], "int64")
        with pytest.raises(ValueError, match="1 values for 2 rows"):
            view.add_column("one", [0], "int64")

    def test_a_flattened_view_is_a_store_of_its_own_that_can_be_reopened(self, store, tmp_path):
        view = store.select([7, 3, 3, 0])
        flat = view.flatten(tmp_path / "flat")
        again = open_shards(tmp_path / "flat")
        for copy in (flat, again):
            assert equal(copy.take(range(4)), view.take(range(4)))
        assert validate_shards(tmp_path / "flat", checksums=True) == []

    def test_a_mapped_store_holds_what_the_function_made_of_each_row(self, store, tmp_path):
        view = store.select([4, 2])
        features = {"n": "int64", "image": Image()}
        mapped = view.map(
            lambda row: {"n": row["n"] + 100, "image": row["image"]},
            tmp_path / "m",
            features=features,
        )
        assert [row["n"] for row in mapped] == [self.numbers[row] + 100 for row in (4, 2)]
        assert mapped[0]["image"] == view[0]["image"]

    # --- shards ---

    def test_a_shuffle_by_shards_gives_every_row_once_and_shard_after_shard(self, store):
        def order(seed):
            batches = store.iter_batches(8, shuffle="shards", seed=seed)
            return [int(n) for batch in batches for n in batch["n"]]

        assert sorted(order(1)) == sorted(self.numbers)
        assert order(1) == order(1) != order(2)
        assert order(None) != order(None)
        of_row = dict(zip(self.numbers, store._columns[0].shards().tolist(), strict=True))
        visited = [of_row[n] for n in order(3)]
        changes = sum(a != b for a, b in itertools.pairwise(visited))
        assert changes == len(set(visited)) - 1
        with pytest.raises(ValueError, match="'shards', not 'rows'"):
            store.iter_batches(shuffle="rows")

    def test_shards_can_be_shared_among_workers(self, store):
        count = max(1, store.num_shards)
        parts = [store.select_shards(range(rank, count, 2)) for rank in range(2)]
        rows = [[row["n"] for row in part] for part in parts]
        assert sorted(rows[0] + rows[1]) == sorted(self.numbers)
        with pytest.raises(ValueError, match="There is no shard 1000"):
            store.select_shards([1000])

    def test_it_says_where_its_rows_are(self, store):
        assert store.is_file_backed == (store.path is not None) == (store.num_shards > 0)
        assert store.path is None or store.path.exists()
