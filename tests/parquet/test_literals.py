"""Bytes found verbatim in Snappy streams."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboreel.errors import CorruptFileError
from roboreel.io.mapped import MappedFile
from roboreel.parquet.extents.literals import BLOCK_BYTES, LiteralMap
from roboreel.parquet.extents.snappy import scan_snappy
from roboreel.varint import encode_varint

EVERY_TAG = 10**9


def mixture(seed: int, parts: int) -> bytes:
    """Random bytes, repeated bytes and copies of earlier ones."""
    rng = np.random.default_rng(seed)
    data = b""
    for _ in range(parts):
        kind = rng.integers(3)
        size = int(rng.integers(1, 60_000))
        if kind == 0 or not data:
            data += rng.bytes(size)
        elif kind == 1:
            data += bytes([int(rng.integers(256))]) * size
        else:
            start = int(rng.integers(len(data)))
            data += data[start : start + size]
    return data


def store(folder: Path, data: bytes) -> MappedFile:
    path = folder / "stream"
    path.write_bytes(b"before" + data + b"after")
    return MappedFile(path)


def check_runs(file: MappedFile, literals: LiteralMap, data: bytes) -> None:
    previous = 0
    for start, offset, length in zip(
        literals.run_start.tolist(),
        literals.run_offset.tolist(),
        literals.run_length.tolist(),
        strict=True,
    ):
        assert start >= previous
        assert file.read(offset, length) == data[start : start + length]
        previous = start + length


@pytest.mark.parametrize("seed", range(12))
def test_runs_of_snappy_hold_the_unpacked_bytes(tmp_path, seed):
    data = mixture(seed, 8)
    packed = pa.compress(data, "snappy", asbytes=True)
    file = store(tmp_path, packed)
    literals = scan_snappy(file, 6, 6 + len(packed), len(data), most_tags=EVERY_TAG)
    assert literals is not None
    check_runs(file, literals, data)


@pytest.mark.parametrize("seed", range(12))
def test_each_snappy_block_unpacks_alone(tmp_path, seed):
    data = mixture(seed, 8)
    packed = pa.compress(data, "snappy", asbytes=True)
    file = store(tmp_path, packed)
    literals = scan_snappy(file, 6, 6 + len(packed), len(data), most_tags=EVERY_TAG)
    assert literals is not None
    assert literals.blocks is not None
    bounds = literals.blocks.tolist()
    assert len(bounds) - 1 == -(-len(data) // BLOCK_BYTES)
    for block, (start, stop) in enumerate(pairwise(bounds)):
        expected = data[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
        alone = encode_varint(len(expected)) + file.read(start, stop - start)
        assert pa.decompress(alone, len(expected), "snappy", asbytes=True) == expected


def test_a_scan_gives_up_where_tags_are_dense(tmp_path):
    data = b"".join(b"%d " % number for number in range(50_000))
    packed = pa.compress(data, "snappy", asbytes=True)
    file = store(tmp_path, packed)
    assert scan_snappy(file, 6, 6 + len(packed), len(data), most_tags=100) is None


@settings(max_examples=200, deadline=None)
@given(
    edits=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.floats(0, 1),
)
def test_corrupt_streams_give_runs_inside_them_or_a_clear_error(tmp_path_factory, edits, cut):
    data = mixture(3, 2)[:3000] + b"ab" * 500
    packed = bytearray(pa.compress(data, "snappy", asbytes=True))
    for place, byte in edits:
        packed[int(place * len(packed))] = byte
    stop = 6 + round(cut * len(packed)) if cut < 0.3 else 6 + len(packed)
    file = store(tmp_path_factory.mktemp("streams"), bytes(packed))
    try:
        literals = scan_snappy(file, 6, stop, len(data), most_tags=EVERY_TAG)
    except CorruptFileError:
        return
    assert literals is not None
    ends = literals.run_offset + literals.run_length
    assert (ends <= stop).all()


@given(
    runs=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=8),
    span=st.tuples(st.integers(0, 40), st.integers(1, 20)),
)
def test_a_span_is_covered_if_every_byte_of_it_is_in_a_run(runs, span):
    flat, covered_bytes, position = [], set(), 0
    for gap, length in runs:
        position += gap
        flat += [position, 1000 + position, length]
        covered_bytes |= set(range(position, position + length))
        position += length
    literals = LiteralMap.of_runs(flat)
    start, stop = span[0], span[0] + span[1]
    first, last, covered = literals.runs_of(np.array([start]), np.array([stop]))
    assert bool(covered[0]) == (set(range(start, stop)) <= covered_bytes)
    offset = literals.offset_of(start, span[1])
    assert (offset == 1000 + start) if covered[0] and first[0] == last[0] else offset is None
