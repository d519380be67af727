"""Where a file keeps a column."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roboreel.errors import CorruptFileError, DatasetError
from roboreel.memory.budget import Budget
from roboreel.spans.mapped import MappedFile
from roboreel.storage.extents import footer
from roboreel.storage.extents.byte_column import ByteColumn
from roboreel.storage.extents.footer import Chunk, read_footer
from roboreel.storage.extents.index import index_chunk
from roboreel.storage.extents.pages import Page, unpack, unpack_bytes


def write(path: Path, name: str = "b", **columns: object) -> MappedFile:
    table = pa.table({"a": list(range(30)), **columns, name: [b"%d" % row for row in range(30)]})
    pq.write_table(table, path, row_group_size=7)
    return MappedFile(path)


@pytest.mark.parametrize("name", ["b", "n" * 127, "n" * 128, "n" * 300, "ü"])
def test_chunks_lie_where_pyarrow_says(tmp_path, name):
    file = write(tmp_path / "a.parquet", name)
    found = read_footer(file, (name,))
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert found.num_rows == 30
    assert found.max_level == 1
    for group, chunk in enumerate(found.chunks):
        column = metadata.row_group(group).column(1)
        start = column.dictionary_page_offset or column.data_page_offset
        assert (chunk.start, chunk.stop) == (start, start + column.total_compressed_size)
        assert (chunk.first_row, chunk.num_rows) == (7 * group, metadata.row_group(group).num_rows)


def test_finding_chunks_by_name_equals_walking_over_all_columns(tmp_path, monkeypatch):
    file = write(tmp_path / "a.parquet", c=[{"b": b"x"}] * 30, d=[[b"b"]] * 30)
    for column in (("b",), ("c", "b")):
        by_name = read_footer(file, column)
        with monkeypatch.context() as patch:
            patch.setattr(footer, "_chunks_by_name", lambda *_: None)
            assert read_footer(file, column) == by_name


def test_a_text_that_looks_like_the_name_does_not_mislead(tmp_path):
    looks_like = bytes([0x19, 0x18, 1]) + b"b"
    file = write(tmp_path / "a.parquet", c=[looks_like] * 30)  # goes into the statistics
    with ByteColumn(tmp_path / "a.parquet", ("b",), budget=Budget()) as column:
        assert column.read([29]) == [b"29"]
    assert file.read(0, file.size_bytes).count(looks_like) > 5


def test_a_footer_longer_than_the_first_read_is_read_whole(tmp_path):
    wide = {f"column {number}": list(range(30)) for number in range(300)}
    file = write(tmp_path / "a.parquet", "b", **wide)
    assert read_footer(file, ("b",)).num_rows == 30


def test_a_footer_longer_than_the_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    write(path)
    path.write_bytes(path.read_bytes()[:-8] + b"\xff\xff\xff\x7fPAR1")
    with pytest.raises(CorruptFileError, match="footer would be 2147483647 bytes"):
        read_footer(MappedFile(path), ("b",))


def page(file: MappedFile, codec: int, unpacked_bytes: int) -> Page:
    return Page(
        is_dictionary=False,
        num_values=1,
        has_positions=False,
        level_offset=None,
        level_bytes=0,
        offset=4,
        packed_bytes=20,
        unpacked_bytes=unpacked_bytes,
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
    chunk = Chunk(0, 2**40, 4, 40, 1, 40)
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
