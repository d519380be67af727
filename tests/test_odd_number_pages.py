"""Numbers beyond the budget in files that are odd, replaced or hostile: never another value."""

import os
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roboreel.errors import CorruptFileError
from roboreel.frames import page_numbers, page_table
from roboreel.frames.columns import Columns
from roboreel.schema import Feature
from roboreel.spans.mapped import MappedFile
from roboreel.storage.extents.chunks import spelled_path
from roboreel.storage.extents.cursor import words_of
from roboreel.storage.extents.side_by_side import ChunkSpans
from roboreel.storage.small_groups import number_rows
from roboreel.storage.small_groups.blocks import Blocks
from roboreel.storage.small_groups.number_pages import UNFAMILIAR, Form, describe_numbers
from roboreel.storage.small_groups.number_rows import decode_rows, find_values
from roboreel.storage.small_groups.pages import read_single_pages
from roboreel.storage.small_groups.runs import decode_runs
from roboreel.varint import encode_varint
from tests.bombs import rows_per_page
from tests.factory import write_dataset
from tests.test_page_numbers import columns_of, rewrite

FLOATS = Form(np.dtype("<f4"), 1, 0, 0, 0)


def places(*numbers):
    return np.array(numbers, np.int64)


def only_file(root):
    (path,) = (root / "data").rglob("*.parquet")
    return path


def test_values_without_a_number_are_left_to_pyarrow(tmp_path):
    write_dataset(tmp_path, [20], episodes_per_file=1)
    path = only_file(tmp_path)
    empty = pa.array([[]] * 20, pa.list_(pa.float32()))
    pq.write_table(pq.read_table(path).append_column("none", empty), path)
    found = describe_numbers(MappedFile(path), "none", Feature("float32", (0,)), places(20))
    assert found is None


def test_many_values_of_few_bytes_are_decoded_some_at_a_time(tmp_path):
    features = {"action": Feature("float32", (32,))}
    write_dataset(tmp_path, [1000], episodes_per_file=1, features=features)
    path = only_file(tmp_path)
    table = pq.read_table(path)
    same = pa.FixedSizeListArray.from_arrays(np.full(32_000, 7, np.float32), 32)
    at = table.schema.get_field_index("action")
    pq.write_table(table.set_column(at, "action", same), path, row_group_size=500)
    columns = columns_of(tmp_path, 600)
    rows = np.tile(np.arange(1000), 20)
    columns.gather("action", rows[:10])
    tracemalloc.start()
    values = columns.gather("action", rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (values == 7).all()
    assert peak < 5 * values.nbytes  # It was 16 times as much.


@pytest.mark.parametrize("statistics", [True, False])
def test_a_chunk_that_says_it_is_longer_does_not_shift_values(statistics, tmp_path):
    write_dataset(tmp_path, [100], episodes_per_file=1)
    path = only_file(tmp_path)
    table = pq.read_table(path)
    number = table.schema.get_field_index("mode")
    table = table.cast(table.schema.set(number, pa.field("mode", pa.int64(), nullable=False)))
    options = {"compression": "NONE", "use_dictionary": False, "write_statistics": statistics}
    pq.write_table(table, path, **options)
    described = pq.read_metadata(path).row_group(0)
    chunks = [described.column(k) for k in range(described.num_columns)]
    size = next(c.total_compressed_size for c in chunks if c.path_in_schema == "mode")
    content = bytearray(path.read_bytes())
    old, new = (b"\x16" + encode_varint(2 * value) for value in (size, size + 8))
    at = content.index(old, content.rindex(spelled_path(["mode"])))
    at = content.index(old, at + 1)  # The size before it is that of the unpacked bytes.
    content[at : at + len(old)] = new
    path.write_bytes(content)
    expected = columns_of(tmp_path, 2**29).gather("mode", np.arange(100))
    assert np.array_equal(columns_of(tmp_path, 600).gather("mode", np.arange(100)), expected)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("dictionary", [True, False])
def test_headers_with_and_without_statistics_are_accounted_for(statistics, dictionary, tmp_path):
    path = tmp_path / "file.parquet"
    table = pa.table({"x": pa.array(np.arange(90), pa.int64())})
    options = {"compression": "NONE", "use_dictionary": dictionary}
    pq.write_table(table, path, row_group_size=30, write_statistics=statistics, **options)
    found = describe_numbers(MappedFile(path), "x", Feature("int64", (1,)), places(30, 30, 30))
    assert found is not None
    assert (found.pages["values_at"] != UNFAMILIAR).all()


def test_a_file_that_was_replaced_is_noticed_where_pyarrow_reads_it(tmp_path):
    write_dataset(tmp_path, [40] * 4, episodes_per_file=2)
    rewrite(tmp_path, 10)
    first = min((tmp_path / "data").rglob("*.parquet"))
    columns = columns_of(tmp_path, 600)
    columns.gather("next.done", np.arange(10))
    turned = pq.read_table(first).take(pa.array(np.arange(80)[::-1]))
    pq.write_table(turned, tmp_path / "new", row_group_size=10)
    (tmp_path / "new").replace(first)
    columns.gather("next.done", np.arange(80, 90))  # Of another file: the first one is closed.
    for name in ("next.done", "action"):
        with pytest.raises(CorruptFileError, match="Open the dataset again"):
            columns.gather(name, np.arange(10, 20))


def test_a_file_that_was_cut_off_is_noticed_by_a_feature_that_comes_later(tmp_path):
    write_dataset(tmp_path, [40] * 4, episodes_per_file=4)
    rewrite(tmp_path, 40)
    columns = columns_of(tmp_path, 600)
    columns.gather("action", np.arange(10))
    os.truncate(only_file(tmp_path), 0)
    with pytest.raises(CorruptFileError, match="Open the dataset again"):
        columns.gather("observation.state", np.arange(10))


def test_an_interrupt_while_a_file_is_described_does_not_shift_the_next_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(Columns, "_fits", lambda *_: False)
    write_dataset(tmp_path, [40] * 3, episodes_per_file=1)
    columns = columns_of(tmp_path, 10**6)
    columns.gather("action", np.arange(10))

    class Interrupted:
        def __getattr__(self, name):
            return getattr(np, name)

        def cumsum(self, *_):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(page_table, "np", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            columns.gather("action", np.arange(40, 50))
    expected = columns_of(tmp_path, 2**29).gather("action", np.arange(80, 90))
    assert np.array_equal(columns.gather("action", np.arange(80, 90)), expected)


def test_a_page_of_very_many_runs_is_left_to_others():
    count = 100_000
    data = np.frombuffer(b"\x02\x01\x02\x00" * (count // 2) + bytes(8), np.uint8)
    tracemalloc.start()
    try:
        span = (places(count - 1), places(count))
        _, sound = decode_runs(words_of(data), places(0), places(2 * count), places(1), span)
        assert not sound.any()
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_scattered_rows_do_not_take_much_memory_to_jump():
    data = np.frombuffer((b"\x7f" + bytes(63)) * 300 + bytes(8), np.uint8)
    wanted = np.full(100_000, 500 * 250)
    tracemalloc.start()
    try:
        at, stop, width = 0 * wanted, 0 * wanted + 300 * 64, 0 * wanted + 1
        _, sound = decode_runs(words_of(data), at, stop, width, (wanted, wanted + 1))
        assert sound.all()
        assert tracemalloc.get_traced_memory()[1] < 60 * 2**20
    finally:
        tracemalloc.stop()


def test_many_values_in_few_bytes_are_left_to_pyarrow(tmp_path, monkeypatch):
    write_dataset(tmp_path, [100_000], episodes_per_file=1)
    table = pq.read_table(only_file(tmp_path))
    place = table.schema.get_field_index("mode")
    table = table.set_column(place, "mode", pa.array(np.full(len(table), 3), pa.int64()))
    pq.write_table(table, only_file(tmp_path), **rows_per_page(200_000))
    monkeypatch.setattr(page_numbers, "unpack_each", lambda *_: pytest.fail("decoded here"))
    columns = columns_of(tmp_path, 10**6)
    assert (columns.gather("mode", places(0, 50_000, 99_999)) == 3).all()


def test_long_levels_are_not_kept():
    nullable = Form(np.dtype("<f4"), 1, 0, 1, 0)
    before = number_rows._are_all_there.cache_info().currsize
    for number in range(20):
        levels = encode_varint(20) + b"\x01" + number.to_bytes(4, "little") + bytes(10_000)
        page = len(levels).to_bytes(4, "little") + levels
        assert find_values(page, nullable, 10) == len(page)
    assert number_rows._are_all_there.cache_info().currsize == before


def test_an_empty_page_of_positions_has_no_values():
    stale = Blocks(np.zeros(32, np.uint8), places(8), places(8))
    dictionary = Blocks(stale.data, places(0), places(8))
    assert decode_rows(FLOATS, stale, dictionary, places(0), (places(0), places(5))) is None


def test_positions_without_a_dictionary_are_left_to_pyarrow(tmp_path):
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"x": pa.array([7] * 30, pa.int64())}), path, compression="NONE")
    content = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(0)
    at = chunk.dictionary_page_offset
    # The sizes of the dictionary, eight bytes, and the number of its values, one.
    header = content.index(b"\x15\x10\x15\x10\x4c\x15\x02", at)
    content[header : header + 7] = b"\x15\x10\x15\x10\x4c\x15\x04"
    path.write_bytes(content)
    found = describe_numbers(MappedFile(path), "x", Feature("int64", (1,)), places(30))
    assert found is None or (found.pages["values_at"] == UNFAMILIAR).all()


@pytest.mark.parametrize(
    ("column", "feature"),
    [
        (pa.array([[1.0] * 6] * 20, pa.list_(pa.float32())), Feature("float32", (2, 3))),
        (pa.array([{"v": 1.0}] * 20, pa.struct({"v": pa.float32()})), Feature("float32", (1,))),
    ],
    ids=["flat list of a matrix", "struct"],
)
def test_columns_of_another_shape_are_left_to_pyarrow(column, feature, tmp_path):
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"x": column}), path)
    assert describe_numbers(MappedFile(path), "x", feature, places(20)) is None


def test_hostile_statistics_end_the_search(tmp_path):
    header = bytes.fromhex("1500155015502c15141500150615061c")
    for statistics in (b"\x18\xff\xff\xff\xff\x7f", b"\x1c" * 40, b"\x16" * 40, b"\x11" * 40):
        raw = header + statistics + bytes(60)
        data = np.frombuffer(raw + bytes(16), np.uint8)
        span = ChunkSpans(places(0), places(len(raw)), places(10), places(0), places(0))
        assert not read_single_pages(data, span).sound.any()
