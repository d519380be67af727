"""Parquet files without a footer, rebuilt from their pages and a sibling."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboreel.storage.rescue.rebuild import find_row_groups, write_with_footer
from tests.factory import SHARED, needs_shared
from tests.surgery import remove_footer

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


@settings(max_examples=60, deadline=None)
@given(data=siblings(), cut=st.floats(0, 1))
def test_a_value_is_never_put_in_another_place(folder, data, cut):
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


@settings(max_examples=60, deadline=None)
@given(data=siblings(), cut=st.floats(0, 1), codec=st.sampled_from(CODECS))
def test_as_pyarrow_writes_by_default_every_whole_row_group_is_kept(folder, data, cut, codec):
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
