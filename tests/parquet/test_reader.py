"""What reading a column takes, as its footer says, or does not say."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roboreel.errors import CorruptFileError, TooLargeError
from roboreel.parquet.extents.chunks import spelled_path
from roboreel.parquet.reader import ParquetReader
from roboreel.varint import decode_varint, encode_varint

# Fields of ColumnMetaData behind the path: the codec, the values, the unpacked bytes.
_BEFORE_UNPACKED = 2


def say_unpacked(path, column, size_bytes):
    """Change how many unpacked bytes the footer gives a column of the only row group."""
    content = path.read_bytes()
    place = content.rindex(spelled_path([column])) + len(spelled_path([column]))
    for _ in range(_BEFORE_UNPACKED):
        place = decode_varint(content, place + 1)[1]
    _, stop = decode_varint(content, place + 1)
    said = bytearray(encode_varint(size_bytes * 2))
    while len(said) < stop - place - 1:  # As long as before: zeros that go on.
        said[-1] |= 0x80
        said.append(0)
    path.write_bytes(content[: place + 1] + said + content[stop:])


def repeated_texts(path):
    texts = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), ["x" * 100_000])
    pq.write_table(pa.table({"note": texts, "n": np.arange(20_000)}), path)


def test_texts_that_a_dictionary_repeats_are_counted_as_often_as_they_occur(tmp_path):
    repeated_texts(tmp_path / "a.parquet")
    reader = ParquetReader(tmp_path / "a.parquet")
    assert reader.bound([0], ["note"]).whole > 20_000 * 100_000
    assert reader.bound([0], ["n"]).whole < 10**6
    with pytest.raises(TooLargeError, match="'note' take"):
        reader.read([0], ["note"], 10**7)
    rows = reader.rows_at_once([0], ["note"], 10**7)
    assert next(len(part) for part in reader.parts([0], ["n", "note"], rows)) == rows


def test_a_footer_that_plays_down_the_size_of_texts_is_not_believed(tmp_path):
    repeated_texts(tmp_path / "a.parquet")
    say_unpacked(tmp_path / "a.parquet", "note", 1)
    reader = ParquetReader(tmp_path / "a.parquet")
    assert (
        pq.read_metadata(tmp_path / "a.parquet").row_group(0).column(0).total_uncompressed_size == 1
    )
    with pytest.raises(TooLargeError, match="'note' take"):
        reader.read([0], ["note"], 10**7)


@pytest.mark.parametrize("compression", ["SNAPPY", "ZSTD", "BROTLI"])
def test_one_page_that_is_larger_than_the_limit_is_refused_whatever_the_footer_says(
    compression, tmp_path
):
    path, rows = tmp_path / "a.parquet", 2_000_000
    pq.write_table(
        pa.table({"n": np.zeros(rows)}),
        path,
        row_group_size=rows,
        use_dictionary=False,
        compression=compression,
        data_page_size=2**30,
        write_batch_size=rows,
        max_rows_per_page=rows,
    )
    say_unpacked(path, "n", 100)
    reader = ParquetReader(path)
    assert reader.bound([0], ["n"]).pages > 2 * 8 * rows
    with pytest.raises(TooLargeError, match="may take 3"):
        reader.read([0], ["n"], 10**6)


def test_a_part_outside_of_the_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": np.arange(10)}), path)
    content = path.read_bytes()
    place = content.rindex(spelled_path(["n"])) + len(spelled_path(["n"]))
    for _ in range(3):  # Up to the packed bytes.
        place = decode_varint(content, place + 1)[1]
    _, stop = decode_varint(content, place + 1)
    longest = encode_varint(2 ** (7 * (stop - place - 1)) - 2)
    path.write_bytes(content[: place + 1] + longest + content[stop:])
    with pytest.raises(CorruptFileError, match=r"footer.*a\.parquet"):
        ParquetReader(path).read([0], ["n"], 10**6)
