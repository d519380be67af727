"""Byte strings read where they lie, compared with pyarrow's own reading."""

import itertools
import os
import pickle
import threading
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    FeatureNotFoundError,
    MissingFileError,
    RowNotFoundError,
)
from roboreel.io.budget import Budget
from roboreel.io.mapped import MappedFile
from roboreel.parquet.extents.byte_column import ByteColumn
from tests.factory import SHARED

CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
COLUMN = ("image", "bytes")


def values_of(kind: str, count: int) -> list[bytes]:
    rng = np.random.default_rng(len(kind))
    if kind == "compressible":
        return [b"row %d " % row * 40 for row in range(count)]
    if kind == "incompressible":
        return [rng.bytes(3000 + row) for row in range(count)]
    if kind == "long":
        return [rng.bytes(70_000 + row) + b"ab" * 500 for row in range(count)]
    if kind == "half":  # literals and copies side by side, as in real PNG files
        return [rng.bytes(900) + b"\0" * 300 + rng.bytes(200) for _ in range(count)]
    return [b""] * count


KINDS = ["compressible", "incompressible", "long", "half", "empty"]


def write(path: Path, values: Sequence[bytes | None], **options: object) -> Path:
    inner = pa.array(values, pa.binary())
    path_array = pa.array(["x"] * len(values), pa.string())
    null = np.array([value is None and row % 2 == 0 for row, value in enumerate(values)])
    structs = pa.StructArray.from_arrays(
        [inner, path_array], ["bytes", "path"], mask=pa.array(null) if null.any() else None
    )
    number = pa.array(np.arange(len(values)))
    pq.write_table(pa.table({"number": number, "image": structs, "plain": inner}), path, **options)
    return path


def check(path: Path, column: tuple[str, ...], values: Sequence[bytes | None]) -> dict[str, int]:
    with ByteColumn(path, column, budget=Budget()) as opened:
        assert opened.num_rows == len(values)
        rows = np.random.default_rng(0).permutation(len(values))
        assert opened.read(rows) == [values[row] for row in rows]
        assert opened.read([len(values) - 1, 0, 0]) == [values[-1], values[0], values[0]]
        views = opened.view(range(1, len(values)))
        assert [None if view is None else bytes(view) for view in views] == values[1:]
        return opened.rungs()


LAYOUTS = list(itertools.product([True, False], ["1.0", "2.0"], [False, True]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("group", "page_bytes"), [(7, 100), (1000, 2**20)])
def test_every_way_to_write_is_read_as_pyarrow_reads_it(tmp_path, codec, kind, group, page_bytes):
    for number, (dictionary, version, nulls) in enumerate(LAYOUTS):
        values: list[bytes | None] = [*values_of(kind, 12)]
        if nulls:
            values[3:6] = [None] * 3
            values[10] = None
        path = write(
            tmp_path / f"{number}.parquet",
            values,
            compression=codec,
            use_dictionary=dictionary,
            data_page_version=version,
            row_group_size=group,
            data_page_size=page_bytes,
            write_batch_size=3,
            dictionary_pagesize_limit=5_000 if page_bytes == 100 else 2**20,
        )
        assert pq.read_table(path)["plain"].to_pylist() == values
        rungs = check(path, COLUMN, values)
        assert "row group" not in rungs
        assert sum(rungs.values()) == len(values)


def test_a_column_at_the_top_is_read_as_one_inside_a_struct(tmp_path):
    values: list[bytes | None] = [*values_of("half", 50), None, b""]
    path = write(tmp_path / "a.parquet", values, row_group_size=20)
    assert check(path, ("plain",), values) == check(path, COLUMN, values)


def test_a_column_that_must_not_be_null_is_read(tmp_path):
    schema = pa.schema([pa.field("plain", pa.binary(), nullable=False)])
    values = values_of("incompressible", 20)
    pq.write_table(pa.table({"plain": values}, schema=schema), tmp_path / "a.parquet")
    check(tmp_path / "a.parquet", ("plain",), values)


def test_a_dictionary_that_grew_too_big_is_followed_by_plain_pages(tmp_path):
    values = values_of("incompressible", 60) * 2
    path = write(
        tmp_path / "a.parquet", values, write_batch_size=10, dictionary_pagesize_limit=50_000
    )
    encodings = pq.read_metadata(path).row_group(0).column(1).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
    check(path, COLUMN, values)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_what_we_do_not_read_ourselves_pyarrow_reads_by_the_row_group(tmp_path, encoding):
    values: list[bytes | None] = [*values_of("half", 30), None, b""]
    options = {"image.bytes": encoding, "image.path": "PLAIN", "plain": encoding, "number": "PLAIN"}
    path = write(tmp_path / "a.parquet", values, use_dictionary=False, column_encoding=options)
    budget = Budget(2**24)
    column = ByteColumn(path, COLUMN, budget=budget)
    assert column.read(range(len(values))) == values
    assert column.rungs() == {"row group": len(values)}
    assert budget.held_by_owner()["row groups"] > 0


def test_strings_are_read_as_bytes(tmp_path):
    pq.write_table(pa.table({"text": ["a", "ü", None]}), tmp_path / "a.parquet")
    check(tmp_path / "a.parquet", ("text",), [b"a", "ü".encode(), None])


# --- rungs --------------------------------------------------------------------------------------


def rungs_of(tmp_path: Path, values: list[bytes], **options: object) -> dict[str, int]:
    path = write(tmp_path / "a.parquet", values, **options)
    return check(path, COLUMN, values)


def test_uncompressed_values_are_one_extent_each(tmp_path):
    assert rungs_of(tmp_path, values_of("half", 40), compression="none") == {"extent": 40}


def test_incompressible_values_in_snappy_are_extents_or_joined_ones(tmp_path):
    rungs = rungs_of(tmp_path, values_of("incompressible", 200))
    assert rungs.keys() == {"extent", "joined"}
    assert rungs["extent"] > rungs["joined"]


def test_a_small_snappy_page_of_compressible_values_is_unpacked_whole(tmp_path):
    assert rungs_of(tmp_path, values_of("compressible", 40)) == {"page": 40}


def test_a_large_snappy_page_of_compressible_values_is_unpacked_by_the_block(tmp_path):
    values = [b"%09d" % (row * row) * 20_000 for row in range(30)]
    budget = Budget(2**20)  # less than the page
    column = ByteColumn(write(tmp_path / "a.parquet", values), COLUMN, budget=budget)
    assert column.read([29, 3, 17]) == [values[29], values[3], values[17]]
    assert column.rungs() == {"block": 30}
    assert budget.held_by_owner().keys() == {"extents"}


@pytest.mark.parametrize("codec", ["gzip", "brotli", "lz4", "zstd"])
def test_other_compressions_unpack_a_page_and_hold_it_under_the_budget(tmp_path, codec):
    path = write(tmp_path / "a.parquet", values_of("half", 40), compression=codec)
    budget = Budget(2**20)
    column = ByteColumn(path, COLUMN, budget=budget)
    column.read([1])
    assert column.rungs() == {"page": 40}
    assert 0 < budget.held_by_owner()["pages"] <= 2**20


def test_an_index_takes_less_than_forty_bytes_a_value(tmp_path):
    path = write(tmp_path / "a.parquet", values_of("incompressible", 2000))
    budget = Budget()
    ByteColumn(path, COLUMN, budget=budget).read([0])
    assert budget.held_by_owner().keys() == {"extents"}
    assert budget.held_bytes < 40 * 2000


def test_without_any_budget_to_hold_indexes_values_still_come(tmp_path):
    values = values_of("incompressible", 40)
    budget = Budget(40 * 13)  # enough to make the index, not to keep it with its pieces
    column = ByteColumn(write(tmp_path / "a.parquet", values), COLUMN, budget=budget)
    assert column.read([5, 6]) == values[5:7]


def test_a_page_larger_than_the_budget_is_refused_with_advice(tmp_path):
    path = write(tmp_path / "a.parquet", values_of("half", 40), compression="gzip")
    with pytest.raises(DatasetError, match=r"larger memory=.*a\.parquet"):
        ByteColumn(path, COLUMN, budget=Budget(1000)).read([0])


# --- a file that is held open ----------------------------------------------------------------------


def test_many_threads_read_the_same_bytes(tmp_path):
    values = values_of("half", 300)
    path = write(tmp_path / "a.parquet", values, row_group_size=20)
    column = ByteColumn(path, COLUMN, budget=Budget(40_000))  # pages come and go
    wrong = []

    def work(seed: int) -> None:
        for row in np.random.default_rng(seed).integers(0, 300, 100).tolist():
            if seed == 0:
                column.close()
            if column.read([row]) != [values[row]]:
                wrong.append(row)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_pickle_opens_the_file_again(tmp_path):
    values = values_of("half", 30)
    column = ByteColumn(write(tmp_path / "a.parquet", values), COLUMN, budget=Budget())
    column.read([0])
    packed = pickle.dumps(column)
    assert len(packed) < 1000
    assert pickle.loads(packed).read([7]) == [values[7]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_reads_on(tmp_path):
    values = values_of("half", 30)
    column = ByteColumn(write(tmp_path / "a.parquet", values), COLUMN, budget=Budget())
    column.read([0])
    child = os.fork()
    if child == 0:
        os._exit(0 if column.read([7, 3]) == [values[7], values[3]] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert column.read([9]) == [values[9]]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="handles are counted in /proc")
def test_closing_lets_go_of_the_handle_at_once(tmp_path):
    path = write(tmp_path / "a.parquet", values_of("half", 3))

    def handles() -> int:
        return sum(link.resolve() == path for link in Path("/proc/self/fd").iterdir())

    column = ByteColumn(path, COLUMN, budget=Budget())
    column.read([0])
    assert handles() == 1
    column.close()
    assert handles() == 0
    with column:
        assert column.read([1]) == [values_of("half", 3)[1]]
    assert handles() == 0


def test_a_file_that_changed_after_closing_is_not_mistaken_for_the_old_one(tmp_path):
    path = write(tmp_path / "a.parquet", values_of("half", 3))
    column = ByteColumn(path, COLUMN, budget=Budget())
    column.close()
    write(path, values_of("half", 4))
    with pytest.raises(CorruptFileError, match="has changed"):
        column.read([0])


@pytest.mark.skipif(os.name == "nt", reason="Windows does not shorten mapped files")
def test_a_file_that_became_shorter_is_noticed(tmp_path):
    path = write(tmp_path / "a.parquet", values_of("half", 300))
    column = ByteColumn(path, COLUMN, budget=Budget())
    os.truncate(path, 100)
    with pytest.raises(CorruptFileError, match="100 now"):
        column.read([200])


def test_prefetching_changes_nothing_but_speed(tmp_path):
    values: list[bytes | None] = [*values_of("long", 10), None, b"", *values_of("half", 10)]
    path = write(tmp_path / "a.parquet", values, row_group_size=15)
    column = ByteColumn(path, COLUMN, budget=Budget())
    rows = list(range(len(values)))
    for _ in range(2):
        column._disk.waits = True
        assert column.read(rows) == values


def test_what_is_to_be_viewed_is_fetched_as_one(tmp_path, monkeypatch):
    values = values_of("long", 10)
    path = write(tmp_path / "a.parquet", values, compression="none", use_dictionary=False)
    column = ByteColumn(path, COLUMN, budget=Budget())
    fetched: list[tuple[int, int]] = []
    monkeypatch.setattr(MappedFile, "prefetch", lambda _, ranges: fetched.extend(ranges))
    for number in range(3):  # However fast the first was: a view fetches nothing of it.
        fetched.clear()
        views = column.view(range(2, 8))
        assert [bytes(view) for view in views if view is not None] == values[2:8]
        offset, length = max(fetched, key=itemgetter(1))
        found = path.read_bytes()[offset : offset + length]
        if number == 0:  # Nothing is known yet.
            assert all(value in found for value in values)
        else:
            assert found.startswith(values[2])
            assert found.endswith(values[7])


# --- what can be wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [-1, 30, 2**40])
def test_a_row_outside_the_file_is_refused(tmp_path, row):
    path = write(tmp_path / "a.parquet", values_of("half", 30))
    column = ByteColumn(path, COLUMN, budget=Budget())
    for slow in (False, True):
        column._disk.waits = slow
        with pytest.raises(RowNotFoundError, match=rf"Row {row} does not exist: there are 30 rows"):
            column.read([0, row])


def test_no_rows_are_no_values(tmp_path):
    path = write(tmp_path / "a.parquet", values_of("half", 3))
    assert ByteColumn(path, COLUMN, budget=Budget()).read(np.empty(0, np.int64)) == []
    empty = write(tmp_path / "b.parquet", [])
    assert pq.read_metadata(empty).num_row_groups == 1
    assert ByteColumn(empty, COLUMN, budget=Budget()).num_rows == 0


def test_a_missing_column_names_those_that_are_there(tmp_path):
    path = write(tmp_path / "a.parquet", values_of("half", 3))
    with pytest.raises(FeatureNotFoundError, match=r"'img' does not exist.*'image.bytes'"):
        ByteColumn(path, ("img",), budget=Budget())


def test_a_column_of_numbers_or_lists_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"number": [1], "list": [[b"a"]]}), path)
    with pytest.raises(CorruptFileError, match="INT64, not byte strings"):
        ByteColumn(path, ("number",), budget=Budget())
    with pytest.raises(CorruptFileError, match="holds lists"):
        ByteColumn(path, ("list", "list", "element"), budget=Budget())


def test_a_missing_file_and_an_empty_one_are_told_apart(tmp_path):
    with pytest.raises(MissingFileError):
        ByteColumn(tmp_path / "none.parquet", COLUMN, budget=Budget())
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(CorruptFileError, match="empty"):
        ByteColumn(tmp_path / "empty.parquet", COLUMN, budget=Budget())
    with pytest.raises(CorruptFileError):
        ByteColumn(tmp_path, COLUMN, budget=Budget())


def test_an_encrypted_file_says_so(tmp_path):
    path = write(tmp_path / "a.parquet", values_of("half", 3))
    path.write_bytes(path.read_bytes()[:-4] + b"PARE")
    with pytest.raises(CorruptFileError, match="encrypted"):
        ByteColumn(path, COLUMN, budget=Budget())


def test_a_file_cut_off_anywhere_says_so_with_its_name(tmp_path):
    path = write(tmp_path / "cut.parquet", values_of("half", 3))
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        with pytest.raises(CorruptFileError, match=r"cut\.parquet"):
            ByteColumn(path, COLUMN, budget=Budget())


@pytest.fixture(scope="module")
def specimens(tmp_path_factory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("specimens")
    values: list[bytes | None] = [*values_of("half", 9), b"", b"abc" * 100, None, b"x", None]
    specimens = []
    for codec, dictionary, version in itertools.product(CODECS, [True, False], ["1.0", "2.0"]):
        path = write(
            folder / "a.parquet",
            values,
            compression=codec,
            use_dictionary=dictionary,
            data_page_version=version,
            row_group_size=10,
            data_page_size=500,
            write_batch_size=3,
        )
        specimens.append(path.read_bytes())
    delta = {
        "image.bytes": "DELTA_BYTE_ARRAY",
        "image.path": "PLAIN",
        "plain": "PLAIN",
        "number": "PLAIN",
    }
    path = write(folder / "a.parquet", values, use_dictionary=False, column_encoding=delta)
    return [*specimens, path.read_bytes()]


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    number=st.integers(0, 24),
    in_footer=st.booleans(),
    edits=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_corrupt_bytes_give_bytes_or_a_clear_error(specimens, tmp_path, number, in_footer, edits):
    data = bytearray(specimens[number])
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    start, stop = (footer, len(data)) if in_footer else (4, footer)
    for place, byte in edits:
        data[start + int(place * (stop - start))] = byte
    path = tmp_path / "a.parquet"
    path.unlink(missing_ok=True)  # some file systems wait for the disk when a file is overwritten
    path.write_bytes(data)
    try:
        with ByteColumn(path, COLUMN, budget=Budget(2**24)) as column:
            values = column.read(range(min(column.num_rows, 100)))
    except DatasetError as error:
        values = []
        message = str(error)
    else:
        message = "a.parquet"
    assert "a.parquet" in message
    assert all(value is None or isinstance(value, bytes) for value in values)


# --- files of others --------------------------------------------------------------------------------


def test_images_that_datasets_embeds_are_one_extent_each(tmp_path):
    datasets = pytest.importorskip("datasets")
    pictures = values_of("incompressible", 40)
    features = datasets.Features({"image": datasets.Image(decode=False)})
    rows = [{"image": {"bytes": picture, "path": None}} for picture in pictures]
    table = datasets.Dataset.from_list(rows, features=features)
    table.to_parquet(tmp_path / "a.parquet")
    rungs = check(tmp_path / "a.parquet", COLUMN, pictures)
    assert rungs == {"extent": 40}


def test_images_that_lerobot_recorded_are_read_as_pyarrow_reads_them():
    path = SHARED / "lerobot_v30_image/data/chunk-000/file-000.parquet"
    if not path.exists():
        pytest.skip("the shared datasets are not there")
    name = "observation.images.front"
    values = pq.read_table(path, columns=[name])[name].combine_chunks().field("bytes").to_pylist()
    rungs = check(path, (name, "bytes"), values)
    assert rungs.keys() <= {"extent", "joined", "block", "page"}
