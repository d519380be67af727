"""Parquet files without a footer, rebuilt from their pages and a sibling."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboreel.errors import CorruptFileError, DatasetError, MissingFileError
from roboreel.repair.rescue.rebuild import find_row_groups, write_with_footer
from tests.factory import SHARED, needs_shared
from tests.surgery import remove_footer, skip_without_null_lists

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
TYPES = [
    pa.int64(),
    pa.float32(),
    pa.bool_(),
    pa.string(),
    pa.list_(pa.float32()),
    pa.list_(pa.float64(), 3),
    pa.list_(pa.list_(pa.int32())),
    pa.binary(5),
    IMAGE,
]
CODECS = ["NONE", "snappy", "zstd", "gzip", "lz4", "brotli"]


def a_value(kind):
    if pa.types.is_fixed_size_list(kind):
        items = a_value(kind.value_type)
        return st.lists(items, min_size=kind.list_size, max_size=kind.list_size)
    if pa.types.is_list(kind):
        return st.lists(a_value(kind.value_type) | st.none(), max_size=4)
    if kind == IMAGE:
        return st.fixed_dictionaries({"bytes": st.binary(max_size=40), "path": st.text(max_size=9)})
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=5, max_size=5)
    if pa.types.is_floating(kind):
        return st.sampled_from([0.0, 1.5, -2.25, 1e30])
    if pa.types.is_integer(kind):
        return st.integers(-(2**31), 2**31 - 1)
    return st.booleans() if pa.types.is_boolean(kind) else st.text(max_size=12)


@st.composite
def tables(draw, schema, most_rows=30):
    rows = draw(st.integers(1, most_rows))
    columns = []
    for field in schema:
        # A few values many times over: hypothesis draws them, the rows repeat them.
        few = draw(st.lists(a_value(field.type) | st.none(), min_size=1, max_size=5))
        columns.append(pa.array([few[row * 7 % len(few)] for row in range(rows)], field.type))
    return pa.table(columns, schema=schema)


@st.composite
def writings(draw):
    return {
        "compression": draw(st.sampled_from(CODECS)),
        "use_dictionary": draw(st.booleans()),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "data_page_size": draw(st.sampled_from([None, 64])),
        "write_batch_size": draw(st.sampled_from([None, 4])),
        "dictionary_pagesize_limit": draw(st.sampled_from([None, 30])),
        "write_page_checksum": draw(st.booleans()),
    }


@st.composite
def siblings(draw):
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    fields = [(f"column.{number}", kind) for number, kind in enumerate(types)]
    schema = pa.schema(fields, metadata={"huggingface": "{}"})
    groups = draw(st.lists(tables(schema), min_size=1, max_size=3))
    return groups, draw(tables(schema, most_rows=60)), draw(writings())


def write_groups(path, groups, **writing):
    with pq.ParquetWriter(path, groups[0].schema, **writing) as writer:
        for group in groups:
            writer.write_table(group)
    return path


def rebuilt(path, like):
    found = find_row_groups(path, like=like)
    target = path.with_name("rebuilt.parquet")
    assert write_with_footer(path, found, target) == found.rows
    return found, pq.read_table(target)


def whole_rows(path, cut_at):
    """How many rows of a file lie in row groups that end before a byte."""
    metadata = pq.read_metadata(path)
    rows, stop = 0, 4
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(i) for i in range(group.num_columns)]
        stop += sum(column.total_compressed_size for column in columns)
        rows += group.num_rows if stop <= cut_at else 0
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rebuild")


@settings(max_examples=40, deadline=None)
@given(data=siblings(), cut=st.floats(0, 1))
def test_a_value_is_never_put_in_another_place(folder, data, cut):
    skip_without_null_lists()
    groups, like, writing = data
    sibling = write_groups(folder / "sibling.parquet", [like], **writing)
    path = write_groups(folder / "cut.parquet", groups, **writing)
    content = path.read_bytes()
    cut_at = 4 + int(cut * (len(content) - 4))
    path.write_bytes(content[:cut_at])
    found, table = rebuilt(path, sibling)
    assert table.equals(pa.concat_tables(groups).slice(0, found.rows))
    assert table.schema.metadata == {b"huggingface": b"{}"}
    assert found.bytes_kept + found.bytes_lost == cut_at
    assert bool(found.reason) == bool(found.bytes_lost)


@settings(max_examples=40, deadline=None)
@given(data=siblings(), cut=st.floats(0, 1), codec=st.sampled_from(CODECS))
def test_as_pyarrow_writes_by_default_every_whole_row_group_is_kept(folder, data, cut, codec):
    skip_without_null_lists()
    groups, like, _ = data
    groups = [with_numbers(group) for group in groups]
    sibling = write_groups(folder / "sibling.parquet", [with_numbers(like)], compression=codec)
    path = write_groups(folder / "cut.parquet", groups, compression=codec)
    content = path.read_bytes()
    cut_at = 4 + int(cut * (len(content) - 4))
    expected = whole_rows(path, cut_at)
    path.write_bytes(content[:cut_at])
    found, table = rebuilt(path, sibling)
    assert found.rows == expected
    assert table.equals(pa.concat_tables(groups).slice(0, expected))


def with_numbers(table):
    """A table with the two columns in front that every table of LeRobot's has somewhere."""
    numbers = pa.array(range(len(table)), pa.int64())
    return table.add_column(0, "index", numbers).add_column(0, "frame_index", numbers)


@needs_shared
@pytest.mark.parametrize(
    "path", sorted(path.relative_to(SHARED) for path in SHARED.rglob("*.parquet")), ids=str
)
def test_what_lerobot_wrote_is_the_same_without_its_footer(path, tmp_path):
    whole = tmp_path / "whole.parquet"
    whole.write_bytes((SHARED / path).read_bytes())
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole.read_bytes())
    remove_footer(cut)
    found, table = rebuilt(cut, whole)
    expected = pq.read_table(whole)
    assert table.equals(expected)
    assert table.schema.equals(expected.schema, check_metadata=True)
    assert (found.bytes_lost, found.reason) == (0, "")


def numbers(rows, first=0):
    return pa.table({"a": range(first, first + rows), "b": [float(row) for row in range(rows)]})


def two_groups(folder, **writing):
    path = write_groups(folder / "cut.parquet", [numbers(10), numbers(20, 10)], **writing)
    sibling = write_groups(folder / "sibling.parquet", [numbers(15, 100)], **writing)
    metadata = pq.read_metadata(path)
    remove_footer(path)
    return path, sibling, metadata


def test_the_pages_of_the_new_file_are_the_bytes_of_the_old(tmp_path):
    path, sibling, _ = two_groups(tmp_path)
    found, table = rebuilt(path, sibling)
    content = (tmp_path / "rebuilt.parquet").read_bytes()
    assert content[: found.bytes_kept] == path.read_bytes()
    assert table.equals(pa.concat_tables([numbers(10), numbers(20, 10)]))


def test_the_new_footer_says_of_each_chunk_what_the_old_one_said(tmp_path):
    path, sibling, before = two_groups(tmp_path, compression="zstd")
    rebuilt(path, sibling)
    after = pq.read_metadata(tmp_path / "rebuilt.parquet")
    kept = ("num_values", "data_page_offset", "dictionary_page_offset", "compression")
    sizes = ("total_compressed_size", "total_uncompressed_size", "path_in_schema", "physical_type")
    for name in (*kept, *sizes):
        for group in range(2):
            columns = [
                [getattr(m.row_group(group).column(i), name) for i in range(2)]
                for m in (before, after)
            ]
            assert columns[0] == columns[1], name
    assert (after.num_rows, after.created_by) == (before.num_rows, before.created_by)


def test_of_a_row_group_that_is_cut_off_it_says_how_much_is_lost(tmp_path):
    path, sibling, before = two_groups(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    found, table = rebuilt(path, sibling)
    assert (found.rows, len(table)) == (10, 10)
    start = before.row_group(1).column(0).dictionary_page_offset
    assert (found.bytes_kept, found.bytes_lost) == (start, path.stat().st_size - start)
    assert found.reason.endswith(
        "bytes are left out: the last row group is incomplete, and the file ends inside a page."
    )


def test_a_half_written_footer_is_left_out(tmp_path):
    path = write_groups(tmp_path / "cut.parquet", [numbers(10)])
    path.write_bytes(path.read_bytes()[:-20])
    found, table = rebuilt(path, write_groups(tmp_path / "sibling.parquet", [numbers(5)]))
    assert table.equals(numbers(10))
    assert "no page follows" in found.reason


def test_zeros_at_the_end_are_left_out(tmp_path):
    """After a loss of power a file may have its size, but not its last bytes."""
    path, sibling, before = two_groups(tmp_path)
    start = before.row_group(1).column(0).dictionary_page_offset + 40
    content = path.read_bytes()
    path.write_bytes(content[:start] + bytes(len(content) - start))
    found, table = rebuilt(path, sibling)
    assert (found.rows, len(table)) == (10, 10)


def test_a_page_with_a_wrong_checksum_ends_what_is_kept(tmp_path):
    path, sibling, _ = two_groups(tmp_path, write_page_checksum=True, compression="NONE")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    found, _ = rebuilt(path, sibling)
    assert found.rows == 10
    assert "checksum" in found.reason


def test_columns_that_look_alike_are_not_guessed(tmp_path):
    """Pages of 100 rows, two for each of two columns, or one each in two row groups."""
    table = pa.table({"a": range(200), "b": range(200, 400)})
    writing = {"use_dictionary": False, "data_page_size": 800, "write_batch_size": 100}
    path = write_groups(tmp_path / "cut.parquet", [table], **writing)
    sibling = write_groups(tmp_path / "sibling.parquet", [table], **writing)
    found, _ = rebuilt(path, sibling)
    assert found.rows == 0
    assert "cannot be told apart" in found.reason


def test_a_sibling_with_other_columns_gives_no_rows(tmp_path):
    path, _, _ = two_groups(tmp_path)
    other = pa.table({"a": ["text"], "b": [[1, 2]], "c": [True]})
    found = find_row_groups(path, like=write_groups(tmp_path / "sibling.parquet", [other]))
    assert (found.rows, found.bytes_kept) == (0, 4)
    assert "do not fit the columns of the sibling" in found.reason


def test_a_dictionary_that_was_given_up_is_followed_by_plain_pages(tmp_path):
    writing = {"dictionary_pagesize_limit": 1000, "data_page_size": 1000, "write_batch_size": 64}
    path = write_groups(tmp_path / "cut.parquet", [numbers(900), numbers(700)], **writing)
    sibling = write_groups(tmp_path / "sibling.parquet", [numbers(800)], **writing)
    remove_footer(path)
    _, table = rebuilt(path, sibling)
    assert table.equals(pa.concat_tables([numbers(900), numbers(700)]))


def test_row_groups_without_rows_are_kept(tmp_path):
    groups = [numbers(3), numbers(3).slice(0, 0), numbers(4)]
    path = write_groups(tmp_path / "cut.parquet", groups)
    remove_footer(path)
    found, table = rebuilt(path, write_groups(tmp_path / "sibling.parquet", [numbers(5)]))
    assert [group.num_rows for group in found.row_groups] == [3, 0, 4]
    assert table.equals(pa.concat_tables(groups))


def test_errors_name_the_file(tmp_path):
    path, sibling, _ = two_groups(tmp_path)
    with pytest.raises(CorruptFileError, match=r"as a pattern.*cut\.parquet"):
        find_row_groups(sibling, like=path)
    with pytest.raises(MissingFileError, match=r"gone\.parquet"):
        find_row_groups(tmp_path / "gone.parquet", like=sibling)
    (tmp_path / "text.parquet").write_text("no table, but words")
    with pytest.raises(CorruptFileError, match=r"does not start as Parquet.*text\.parquet"):
        find_row_groups(tmp_path / "text.parquet", like=sibling)


def test_a_file_that_shrank_since_it_was_read_is_refused(tmp_path):
    path, sibling, _ = two_groups(tmp_path)
    found = find_row_groups(path, like=sibling)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(CorruptFileError, match=r"had .* bytes when it was read"):
        write_with_footer(path, found, tmp_path / "rebuilt.parquet")
    assert not (tmp_path / "rebuilt.parquet").exists()


@settings(max_examples=40, deadline=None)
@given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_bytes_end_in_an_error_or_in_rows(folder, places):
    """Whatever the bytes say, nothing but our own errors comes out of it."""
    path, sibling, _ = two_groups(folder)
    for damaged in (path, sibling):
        content = bytearray(damaged.read_bytes())
        for place, value in places:
            content[4 + int(place * (len(content) - 5))] = value
        damaged.write_bytes(content)
        try:
            found = find_row_groups(path, like=sibling)
            assert write_with_footer(path, found, folder / "rebuilt.parquet") == found.rows
        except DatasetError:
            pass
