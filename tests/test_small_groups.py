"""Small row groups decoded side by side: the same values as pyarrow's, or left to pyarrow."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.distinct import distinct, numbered
from roboreel.spans.mapped import MappedFile
from roboreel.storage.extents.cursor import varints, words_of
from roboreel.storage.extents.levels import decode_hybrid
from roboreel.storage.extents.pages import SNAPPY, UNCOMPRESSED
from roboreel.storage.small_groups import blocks, table
from roboreel.storage.small_groups.runs import decode_runs, skip_uniform
from roboreel.varint import encode_varint

LIMIT = 10**8


@pytest.fixture(autouse=True)
def _few_groups(monkeypatch):
    monkeypatch.setattr(table, "_LEAST_GROUPS", 1)


def bytes_of(parts):
    """Bytes one after another, with some after the last, and where each begins and ends."""
    stops = np.cumsum([len(part) for part in parts])
    data = np.frombuffer(b"".join(parts) + bytes(16), np.uint8)
    return data, stops - np.array([len(part) for part in parts]), stops


@given(st.lists(st.integers(0, 2**49 - 1), min_size=1))
def test_numbers_of_any_length_are_read_side_by_side(numbers):
    data, start, stop = bytes_of([encode_varint(number) for number in numbers])
    value, size = varints(words_of(data)[start])
    assert value.tolist() == numbers
    assert size.tolist() == (stop - start).tolist()


@st.composite
def hybrids(draw):
    """A hybrid: its bytes, the width of its numbers, and how many there are."""
    width = draw(st.integers(0, 32))
    data, count = b"", 0
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            groups = draw(st.sampled_from([1, 2, 63, 63]))
            data += encode_varint(groups << 1 | 1)
            data += draw(st.binary(min_size=groups * width, max_size=groups * width))
            count += groups * 8
        else:
            length = draw(st.integers(1, 600))
            value = draw(st.integers(0, 2**width - 1))
            data += encode_varint(length << 1) + value.to_bytes((width + 7) // 8, "little")
            count += length
    return data, width, count


@given(st.lists(hybrids(), min_size=1, max_size=4), st.data())
def test_runs_of_several_blocks_are_those_of_each(listed, data):
    spans = [sorted(data.draw(st.tuples(*[st.integers(0, h[2])] * 2))) for h in listed]
    joined, start, stop = bytes_of([h[0] for h in listed])
    width = np.array([h[1] for h in listed])
    first, last = np.array(spans).T
    found, sound = decode_runs(words_of(joined), start, stop, width, (first, last))
    expected = [
        decode_hybrid(d, w, n)[a:b] for (d, w, n), (a, b) in zip(listed, spans, strict=True)
    ]
    assert sound.all()
    assert found.tolist() == np.concatenate(expected).tolist()


def test_runs_that_end_too_early_are_not_sound():
    data, start, stop = bytes_of([b"\x03\x01", b"\x03", b"\x28\x01"])
    asked = np.array([8, 8, 21])
    _, sound = decode_runs(words_of(data), start, stop, np.ones(3, np.int64), (0 * asked, asked))
    assert sound.tolist() == [True, False, False]


@pytest.mark.parametrize("count", [1, 5, 8, 9, 100, 1000])
@pytest.mark.parametrize("nulls", [0, 1])
def test_levels_are_uniform_only_if_nothing_is_null(count, nulls, tmp_path):
    rows = pa.table({"x": pa.array([None] * nulls + list(range(count - nulls)), pa.int64())})
    path = tmp_path / "a.parquet"
    pq.write_table(rows, path, compression="NONE", use_dictionary=False)
    content = np.frombuffer(path.read_bytes(), np.uint8)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    stop = chunk.data_page_offset + chunk.total_compressed_size
    ends = [
        skip_uniform(words_of(content), *(np.array([n]) for n in (place, count, 1, 1)))
        for place in range(stop - 8 * (count - nulls) - 40, stop)
    ]
    assert any(sound[0] and end[0] == stop - 8 * count for end, sound in ends) == (not nulls)


def columns(rows=95):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "noise": rng.normal(size=rows),
            "number": np.arange(rows) * 3,
            "same": np.zeros(rows, np.int64),
            "real": rng.normal(size=rows).astype(np.float32),
            "int": np.arange(rows, dtype=np.int32),
            "task": [["pick"] if i % 3 else ["höw"] for i in range(rows)],
        }
    )


def read(path):
    return table.read_small_groups(MappedFile(path), lambda _: True, LIMIT)


def same(found, expected):
    for name, values in found.numbers.items():
        assert values.tolist() == expected.column(name).to_pylist(), name
    for name, lists in found.lists.items():
        assert [[lists.texts[code]] for code in lists.codes] == expected.column(name).to_pylist()


@pytest.mark.parametrize("rows", [1, 3, 10, 1000])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("compression", ["SNAPPY", "NONE"])
def test_all_columns_are_decoded(rows, dictionary, compression, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "_CHUNKS_AT_ONCE", 12)
    path = tmp_path / "a.parquet"
    pq.write_table(
        columns(), path, row_group_size=rows, use_dictionary=dictionary, compression=compression
    )
    found = read(path)
    assert set(found.numbers) == {"noise", "number", "same", "real", "int"}
    assert set(found.lists) == ({"task"} if dictionary else set())
    same(found, columns())


def test_what_has_another_form_is_left_to_pyarrow(tmp_path):
    path = tmp_path / "a.parquet"
    others = columns().append_column("nulls", [[None, *range(94)]])
    others = others.append_column("unsigned", pa.array(np.arange(95), pa.uint64()))
    others = others.append_column("several", [[["a", "b"][: i % 3] for i in range(95)]])
    pq.write_table(others, path, row_group_size=10)
    found = read(path)
    assert found.decoded == set(columns().column_names)
    assert found.names == others.column_names


@pytest.mark.parametrize("options", [{"compression": "ZSTD"}, {"data_page_version": "2.0"}])
def test_another_compression_or_page_is_left_to_pyarrow(options, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(columns(), path, row_group_size=10, **options)
    assert not read(path).decoded


def test_nothing_is_unpacked_beyond_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(columns(), path, row_group_size=10)
    monkeypatch.setattr(blocks, "join_blocks", pytest.fail)
    found = table.read_small_groups(MappedFile(path), lambda _: True, 1000)
    assert found is not None
    assert not found.decoded


def test_a_block_of_another_length_is_noticed(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(columns(), path, row_group_size=10)
    expected = read(path)
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    rng = np.random.default_rng(3)
    for place in rng.integers(4, len(content) - 8 - length, 200).tolist():
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(damaged)
        found = read(path)
        for name in found.numbers if found is not None else ():
            assert len(found.numbers[name]) == len(expected.numbers[name])


@given(st.lists(st.integers(-5, 5)))
def test_distinct_numbers_are_those_of_numpy(numbers):
    values = np.array(numbers, np.int64)
    found, place = np.unique(values, return_inverse=True)
    assert distinct(values).tolist() == found.tolist()
    assert [part.tolist() for part in numbered(values)] == [found.tolist(), place.tolist()]


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=6), st.booleans())
def test_blocks_unpacked_one_by_one_are_those_that_were_packed(contents, is_packed):
    codec = SNAPPY if is_packed else UNCOMPRESSED
    packed = [pa.compress(c, "snappy", asbytes=True) if is_packed else c for c in contents]
    sizes = np.array([len(content) for content in contents])
    out = np.empty(blocks.room_for(sizes), np.uint8)
    found = blocks.unpack_each([memoryview(piece) for piece in packed], sizes, codec, out)
    assert found is not None
    spans = zip(found.start.tolist(), found.stop.tolist(), strict=True)
    assert [bytes(found.data[a:b]) for a, b in spans] == contents
    assert (found.start % 8 == 0).all()


@pytest.mark.parametrize(
    "change",
    [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"\xff" + b],
    ids=["cut off", "longer", "another length"],
)
def test_a_damaged_block_is_not_unpacked(change):
    content = b"what was written" * 9
    packed = memoryview(change(pa.compress(content, "snappy", asbytes=True)))
    sizes = np.array([len(content)])
    out = np.empty(blocks.room_for(sizes), np.uint8)
    assert blocks.unpack_each([packed], sizes, SNAPPY, out) is None
    assert blocks.unpack_each([packed[:5]], sizes, UNCOMPRESSED, out) is None
