"""Small ROS bags and MCAP files, made by the formats' own writers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Writer as Bag1Writer
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Bag2Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ROS1 = get_typestore(Stores.ROS1_NOETIC)
ROS2 = get_typestore(Stores.ROS2_HUMBLE)
START_NS = 1_700_000_000_000_000_000
"""When the recordings begin."""

VIDEO = """builtin_interfaces/Time timestamp
string frame_id
uint8[] data
string format
"""
PACKET = """std_msgs/Header header
int32 width
int32 height
string encoding
uint64 pts
uint8 flags
bool is_bigendian
uint8[] data
"""
GRIPPER = """std_msgs/Header header
float32 opening
float32[2] force
lab_msgs/Finger[] fingers
================================================================================
MSG: lab_msgs/Finger
string name
float64 angle
"""
ROS1.register(
    get_types_from_msg("geometry_msgs/TransformStamped[] transforms\n", "tf2_msgs/msg/TFMessage")
)
for store in (ROS1, ROS2):
    store.register(get_types_from_msg(VIDEO, "foxglove_msgs/msg/CompressedVideo"))
    store.register(get_types_from_msg(PACKET, "ffmpeg_image_transport_msgs/msg/FFMPEGPacket"))
    store.register(get_types_from_msg(GRIPPER, "lab_msgs/msg/Gripper"))


@dataclass
class Sent:
    """One message: where, when, and what."""

    topic: str
    kind: str
    """Such as ``sensor_msgs/msg/JointState``."""
    log_ns: int
    values: dict[str, Any] = field(default_factory=dict)
    """Fields by name; those left out are zero or empty. Dicts are nested messages."""


def header(stamp_ns: int, frame: str = "base") -> dict[str, Any]:
    """Return the fields of a header."""
    return {"stamp": time_of(stamp_ns), "frame_id": frame}


def time_of(nanoseconds: int) -> dict[str, int]:
    """Return the fields of a time."""
    return {"sec": nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}


def build(store: Any, kind: str, values: dict[str, Any]) -> Any:
    """Return a message of a type."""
    fields = store.fielddefs[kind][1]
    return store.types[kind](
        **{name: _field(store, desc, values.get(name)) for name, desc in fields}
    )


def _field(store: Any, desc: Any, value: Any) -> Any:
    node, inner = int(desc[0]), desc[1]
    if node == 1:
        zero = "" if inner[0] == "string" else False if inner[0] == "bool" else 0
        return zero if value is None else value
    if node == 2:
        return build(store, inner, value or {})
    (sub, count), given = inner, value
    if int(sub[0]) == 2:
        return [build(store, sub[1], item) for item in given or []]
    if sub[1][0] == "string":
        return list(given or [])
    dtype = {"bool": "bool", "byte": "int8", "char": "uint8"}.get(sub[1][0], sub[1][0])
    if given is None:
        return np.zeros(count if node == 3 else 0, dtype)
    if isinstance(given, bytes):
        return np.frombuffer(given, dtype)
    return np.asarray(given, dtype)


def write_bag1(path: Path, sent: Iterable[Sent], *, compression: str | None = None) -> Path:
    """Write a bag of ROS 1, with compression ``lz4`` or ``bz2``."""
    bag = Bag1Writer(path)
    if compression:
        bag.set_compression(Bag1Writer.CompressionFormat[compression.upper()])
    bag.chunk_threshold = 64 * 1024
    with bag:
        connections: dict[str, Any] = {}
        for item in sent:
            if item.topic not in connections:
                connections[item.topic] = bag.add_connection(item.topic, item.kind, typestore=ROS1)
            raw = ROS1.serialize_ros1(build(ROS1, item.kind, item.values), item.kind)
            bag.write(connections[item.topic], item.log_ns, raw)
    return path


def write_bag2(
    path: Path,
    sent: Iterable[Sent],
    *,
    storage: str = "db3",
    compression: str | None = None,
) -> Path:
    """Write the folder of a ROS 2 bag; compression ``message``, ``file`` or ``storage``."""
    plugin = StoragePlugin.MCAP if storage == "mcap" else StoragePlugin.SQLITE3
    bag = Bag2Writer(path, version=9, storage_plugin=plugin)
    if compression:
        bag.set_compression(CompressionMode[compression.upper()], CompressionFormat.ZSTD)
    with bag:
        connections: dict[str, Any] = {}
        for item in sent:
            if item.topic not in connections:
                connections[item.topic] = bag.add_connection(item.topic, item.kind, typestore=ROS2)
            raw = ROS2.serialize_cdr(build(ROS2, item.kind, item.values), item.kind)
            bag.write(connections[item.topic], item.log_ns, raw)
    return path


def write_mcap(
    path: Path,
    sent: Iterable[Sent],
    *,
    profile: str = "ros2",
    compression: CompressionType = CompressionType.ZSTD,
    chunk_size: int = 64 * 1024,
    finish: bool = True,
    big_endian: bool = False,
    **options: Any,
) -> Path:
    """Write an MCAP file with ROS 1 or ROS 2 messages."""
    store = ROS1 if profile == "ros1" else ROS2
    with path.open("wb") as file:
        writer = McapWriter(file, chunk_size=chunk_size, compression=compression, **options)
        writer.start(profile=profile)
        channels: dict[str, int] = {}
        for item in sent:
            if item.topic not in channels:
                channels[item.topic] = _add_channel(writer, store, item, profile)
            message = build(store, item.kind, item.values)
            if profile == "ros1":
                raw = store.serialize_ros1(message, item.kind)
            else:
                raw = store.serialize_cdr(message, item.kind, little_endian=not big_endian)
            writer.add_message(channels[item.topic], item.log_ns, bytes(raw), item.log_ns)
        if finish:
            writer.finish()
    return path


def _add_channel(writer: McapWriter, store: Any, item: Sent, profile: str) -> int:
    version = 1 if profile == "ros1" else 2
    text, _ = store.generate_msgdef(item.kind, ros_version=version)
    kind = item.kind.replace("/msg/", "/") if version == 1 else item.kind
    schema = writer.register_schema(kind, f"{profile}msg", text.encode())
    encoding = "ros1" if version == 1 else "cdr"
    return int(writer.register_channel(item.topic, encoding, schema))
