"""ROS bags and MCAP files of every form, read as recordings."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest

pytest.importorskip("mcap")
pytest.importorskip("rosbags")

from mcap.writer import CompressionType

from roboreel.errors import SourceError
from roboreel.importing import open_recording
from tests.importing.contracts_recording import RecordingContract
from tests.importing.ros_files import START_NS, Sent, header, write_bag1, write_bag2, write_mcap

STEPS = 40
MADE: dict[type, Path] = {}
"""The recording of each class."""


def picture(number):
    pixels = np.full((24, 32, 3), number * 5, np.uint8)
    return imagecodecs.jpeg_encode(pixels)


def messages():
    """Joints at 100 Hz, a camera at 25 Hz, a task, and a topic that cannot become a feature."""
    for i in range(STEPS):
        log_ns = START_NS + i * 10**7
        joints = {
            "header": header(log_ns - 2_000_000),
            "name": ["shoulder", "elbow"],
            "position": [i, i / 10],
        }
        yield Sent("/joints", "sensor_msgs/msg/JointState", log_ns, joints)
        if i % 4 == 0:
            image = {"header": header(log_ns - 5_000_000), "format": "jpeg", "data": picture(i)}
            yield Sent("/camera", "sensor_msgs/msg/CompressedImage", log_ns + 1, image)
        if i % 20 == 0:
            yield Sent("/task", "std_msgs/msg/String", log_ns + 2, {"data": f"task {i}"})
            yield Sent("/tf", "tf2_msgs/msg/TFMessage", log_ns + 3, {"transforms": [{}]})


class TimedContract(RecordingContract):
    expected: dict[str, Any] = {  # noqa: RUF012  # as the contract has it
        "/joints:position": [[[i, i / 10] for i in range(STEPS)]],
        "/camera": [[picture(i) for i in range(0, STEPS, 4)]],
        "/task:data": [["task 0", "task 20"]],
    }
    times: dict[str, Any] | None = {  # noqa: RUF012  # as the contract has it
        "/joints:position": [[START_NS + i * 10**7 for i in range(STEPS)]],
        "/camera": [[START_NS + i * 10**7 + 1 for i in range(0, STEPS, 4)]],
        "/tf": [[START_NS + 3, START_NS + 20 * 10**7 + 3]],
    }

    @pytest.fixture
    def path(self, tmp_path, tmp_path_factory):
        """Copy the recording, which is written once for all tests: writing takes longest."""
        if type(self) not in MADE:
            MADE[type(self)] = self.write(tmp_path_factory.mktemp("made"))
        made = MADE[type(self)]
        if made.is_dir():
            return Path(shutil.copytree(made, tmp_path / made.name))
        return Path(shutil.copy(made, tmp_path))

    def test_headers_are_a_clock_of_their_own(self, recording):
        stamps = recording.times(0, "/joints:position", "header")
        assert (recording.times(0, "/joints:position") - stamps == 2_000_000).all()
        with pytest.raises(SourceError, match="clock 'header'"):
            recording.times(0, "/task:data", "header")

    def test_joints_are_named_and_what_cannot_be_read_is_listed(self, recording):
        assert recording.streams["/joints:position"].names == ("shoulder", "elbow")
        assert recording.streams["/tf"].kind == "other"
        assert recording.remarks == ()


class TestMcapZstd(TimedContract):
    layout = "mcap"

    def write(self, folder):
        return write_mcap(folder / "run.mcap", messages(), chunk_size=4096)


class TestMcapLz4OfRos1(TimedContract):
    layout = "mcap"

    def write(self, folder):
        compression = CompressionType.LZ4
        return write_mcap(folder / "run.mcap", messages(), profile="ros1", compression=compression)


class TestMcapWithoutChunks(TimedContract):
    layout = "mcap"

    def write(self, folder):
        return write_mcap(folder / "run.mcap", messages(), use_chunking=False)


class TestMcapWithoutSummary(TimedContract):
    layout = "mcap"

    def write(self, folder):
        bare: dict[str, Any] = {
            "use_statistics": False,
            "use_summary_offsets": False,
            "repeat_channels": False,
            "repeat_schemas": False,
        }
        return write_mcap(folder / "run.mcap", messages(), chunk_size=4096, **bare)


class TestMcapBigEndian(TimedContract):
    layout = "mcap"

    def write(self, folder):
        return write_mcap(folder / "run.mcap", messages(), big_endian=True)


class TestBag(TimedContract):
    layout = "ros1"

    def write(self, folder):
        return write_bag1(folder / "run.bag", messages())


class TestBagLz4(TimedContract):
    layout = "ros1"

    def write(self, folder):
        return write_bag1(folder / "run.bag", messages(), compression="lz4")


class TestBagBz2(TimedContract):
    layout = "ros1"

    def write(self, folder):
        return write_bag1(folder / "run.bag", messages(), compression="bz2")


class TestFolderOfSqlite(TimedContract):
    layout = "ros2"

    def write(self, folder):
        return write_bag2(folder / "run", messages())


class TestFolderOfPackedMessages(TimedContract):
    layout = "ros2"

    def write(self, folder):
        return write_bag2(folder / "run", messages(), compression="message")


class TestFolderOfPackedSqlite(TimedContract):
    layout = "ros2"

    def write(self, folder):
        return write_bag2(folder / "run", messages(), compression="file")


class TestFolderOfMcap(TimedContract):
    layout = "ros2"

    def write(self, folder):
        return write_bag2(folder / "run", messages(), storage="mcap", compression="storage")


class TestSqliteFileAlone(TimedContract):
    layout = "ros2"

    def write(self, folder):
        path = write_bag2(folder / "run", messages()) / "run.db3"
        return path.rename(folder / "alone.db3")


class TestSeveralFilesOfOneRecording(TimedContract):
    layout = "ros2"

    def write(self, folder):
        """Split a bag into two files, as recorders do at a size, and list them in its metadata."""
        path = write_bag2(folder / "run", messages())
        first, second = path / "run.db3", path / "run_1.db3"
        second.write_bytes(first.read_bytes())
        for file, condition in ((first, ">= 25"), (second, "< 25")):
            base = sqlite3.connect(file)
            base.execute(f"DELETE FROM messages WHERE rowid {condition}")
            base.commit()
            base.close()
        metadata = path / "metadata.yaml"
        text = metadata.read_text().replace("- run.db3\n", "- run.db3\n  - run_1.db3\n", 1)
        assert "run_1" in text
        metadata.write_text(text)
        return path


def test_a_folder_without_metadata_is_read_by_the_names_of_its_files(tmp_path):
    path = write_bag2(tmp_path / "run", messages())
    (path / "metadata.yaml").unlink()
    with open_recording(path) as recording:
        assert recording.count(0, "/joints:position") == STEPS
        assert "no metadata.yaml" in recording.remarks[0]
