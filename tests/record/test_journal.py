"""Journals: what was appended is read again, whatever follows it."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import CorruptFileError
from roboreel.record.journal import RecordFile, RowFormat, read_records
from roboreel.schema import Feature

FEATURES = {
    "state": Feature("float32", (3,)),
    "grid": Feature("int16", (2, 2)),
    "done": Feature("bool", (1,)),
    "note": Feature("string", (1,)),
    "camera": Feature("video", (4, 4, 3)),
}


def values(i: int) -> dict[str, object]:
    return {
        "state": np.full(3, i, np.float32),
        "grid": np.full((2, 2), -i, np.int16),
        "done": i % 2 == 0,
        "note": f"naïve {i}",
    }


def test_rows_come_back_as_they_went_in():
    rows = RowFormat(FEATURES)
    found = rows.unpack([rows.pack(values(i), f"task {i}") for i in range(5)])
    assert len(found) == 5
    assert found.tasks == [f"task {i}" for i in range(5)]
    assert found.columns["note"] == [f"naïve {i}" for i in range(5)]
    for i in range(5):
        for name in ("state", "grid", "done"):
            np.testing.assert_array_equal(found.columns[name][i], values(i)[name])
    assert len(found.first(2)) == len(found.first(2).columns["state"]) == 2


def test_no_rows_are_rows_too():
    found = RowFormat(FEATURES).unpack([])
    assert len(found) == 0
    assert np.shape(found.columns["state"]) == (0, 3)
    assert found.columns["note"] == []


@pytest.mark.parametrize("record", [b"", b"short", bytes(21) + b"[]", bytes(21) + b'{"a": 1}'])
def test_records_of_other_features_say_so(record):
    with pytest.raises(CorruptFileError):
        RowFormat(FEATURES).unpack([record])


@given(st.lists(st.binary(min_size=1, max_size=40)), st.data())
def test_a_file_cut_anywhere_gives_all_records_before_the_cut(tmp_path_factory, payloads, data):
    path = tmp_path_factory.mktemp("journal") / "records"
    file = RecordFile(path)
    ends = [0]
    for payload in payloads:
        file.append(payload)
        ends.append(path.stat().st_size)
    file.close()
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut)
    whole = max(i for i, end in enumerate(ends) if end <= cut)
    assert read_records(path) == (payloads[:whole], cut - ends[whole])


# Git LFS would have put its own text in place of the file, which is refused in words.
@given(st.binary(max_size=200).filter(lambda noise: not noise.startswith(b"version https:")))
def test_bytes_that_are_no_journal_do_no_harm(tmp_path_factory, noise):
    path = tmp_path_factory.mktemp("journal") / "noise"
    path.write_bytes(noise)
    records, left = read_records(path)
    assert left + sum(8 + len(record) for record in records) == len(noise)


@pytest.mark.parametrize("zeros", [1, 7, 8, 9, 16, 4096])
def test_zeros_after_a_power_cut_are_not_records(tmp_path, zeros):
    file = RecordFile(tmp_path / "records")
    file.append(b"first")
    file.close()
    with (tmp_path / "records").open("ab") as more:
        more.write(bytes(zeros))
    assert read_records(tmp_path / "records") == ([b"first"], zeros)


def test_an_empty_record_is_refused(tmp_path):
    with pytest.raises(ValueError, match="empty record"):
        RecordFile(tmp_path / "records").append(b"")


def test_a_full_disk_leaves_no_half_record(tmp_path, monkeypatch):
    file = RecordFile(tmp_path / "records")
    file.append(b"first")
    write = os.write

    def full(handle: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        return write(handle, bytes(data)[:3])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="full"):
        file.append(b"second")
    monkeypatch.setattr(os, "write", write)
    file.append(b"third")
    file.close()
    assert read_records(tmp_path / "records") == ([b"first", b"third"], 0)
