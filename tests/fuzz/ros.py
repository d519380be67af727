"""Parsers of ROS bags and MCAP files as functions of bytes, and whole inputs for them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
from mcap.writer import CompressionType

from roboreel.errors import DatasetError
from roboreel.importing import open_recording
from roboreel.importing.ros.container import Channel
from roboreel.importing.ros.decoders import DECODE_ERRORS, make_decoder
from roboreel.importing.ros.packets import PacketWatch
from roboreel.importing.ros.types import RosTypes
from tests.importing.ros_files import (
    GRIPPER,
    START_NS,
    VIDEO,
    Sent,
    header,
    write_bag1,
    write_bag2,
    write_mcap,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_READ = 10


def read_recording(path: Path) -> None:
    """Open a recording and read some values of every stream."""
    with open_recording(path) as recording:
        for name, stream in recording.streams.items():
            with suppress(DatasetError):
                count = recording.count(0, name)
                for clock in stream.clocks:
                    assert len(recording.times(0, name, clock)) == count
                if stream.kind == "packets":
                    recording.keyframes(0, name)
                if stream.kind != "other":
                    recording.read(0, {name: np.arange(min(count, _MOST_READ))})


def parse_definition(data: bytes) -> None:
    """Make a type of a definition, and decode what follows it as a message of that type."""
    text, _, message = data.partition(b"\0")
    for form, encoding in (("ros2msg", "cdr"), ("ros1msg", "ros1"), ("ros2idl", "cdr")):
        channel = Channel("/topic", "lab_msgs/msg/Gripper", encoding, form, text)
        with suppress(DatasetError):
            decoder = make_decoder(channel, RosTypes(), None)
            for little in (message, b"\0\1\0\0" + message):
                with suppress(*DECODE_ERRORS):
                    decoder.decode(memoryview(little))


def parse_packets(data: bytes) -> None:
    """Look at packets of video as they pass by."""
    for codec in ("h264", "hevc", "av1"):
        watch = PacketWatch(codec)
        for packet in data.split(b"|"):
            watch.add(packet)
        assert len(watch.keys) == data.count(b"|") + 1


def _messages() -> Iterator[Sent]:
    png = imagecodecs.png_encode(np.zeros((4, 4), np.uint8))
    for i in range(3):
        log_ns = START_NS + i
        joints = {"header": header(log_ns), "name": ["a"], "position": [i]}
        yield Sent("/j", "sensor_msgs/msg/JointState", log_ns, joints)
        yield Sent("/c", "sensor_msgs/msg/CompressedImage", log_ns, {"format": "png", "data": png})
        image = {"height": 1, "width": 2, "step": 2, "encoding": "mono8", "data": b"ab"}
        yield Sent("/i", "sensor_msgs/msg/Image", log_ns, image)
        yield Sent("/t", "std_msgs/msg/String", log_ns, {"data": "pick"})


def mcap_files(folder: Path) -> Iterator[bytes]:
    """Yield MCAP files with and without compression, checksums, chunks and an end."""
    path = folder / "run.mcap"
    plain: dict[str, Any] = {"compression": CompressionType.NONE, "enable_crcs": False}
    yield write_mcap(path, _messages(), **plain).read_bytes()
    yield write_mcap(path, _messages(), **plain, finish=False).read_bytes()
    yield write_mcap(path, _messages(), use_chunking=False, enable_crcs=False).read_bytes()
    yield write_mcap(path, _messages(), enable_crcs=False).read_bytes()
    lz4 = CompressionType.LZ4
    yield write_mcap(path, _messages(), profile="ros1", compression=lz4).read_bytes()


def bags(folder: Path) -> Iterator[bytes]:
    """Yield bags of ROS 1 with every compression."""
    for name in (None, "lz4", "bz2"):
        yield write_bag1(folder / f"{name}.bag", _messages(), compression=name).read_bytes()


def databases(folder: Path) -> Iterator[bytes]:
    """Yield the SQLite file of a bag of ROS 2."""
    yield (write_bag2(folder / "run", _messages()) / "run.db3").read_bytes()


def metadata_files(folder: Path) -> Iterator[bytes]:
    """Yield the metadata of a bag of ROS 2."""
    yield (write_bag2(folder / "run", _messages()) / "metadata.yaml").read_bytes()


def definitions(_: Path) -> Iterator[bytes]:
    """Yield definitions of types, each with a message."""
    yield GRIPPER.encode() + b"\0" + bytes(64)
    yield VIDEO.encode() + b"\0" + bytes(40)
    idl = b"module lab_msgs { module msg { struct Gripper { double x; string y[3]; }; }; };"
    yield idl + b"\0" + bytes(32)


def packets(_: Path) -> Iterator[bytes]:
    """Yield packets with start codes, and of AV1."""
    yield b"\0\0\0\1\x67ab\0\0\1\x68c\0\0\1\x65\x88\x84|\0\0\1\x41\x9a\x21|\0\0\1\x65\x88"
    yield b"\0\0\0\1\x40\1a\0\0\1\x42\1b\0\0\1\x44\1c\0\0\1\x26\1d|\0\0\1\x02\1e"
    yield b"\x12\0\x0a\x02ab\x32\1c|\x12\0\x32\1c"
