"""Where a file keeps a column, and what its pages hold."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roboreel.errors import CorruptFileError, DatasetError
from roboreel.io.budget import Budget
from roboreel.io.mapped import MappedFile
from roboreel.parquet.extents.byte_column import ByteColumn
from roboreel.parquet.extents.chunks import Chunk, ColumnChunks, find_chunks, read_metadata
from roboreel.parquet.extents.index import index_chunk
from roboreel.parquet.extents.pages import Page, unpack, unpack_bytes


def write(path: Path, name: str = "b", **columns: object) -> MappedFile:
    table = pa.table({"a": list(range(30)), **columns, name: [b"%d" % row for row in range(30)]})
    pq.write_table(table, path, row_group_size=7)
    return MappedFile(path)


def chunks_of(file: MappedFile, *column: str) -> ColumnChunks:
    return find_chunks(file, read_metadata(file), column)


def check_against_pyarrow(file: MappedFile, *column: str) -> None:
    found = chunks_of(file, *column)
    metadata = pq.read_metadata(file.path)
    paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
    leaf = paths.index(".".join(column))
    assert found.max_level == metadata.schema.column(leaf).max_definition_level
    assert found.bounds == (0, 7, 14, 21, 28, 30)
    assert found.chunks is not None
    assert len(found.chunks) == metadata.num_row_groups
    for group, chunk in enumerate(found.chunks):
        stored = metadata.row_group(group).column(leaf)
        start = stored.dictionary_page_offset or stored.data_page_offset
        assert (chunk.start, chunk.stop) == (start, start + stored.total_compressed_size)
        assert (chunk.num_rows, chunk.codec) == (metadata.row_group(group).num_rows, 1)


@pytest.mark.parametrize("name", ["b", "n" * 127, "n" * 128, "n" * 300, "ü"])
def test_chunks_lie_where_pyarrow_says(tmp_path, name):
    check_against_pyarrow(write(tmp_path / "a.parquet", name), name)


def test_chunks_of_columns_that_share_a_name_are_told_apart(tmp_path):
    file = write(tmp_path / "a.parquet", c=[{"b": b"x"}] * 30, d=[[b"b"]] * 30)
    for column in (("b",), ("c", "b")):
        check_against_pyarrow(file, *column)


def test_a_column_in_many_structs_is_found(tmp_path):
    names = [f"level {depth}" for depth in range(16)]
    value: object = b"x"
    for name in reversed(names[1:]):
        value = {name: value}
    columns: dict[str, object] = {names[0]: [value] * 30}
    check_against_pyarrow(write(tmp_path / "a.parquet", "b", **columns), *names)


def test_a_text_that_looks_like_the_name_does_not_mislead(tmp_path):
    looks_like = bytes([0x19, 0x18, 1]) + b"b"
    file = write(tmp_path / "a.parquet", c=[looks_like] * 30)  # goes into the statistics
    with ByteColumn(tmp_path / "a.parquet", ("b",), budget=Budget()) as column:
        assert column.read([29]) == [b"29"]
    assert file.read(0, file.size_bytes).count(looks_like) > 5


def test_an_unknown_compression_is_an_error_and_not_the_end_of_the_process(tmp_path):
    path = tmp_path / "a.parquet"
    file = write(path)
    snappy, unknown = (b"\x19\x18\x01b\x15" + bytes([codec << 1]) for codec in (1, 9))
    data = file.read(0, file.size_bytes)
    assert data.count(snappy) == 5
    path.write_bytes(data.replace(snappy, unknown))
    # pyarrow reads what we leave to it, and words this differently from version to version.
    with pytest.raises(CorruptFileError, match=r"(codec|pyarrow cannot read).*a\.parquet"):
        ByteColumn(path, ("b",), budget=Budget()).read([0])


def test_a_column_among_many_is_found(tmp_path):
    wide = {f"column {number}": list(range(30)) for number in range(300)}
    file = write(tmp_path / "a.parquet", "b", **wide)
    check_against_pyarrow(file, "b")


def test_a_footer_longer_than_the_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    write(path)
    path.write_bytes(path.read_bytes()[:-8] + b"\xff\xff\xff\x7fPAR1")
    with pytest.raises(CorruptFileError, match=r"2147483647.*a\.parquet"):
        ByteColumn(path, ("b",), budget=Budget())


def page(file: MappedFile, codec: int, unpacked_bytes: int) -> Page:
    return Page(
        start=0,
        body=4,
        stop=24,
        body_bytes=unpacked_bytes,
        is_dictionary=False,
        num_values=1,
        encoding=0,
        codec=codec,
    )


@pytest.mark.parametrize("codec", [0, 1, 2, 7])
def test_a_page_cannot_unpack_to_more_than_its_compression_allows(tmp_path, codec):
    file = write(tmp_path / "a.parquet")
    with pytest.raises(CorruptFileError, match="20 bytes cannot unpack to 2147483647"):
        unpack(file, page(file, codec, 2**31 - 1), limit_bytes=2**40)


@pytest.mark.parametrize("codec", [4, 6])
def test_a_page_that_would_burst_the_budget_is_refused(tmp_path, codec):
    file = write(tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match="memory budget is 1000 bytes"):
        unpack(file, page(file, codec, 2**31 - 1), limit_bytes=1000)


def test_more_rows_than_the_budget_can_index_are_refused(tmp_path):
    file = write(tmp_path / "a.parquet")
    chunk = Chunk(2**40, 4, 40, 1)
    with pytest.raises(DatasetError, match="too many for the memory budget"):
        index_chunk(file, chunk, max_level=1, load_whole=lambda _: b"", limit_bytes=2**30)


@pytest.mark.parametrize(
    ("codec", "name"), [(2, "gzip"), (4, "brotli"), (6, "zstd"), (7, "lz4_raw")]
)
@pytest.mark.parametrize("size", [1, 50, 70_000])
def test_a_page_unpacks_to_its_length_and_no_other(codec, name, size):
    data = bytes(range(256)) * 300
    packed = pa.compress(data[:size], name, asbytes=True)
    assert unpack_bytes(packed, size, codec) == data[:size]
    for claimed in (size - 1, size + 1, size + 1000):
        with pytest.raises(CorruptFileError, match=name):
            unpack_bytes(packed, claimed, codec)
