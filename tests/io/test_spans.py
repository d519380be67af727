import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from roboreel.errors import CorruptFileError, MissingFileError
from roboreel.io.mapped import MappedFile
from roboreel.io.reading import SpanReader, arrow_file, read_file, whole_file

OPENERS: list[Callable[[Path], object]] = [
    MappedFile,
    SpanReader,
    read_file,
    arrow_file,
    whole_file,
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "numbers.bin"
    path.write_bytes(bytes(range(100)))
    return path


def test_a_span_is_read_from_its_start_up_to_its_stop(file):
    with SpanReader(file) as reader:
        assert reader.size_bytes == 100
        assert reader.read(10, 13) == bytes([10, 11, 12])
        assert reader.read(99, 100) == bytes([99])
        assert reader.read(5, 5) == b""


def test_a_span_beyond_the_end_says_where_the_file_ends(file):
    with (
        SpanReader(file, "video file") as reader,
        pytest.raises(CorruptFileError, match=r"video file ends at byte 100.*90 to 101.*numbers"),
    ):
        reader.read(90, 101)


def test_reads_of_a_file_that_shrank_fail_and_do_not_hang(file):
    with SpanReader(file) as reader:
        os.truncate(file, 20)
        assert reader.read(0, 20) == bytes(range(20))
        with pytest.raises(CorruptFileError, match="ends at byte 20"):
            reader.read(10, 30)


def test_a_small_file_is_read_whole(file):
    assert read_file(file) == bytes(range(100))


def test_pyarrow_reads_the_same_bytes(file):
    with arrow_file(file) as opened:
        assert opened.read() == bytes(range(100))


@pytest.mark.parametrize("opener", OPENERS)
def test_a_missing_file_is_named(opener, tmp_path):
    with pytest.raises(MissingFileError, match=r"There is no .*gone\.bin"):
        opener(tmp_path / "gone.bin")


@pytest.mark.parametrize("opener", OPENERS)
def test_a_folder_in_place_of_a_file_is_refused(opener, tmp_path):
    with pytest.raises(CorruptFileError, match=r"(not a regular file|Cannot open)"):
        opener(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
@pytest.mark.parametrize("opener", OPENERS)
def test_a_fifo_in_place_of_a_file_is_refused_at_once(opener, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    failures = []

    def attempt():
        try:
            opener(tmp_path / "fifo")
        except CorruptFileError as error:
            failures.append(str(error))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(120)
    assert failures
    assert "not a regular file" in failures[0]


def test_no_handle_is_left_open(file):
    handles = Path("/proc/self/fd")
    if not handles.is_dir():
        pytest.skip("counts handles through /proc")
    before = len(list(handles.iterdir()))
    for opener in OPENERS[:1] + OPENERS[2:]:
        opener(file)
    with SpanReader(file):
        pass
    assert len(list(handles.iterdir())) == before
