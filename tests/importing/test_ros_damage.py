"""Damaged, cut off, empty and hostile bags and MCAP files: one clear sentence, or what is whole."""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
import tracemalloc
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("mcap")
pytest.importorskip("rosbags")

import lz4.frame
import zstandard
from mcap.writer import CompressionType

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    MissingFileError,
    SourceError,
    TooLargeError,
)
from roboreel.importing import open_recording
from roboreel.importing.ros import db3
from roboreel.importing.ros.container import unpack
from roboreel.importing.ros.db3 import SqliteFile
from roboreel.importing.ros.packets import packet_size
from tests.importing.ros_files import START_NS, Sent, header, write_bag1, write_bag2, write_mcap


def joints(count=50):
    for i in range(count):
        fields = {"header": header(START_NS + i), "name": ["a"], "position": [i]}
        yield Sent("/joints", "sensor_msgs/msg/JointState", START_NS + i, fields)
        padding = {"data": bytes(2000)}
        yield Sent("/bytes", "std_msgs/msg/UInt8MultiArray", START_NS + i, padding)


def whole_values(path):
    with open_recording(path) as recording:
        count = recording.count(0, "/joints:position")
        values = recording.read(0, {"/joints:position": np.arange(count)})["/joints:position"]
        return np.asarray(values).ravel().tolist(), " ".join(recording.remarks)


def peak_of(act):
    """Return the most bytes that were allocated at once."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestCutOff:
    @pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
    def test_what_is_whole_of_a_cut_mcap_file_is_read_and_said(self, tmp_path, part):
        path = write_mcap(
            tmp_path / "run.mcap", joints(), chunk_size=8192, compression=CompressionType.NONE
        )
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * part)])
        values, remarks = whole_values(path)
        assert values == list(range(len(values)))
        assert len(values) >= 0.8 * part * 50 - 5
        assert "not closed, or was cut off" in remarks

    @pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
    def test_what_is_whole_of_a_cut_bag_is_read_and_said(self, tmp_path, part):
        path = write_bag1(tmp_path / "run.bag", joints(200))
        data = bytearray(path.read_bytes())
        place = data.find(b"index_pos=") + len(b"index_pos=")
        data[place : place + 8] = bytes(8)  # as a recorder leaves it until it is done
        path.write_bytes(data[: int(len(data) * part)])
        values, remarks = whole_values(path)
        assert values == list(range(len(values)))
        assert len(values) > 0
        assert "no index" in remarks

    def test_a_bag_whose_index_lies_beyond_its_end_is_walked(self, tmp_path):
        path = write_bag1(tmp_path / "run.bag", joints(200))
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        assert "no index" in whole_values(path)[1]


class TestDamage:
    def test_a_changed_byte_in_a_chunk_is_found_by_its_checksum(self, tmp_path):
        path = write_mcap(tmp_path / "run.mcap", joints(), compression=CompressionType.NONE)
        data = bytearray(path.read_bytes())
        place = data.find(struct.pack("<d", 7.0))
        data[place] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptFileError, match=r"checksum is wrong: .*run\.mcap"):
            whole_values(path)

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("run.mcap", b"\x89MCAP0\r\n"),
            ("run.bag", b"#ROSBAG V2.0\n"),
            ("run.bag", b"#ROSBAG V1.2\n"),
            ("run.db3", b"SQLite format 3\0"),
            ("run.db3", b"SQLite format 3\0" + bytes(1000)),
        ],
    )
    def test_a_file_that_only_begins_is_an_error_with_its_name_or_has_no_streams(
        self, tmp_path, name, data
    ):
        path = tmp_path / name
        path.write_bytes(data)
        try:
            with open_recording(path) as recording:
                assert not recording.streams
                assert recording.remarks
        except CorruptFileError as error:
            assert name in str(error)  # noqa: PT017  # either is right

    def test_an_empty_file_is_told(self, tmp_path):
        (tmp_path / "run.mcap").write_bytes(b"")
        with pytest.raises(DatasetError, match="empty"):
            open_recording(tmp_path / "run.mcap")

    def test_a_recording_without_messages_has_no_streams_with_values(self, tmp_path):
        for path in (
            write_mcap(tmp_path / "run.mcap", []),
            write_bag1(tmp_path / "run.bag", []),
            write_bag2(tmp_path / "run", []),
        ):
            with open_recording(path) as recording:
                assert not recording.streams

    def test_a_file_that_the_metadata_names_is_missing(self, tmp_path):
        path = write_bag2(tmp_path / "run", joints(2))
        (path / "run.db3").unlink()
        with pytest.raises(MissingFileError, match=r"metadata.yaml names.*run\.db3"):
            open_recording(path)

    @pytest.mark.parametrize("text", ["", "a: [", "rosbag2_bagfile_information: 3", "- 1", "\x00"])
    def test_metadata_that_is_not_metadata_is_an_error_with_its_name(self, tmp_path, text):
        path = write_bag2(tmp_path / "run", joints(2))
        (path / "metadata.yaml").write_text(text)
        with pytest.raises(CorruptFileError, match=r"metadata\.yaml"):
            open_recording(path)

    def test_names_in_the_metadata_cannot_leave_the_folder(self, tmp_path):
        path = write_bag2(tmp_path / "run", joints(2))
        metadata = path / "metadata.yaml"
        (path / "run.db3").rename(tmp_path / "run.db3")
        metadata.write_text(metadata.read_text().replace("- run.db3", "- ../run.db3"))
        with pytest.raises(MissingFileError):
            open_recording(path)

    def test_a_database_of_something_else_is_told(self, tmp_path):
        path = tmp_path / "other.db3"
        base = sqlite3.connect(path)
        base.execute("CREATE TABLE birds (name TEXT)")
        base.execute("CREATE VIEW messages AS SELECT 1 AS id")
        base.commit()
        base.close()
        with pytest.raises(CorruptFileError, match="not a ROS 2 bag"):
            open_recording(path)

    def test_topics_of_two_types_are_refused_with_both(self, tmp_path):
        sent = [
            Sent("/a", "std_msgs/msg/Bool", START_NS),
            Sent("/b", "std_msgs/msg/String", START_NS, {"data": "x"}),
        ]
        path = write_bag1(tmp_path / "run.bag", sent)
        path.write_bytes(path.read_bytes().replace(b"topic=/b", b"topic=/a"))
        with (
            open_recording(path) as recording,
            pytest.raises(SourceError, match="two types, 'std_msgs/Bool' and 'std_msgs/String'"),
        ):
            recording.read(0, {"/a": np.array([0])})


class TestHostile:
    def test_a_chunk_that_unpacks_to_more_than_it_declares_is_refused(self, tmp_path):
        bombs = {
            "zstd": zstandard.ZstdCompressor().compress(bytes(10**6)),
            "lz4": lz4.frame.compress(bytes(10**6)),
        }
        for name, bomb in bombs.items():
            with pytest.raises(CorruptFileError, match="declares 1,000 bytes and has more"):
                unpack(bomb, name, 1000, tmp_path)
            with pytest.raises(TooLargeError, match="at most 1,073,741,824"):
                unpack(bomb, name, 2**40, tmp_path)

    def test_a_declared_length_of_any_size_takes_no_memory(self, tmp_path):
        path = write_mcap(tmp_path / "run.mcap", joints(3), compression=CompressionType.NONE)
        data = bytearray(path.read_bytes())
        data[data.find(b"\x06", 30) + 1 : data.find(b"\x06", 30) + 9] = (2**62).to_bytes(
            8, "little"
        )
        path.write_bytes(data[:-8])

        def read():
            try:
                with open_recording(path) as recording:
                    assert recording.remarks
            except DatasetError:
                pass

        assert peak_of(read) < 20 * 1024**2

    def test_packets_that_are_no_video_are_an_error_or_nothing(self):
        try:
            assert packet_size([b"\0\0\1" + bytes(range(256))] * 3, "h264") is None
        except SourceError as error:
            assert "not h264" in str(error)  # noqa: PT017  # either is right


def test_memory_does_not_grow_with_the_file(tmp_path):
    """A bag of 60 MB, unpacked, is read within a few chunks' memory."""
    picture = bytes(np.random.default_rng(0).integers(0, 256, 60_000, dtype=np.uint8))

    def sent(count):
        for i in range(count):
            yield Sent("/bytes", "std_msgs/msg/UInt8MultiArray", START_NS + i, {"data": picture})

    path = write_bag1(tmp_path / "run.bag", sent(1000), compression="lz4")

    def read():
        with open_recording(path) as recording:
            for i in range(0, recording.count(0, "/bytes:data"), 10):
                recording.read(0, {"/bytes:data": np.arange(i, i + 10)})

    assert peak_of(read) < 45 * 1024**2


_TABLES = {
    "topics": "id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT",
    "messages": "id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB",
}


def write_tables(path, rows=10, **tables):
    """Write a ROS 2 database as a stranger might, in small pages."""
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("PRAGMA page_size = 512")
        for name, columns in {**_TABLES, **tables}.items():
            base.execute(f"CREATE TABLE {name}({columns})")
        base.execute("INSERT INTO topics VALUES (1, '/a', 'std_msgs/msg/String', 'cdr')")
        sent = ((1, number) for number in range(rows))
        base.executemany("INSERT INTO messages(topic_id, timestamp) VALUES (?, ?)", sent)
    return path


class TestHostileDatabases:
    def test_computed_columns_are_refused_before_they_are_computed(self, tmp_path):
        columns = _TABLES["messages"].replace("data BLOB", "data AS (zeroblob(900000000))")
        path = write_tables(tmp_path / "a.db3", messages=columns)
        with pytest.raises(CorruptFileError, match="table messages has computed columns"):
            SqliteFile(path)

    @pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no FIFOs.")
    def test_a_pipe_beside_a_database_is_not_waited_for(self, tmp_path, end):
        path = write_tables(tmp_path / "a.db3")
        (tmp_path / "a.db3-wal").write_bytes(b"x")
        (tmp_path / f"a.db3{end}").unlink(missing_ok=True)
        os.mkfifo(f"{path}{end}")
        with pytest.raises(CorruptFileError, match="not a regular file"):
            SqliteFile(path)

    def test_pages_that_make_rows_without_end_are_not_read_without_end(self, tmp_path, monkeypatch):
        path = write_tables(tmp_path / "a.db3", rows=50_000)
        with closing(sqlite3.connect(path)) as base:
            query = "SELECT rootpage FROM sqlite_master WHERE name = 'messages'"
            (page,) = base.execute(query).fetchone()
        content = bytearray(path.read_bytes())
        while content[(at := (page - 1) * 512)] == 5:  # The parts of a page become its first one.
            cells = struct.unpack_from(
                f">{struct.unpack_from('>H', content, at + 3)[0]}H", content, at + 12
            )
            (page,) = struct.unpack_from(">I", content, at + cells[0])
            for place in (*(at + cell for cell in cells), at + 8):
                struct.pack_into(">I", content, place, page)
        path.write_bytes(content)
        monkeypatch.setattr(db3, "_FEW_STEPS", 0)
        monkeypatch.setattr(db3, "_STEPS_AT_ONCE", 1000)
        monkeypatch.setattr(db3, "_STEPS_PER_BYTE", 0.1)
        file = SqliteFile(path)
        with pytest.raises(CorruptFileError, match="interrupted"):
            list(file.messages(0, [2]))
        file.close()

    def test_steps_are_counted_for_each_pass_over_the_messages(self, tmp_path):
        path = write_tables(tmp_path / "a.db3", rows=50_000)
        file = SqliteFile(path)
        for _ in range(30):
            assert list(file.messages(0, [2])) == []
        file.close()
