"""Messages of every kind, written and read back: values equal, encoded bytes unchanged."""

from __future__ import annotations

import base64
import json
import sqlite3
import struct
from fractions import Fraction

import av
import imagecodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mcap")
pytest.importorskip("rosbags")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from mcap.records import Schema
from mcap.writer import Writer as McapWriter

from roboreel.errors import CorruptFileError, SourceError
from roboreel.importing import open_recording
from roboreel.importing.ros.cameras import ENCODINGS, pixels
from tests.importing.ros_files import (
    ROS2,
    START_NS,
    Sent,
    header,
    time_of,
    write_bag1,
    write_bag2,
    write_mcap,
)

STEP_NS = 20_000_000
POSE = (
    "position.x", "position.y", "position.z",
    "orientation.x", "orientation.y", "orientation.z", "orientation.w",
)  # fmt: skip


@pytest.fixture
def opened(tmp_path):
    """Write messages of one topic and open the recording."""
    recordings = []

    def make(kind, values, *, topic="/topic", name="run.mcap"):
        sent = [
            Sent(topic, kind, START_NS + i * STEP_NS, fields) for i, fields in enumerate(values)
        ]
        recordings.append(open_recording(write_mcap(tmp_path / name, sent)))
        return recordings[-1]

    yield make
    for recording in recordings:
        recording.close()


def read_all(recording, stream):
    return recording.read(0, {stream: np.arange(recording.count(0, stream))})[stream]


class TestNumbers:
    @pytest.mark.parametrize(
        ("kind", "values", "stream", "names", "expected"),
        [
            (
                "geometry_msgs/msg/Twist",
                {"linear": {"x": 1.5}, "angular": {"z": -2.0}},
                "/topic",
                ("linear.x", "linear.y", "linear.z", "angular.x", "angular.y", "angular.z"),
                [1.5, 0, 0, 0, 0, -2],
            ),
            (
                "geometry_msgs/msg/TwistStamped",
                {"header": header(START_NS), "twist": {"linear": {"y": 3.0}}},
                "/topic:twist",
                ("linear.x", "linear.y", "linear.z", "angular.x", "angular.y", "angular.z"),
                [0, 3, 0, 0, 0, 0],
            ),
            (
                "geometry_msgs/msg/PoseStamped",
                {"pose": {"position": {"x": 1.0}, "orientation": {"w": 1.0}}},
                "/topic:pose",
                POSE,
                [1, 0, 0, 0, 0, 0, 1],
            ),
            (
                "nav_msgs/msg/Odometry",
                {"twist": {"twist": {"linear": {"x": 0.5}}}},
                "/topic:twist.twist",
                ("linear.x", "linear.y", "linear.z", "angular.x", "angular.y", "angular.z"),
                [0.5, 0, 0, 0, 0, 0],
            ),
            (
                "std_msgs/msg/Float64MultiArray",
                {"data": [1.5, 2.5]},
                "/topic:data",
                None,
                [1.5, 2.5],
            ),
        ],
    )
    def test_messages_of_numbers_are_vectors_with_names(
        self, opened, kind, values, stream, names, expected
    ):
        recording = opened(kind, [values])
        assert stream in recording.streams
        assert recording.streams[stream].names == names
        assert read_all(recording, stream).tolist() == [expected]

    def test_a_flag_stays_a_flag_and_a_text_a_text(self, opened):
        flags = opened("std_msgs/msg/Bool", [{"data": True}, {"data": False}])
        assert flags.streams["/topic:data"].dtype == "bool"
        assert read_all(flags, "/topic").tolist() == [True, False]
        texts = opened("std_msgs/msg/String", [{"data": "pick 拾う"}], name="text.mcap")
        assert read_all(texts, "/topic:data") == ["pick 拾う"]

    def test_fields_of_a_custom_message_are_found_by_their_path(self, opened):
        values = {
            "header": header(START_NS),
            "opening": 0.25,
            "force": [1, 2],
            "fingers": [{"name": "left", "angle": 0.5}, {"name": "right", "angle": 1.5}],
        }
        recording = opened("lab_msgs/msg/Gripper", [values])
        assert set(recording.streams) == {"/topic:opening", "/topic:force"}
        assert read_all(recording, "/topic:fingers[1].angle").tolist() == [1.5]
        assert read_all(recording, "/topic:fingers[0].name") == ["left"]
        assert read_all(recording, "/topic:force[1]").tolist() == [2]
        assert read_all(recording, "/topic:header.stamp.sec").tolist() == [START_NS // 10**9]

    @pytest.mark.parametrize(
        ("path", "says"),
        [
            ("nothing", "no field 'nothing': there is header, opening, force, fingers"),
            ("fingers", "list of messages lab_msgs/msg/Finger"),
            ("fingers[0]", "does not consist of numbers only"),
            ("a..b", "not the path of a field"),
        ],
    )
    def test_a_path_that_leads_nowhere_is_an_error_that_says_what_there_is(
        self, opened, path, says
    ):
        recording = opened("lab_msgs/msg/Gripper", [{"fingers": [{"name": "left"}]}])
        with pytest.raises(SourceError, match=r"run\.mcap") as error:
            recording.stream(f"/topic:{path}")
        assert says in str(error.value)

    def test_a_message_of_another_length_is_refused_with_its_number(self, opened):
        values = [{"data": [1.0, 2.0]}, {"data": [1.0]}]
        recording = opened("std_msgs/msg/Float64MultiArray", values)
        with pytest.raises(SourceError, match="Message 1 of '/topic' has 1 values where the first"):
            read_all(recording, "/topic:data")

    def test_values_equal_those_of_another_decoder(self, opened):
        theirs_of = pytest.importorskip("mcap_ros2.decoder").DecoderFactory
        generator = np.random.default_rng(3)
        values = [
            {
                "header": header(START_NS + i),
                "name": ["a", "b", "c"],
                "position": generator.normal(size=3),
                "velocity": generator.normal(size=3),
                "effort": generator.normal(size=3),
            }
            for i in range(20)
        ]
        recording = opened("sensor_msgs/msg/JointState", values)
        kind = "sensor_msgs/msg/JointState"
        text, _ = ROS2.generate_msgdef(kind, ros_version=2)
        schema = Schema(1, text.encode(), "ros2msg", kind)
        decode = theirs_of().decoder_for("cdr", schema)
        raw = [bytes(m.data) for m in recording._container.messages(0)]
        for field in ("position", "velocity", "effort"):
            theirs = [list(getattr(decode(data), field)) for data in raw]
            assert read_all(recording, f"/topic:{field}").tolist() == theirs


class TestJoints:
    def test_other_orders_and_further_joints_are_sorted_out_by_name(self, opened):
        recording = opened(
            "sensor_msgs/msg/JointState",
            [
                {"name": ["a", "b"], "position": [1, 2]},
                {"name": ["b", "a"], "position": [2, 1]},
                {"name": ["x", "b", "a"], "position": [9, 2, 1]},
            ],
        )
        assert recording.streams["/topic:position"].names == ("a", "b")
        assert read_all(recording, "/topic:position").tolist() == [[1, 2]] * 3

    def test_publishers_that_share_a_topic_are_told_apart_by_their_joints(self, opened):
        arm = [{"header": header(i), "name": ["a", "b"], "position": [i, -i]} for i in range(4)]
        hand = [{"header": header(i), "name": ["grip"], "position": [i * 10]} for i in range(4)]
        recording = opened("sensor_msgs/msg/JointState", [arm[0], hand[0], hand[1], *arm[1:]])
        assert list(recording.streams) == ["/topic:position", "/topic[grip]:position"]
        assert recording.streams["/topic[grip]:position"].names == ("grip",)
        assert read_all(recording, "/topic:position").tolist() == [[i, -i] for i in range(4)]
        assert read_all(recording, "/topic[grip]:position").tolist() == [[0], [10]]
        assert recording.times(0, "/topic[grip]:position", "header").tolist() == [0, 1]

    def test_fields_that_are_not_sent_are_not_listed(self, opened):
        recording = opened("sensor_msgs/msg/JointState", [{"name": ["a"], "position": [1]}])
        assert list(recording.streams) == ["/topic:position"]

    @pytest.mark.parametrize(
        ("second", "says"),
        [
            ({"name": ["a"], "position": [1]}, "lacks the joint 'b'"),
            ({"name": ["a", "b"], "position": [1]}, "has 2 joints and 1 values"),
            ({"name": ["b", "b"], "position": [1, 1]}, "two joints of the same name"),
        ],
    )
    def test_messages_that_do_not_fit_are_refused_with_their_number(self, opened, second, says):
        first = {"name": ["a", "b"], "position": [1, 2]}
        recording = opened("sensor_msgs/msg/JointState", [first, second])
        with pytest.raises(SourceError, match="Message 1 of '/topic'") as error:
            read_all(recording, "/topic:position")
        assert says in str(error.value)


class TestRawImages:
    @pytest.mark.parametrize("encoding", sorted(ENCODINGS))
    @pytest.mark.parametrize("big_endian", [False, True])
    def test_pixels_are_what_was_written_behind_padding_and_in_any_byte_order(
        self, opened, encoding, big_endian
    ):
        form = ENCODINGS[encoding]
        stored = np.arange(3 * 5 * form.stored).reshape(3, 5, form.stored).astype(form.dtype)
        dtype = np.dtype(form.dtype).newbyteorder(">" if big_endian else "<")
        rows = stored.astype(dtype).view(np.uint8)
        padded = np.pad(rows.reshape(3, -1), ((0, 0), (0, 7)), constant_values=99)
        values = {
            "height": 3,
            "width": 5,
            "encoding": encoding,
            "is_bigendian": int(big_endian),
            "step": padded.shape[1],
            "data": padded.tobytes(),
        }
        recording = opened("sensor_msgs/msg/Image", [values])
        stream = recording.streams["/topic"]
        assert (stream.kind, stream.depth_unit) == ("images", form.depth_unit)
        assert np.array_equal(read_all(recording, "/topic")[0], stored[..., list(form.order)])

    @pytest.mark.parametrize(
        ("encoding", "says"), [("bayer_rggb8", "Bayer"), ("yuv422", "are read")]
    )
    def test_other_encodings_are_listed_with_a_reason(self, opened, encoding, says):
        values = {"height": 2, "width": 2, "encoding": encoding, "step": 2, "data": bytes(4)}
        recording = opened("sensor_msgs/msg/Image", [values])
        assert recording.streams["/topic"].kind == "other"
        assert says in recording.streams["/topic"].note

    def test_an_image_with_too_few_bytes_or_another_size_is_refused(self, opened):
        whole = {"height": 2, "width": 2, "encoding": "mono8", "step": 2, "data": bytes(4)}
        cut = {**whole, "data": bytes(3)}
        other = {**whole, "height": 1}
        recording = opened("sensor_msgs/msg/Image", [whole, cut, other])
        with pytest.raises(SourceError, match="needs 4 bytes, and has 3"):
            recording.read(0, {"/topic": np.array([1])})
        with pytest.raises(SourceError, match="shape"):
            recording.read(0, {"/topic": np.array([2])})

    @given(
        st.sampled_from(sorted(ENCODINGS)), st.integers(1, 6), st.integers(1, 6), st.integers(0, 5)
    )
    @settings(max_examples=50, deadline=None)
    def test_rows_equal_those_cut_out_one_by_one(self, encoding, height, width, padding):
        form = ENCODINGS[encoding]
        row_bytes = width * form.stored * np.dtype(form.dtype).itemsize
        step = row_bytes + padding
        data = np.random.default_rng(1).integers(0, 256, step * height, dtype=np.uint8)
        image = pixels(data, form, (height, width), step=step, big_endian=False)
        for row in range(height):
            line = data[row * step : row * step + row_bytes].view(form.dtype)
            expected = line.reshape(width, form.stored)[:, list(form.order)]
            assert image[row].tobytes() == expected.tobytes()


class TestPictures:
    @pytest.mark.parametrize(
        ("form", "encode", "shape"),
        [
            ("jpeg", imagecodecs.jpeg_encode, (8, 10, 3)),
            ("bgr8; jpeg compressed bgr8", imagecodecs.jpeg_encode, (8, 10, 3)),
            ("mono8; png compressed ", imagecodecs.png_encode, (8, 10, 1)),
            ("png", imagecodecs.png_encode, (8, 10, 3)),
        ],
    )
    def test_png_and_jpeg_keep_their_bytes(self, opened, form, encode, shape):
        data = [encode(np.full(shape, i, np.uint8).squeeze()) for i in range(3)]
        values = [{"format": form, "data": one} for one in data]
        recording = opened("sensor_msgs/msg/CompressedImage", values)
        assert recording.streams["/topic"].kind == "pictures"
        assert recording.streams["/topic"].shape == shape
        assert read_all(recording, "/topic") == data

    def test_compressed_depth_keeps_its_png_and_its_unit(self, opened):
        depth = np.arange(80, dtype=np.uint16).reshape(8, 10) * 500
        png = imagecodecs.png_encode(depth)
        packed = struct.pack("<iff", 0, 0.0, 0.0) + png
        values = [{"format": "16UC1; compressedDepth png", "data": packed}]
        recording = opened("sensor_msgs/msg/CompressedImage", values)
        stream = recording.streams["/topic"]
        assert (stream.kind, stream.dtype, stream.depth_unit) == ("pictures", "uint16", "mm")
        assert read_all(recording, "/topic") == [png]

    def test_inverse_depth_becomes_metres(self, opened):
        metres = np.linspace(0.5, 8, 80, dtype=np.float32).reshape(8, 10)
        quant_a, quant_b = 100.0 * 101, 1 - 100.0 * 101 / 10  # as the transport computes them
        codes = np.round(quant_a / metres + quant_b).astype(np.uint16)
        codes[0, 0] = 0
        packed = struct.pack("<iff", 0, quant_a, quant_b) + imagecodecs.png_encode(codes)
        values = [{"format": "32FC1; compressedDepth png", "data": packed}]
        recording = opened("sensor_msgs/msg/CompressedImage", values)
        assert recording.streams["/topic"].depth_unit == "m"
        image = read_all(recording, "/topic")[0, ..., 0]
        assert np.isnan(image[0, 0])
        assert np.allclose(image.ravel()[1:], metres.ravel()[1:], rtol=5e-3)

    def test_a_picture_of_another_size_or_a_damaged_one_is_refused_with_its_number(self, opened):
        small, large = (imagecodecs.png_encode(np.zeros((n, n), np.uint8)) for n in (4, 5))
        values = [{"format": "png", "data": one} for one in (small, large, b"nothing")]
        recording = opened("sensor_msgs/msg/CompressedImage", values)
        with pytest.raises(
            SourceError, match=r"Message 1 of .* is a PNG picture of shape \(5, 5, 1\)"
        ):
            recording.read(0, {"/topic": np.array([1])})
        with pytest.raises(SourceError, match=r"Message 2 .* not a whole picture"):
            recording.read(0, {"/topic": np.array([2])})


def encoded(codec, count=12, gop=5, **options):
    """Return packets of a bare stream, and which of them are keyframes."""
    context = av.CodecContext.create(codec, "w")
    context.width, context.height, context.pix_fmt = 64, 48, "yuv420p"
    context.time_base, context.gop_size = Fraction(1, 30), gop
    context.options = {"tune": "zerolatency", "preset": "ultrafast", **options}
    packets = []
    for i in range(count):
        image = av.VideoFrame.from_ndarray(
            np.full((48, 64, 3), i * 20 % 256, np.uint8), format="rgb24"
        )
        image.pts = i
        packets += context.encode(image)
    packets += context.encode(None)
    return [bytes(packet) for packet in packets], [bool(p.is_keyframe) for p in packets]


class TestVideo:
    @pytest.mark.parametrize(
        ("encoder", "name", "codec"), [("libx264", "h264", "h264"), ("libx265", "h265", "hevc")]
    )
    def test_packets_stay_as_they_are_and_keyframes_are_known(self, opened, encoder, name, codec):
        options = {"x265-params": "log-level=none:keyint=5"} if codec == "hevc" else {}
        packets, keys = encoded(encoder, **options)
        values = [
            {"timestamp": time_of(START_NS + i), "data": packet, "format": name}
            for i, packet in enumerate(packets)
        ]
        recording = opened("foxglove_msgs/msg/CompressedVideo", values)
        stream = recording.streams["/topic"]
        assert (stream.kind, stream.codec, stream.shape) == ("packets", codec, (48, 64, 3))
        assert recording.keyframes(0, "/topic").tolist() == keys
        assert read_all(recording, "/topic") == packets
        assert recording.times(0, "/topic", "header")[1] == START_NS + 1

    def test_packets_of_the_image_transport_are_read_too(self, opened):
        packets, keys = encoded("libx264")
        values = [
            {"header": header(START_NS), "encoding": "h264;yuv420p;bgr8;bgr8", "data": packet}
            for packet in packets
        ]
        recording = opened("ffmpeg_image_transport_msgs/msg/FFMPEGPacket", values)
        assert recording.keyframes(0, "/topic").tolist() == keys
        assert read_all(recording, "/topic") == packets

    def test_keyframes_without_parameter_sets_get_those_of_the_first(self, opened):
        packets, keys = encoded("libx264", **{"x264-params": "repeat-headers=1:annexb=1"})
        second = keys.index(True, 1)
        slices = packets[second].find(b"\x00\x00\x01\x65")
        assert slices > 0
        bare = [*packets[:second], packets[second][slices:], *packets[second + 1 :]]
        values = [{"data": packet, "format": "h264"} for packet in bare]
        recording = opened("foxglove_msgs/msg/CompressedVideo", values)
        read = read_all(recording, "/topic")
        assert recording.keyframes(0, "/topic").tolist() == keys
        assert read[second].endswith(bare[second])
        decoder = av.CodecContext.create("h264", "r")
        images = [i for p in read[second:] for i in decoder.decode(av.Packet(p))]
        images += decoder.decode(None)
        assert len(images) == len(read) - second

    def test_b_frames_and_other_codecs_are_told(self, opened):
        packets, _ = encoded("libx264", bf="2", tune="film")
        values = [{"data": packet, "format": "h264"} for packet in packets]
        recording = opened("foxglove_msgs/msg/CompressedVideo", values)
        with pytest.raises(SourceError, match="B-frames"):
            recording.keyframes(0, "/topic")
        other = opened("foxglove_msgs/msg/CompressedVideo", [{"format": "vp9"}], name="vp9.mcap")
        assert "'vp9'" in other.streams["/topic"].note


class TestOtherEncodings:
    def write(self, path, kind, encoding, schema_encoding, schema, messages):
        with path.open("wb") as file:
            writer = McapWriter(file)
            writer.start()
            number = writer.register_schema(kind, schema_encoding, schema)
            channel = writer.register_channel("/topic", encoding, number)
            for i, data in enumerate(messages):
                writer.add_message(channel, START_NS + i, data, START_NS + i)
            writer.finish()
        return path

    def test_json_has_numbers_texts_and_images_in_base64(self, tmp_path):
        png = imagecodecs.png_encode(np.zeros((4, 6, 3), np.uint8))
        picture = {
            "timestamp": {"sec": 5, "nsec": 7},
            "format": "png",
            "data": base64.b64encode(png).decode(),
        }
        path = tmp_path / "picture.mcap"
        data = [json.dumps(picture).encode()]
        self.write(path, "foxglove.CompressedImage", "json", "jsonschema", b"{}", data)
        with open_recording(path) as recording:
            assert read_all(recording, "/topic") == [png]
            assert recording.times(0, "/topic", "header").tolist() == [5_000_000_007]

    def test_numbers_of_json_are_floats_whether_whole_or_not(self, tmp_path):
        data = [b'{"pose": {"x": 1, "y": 2.5}, "on": true, "q": [1, 2]}']
        path = tmp_path / "numbers.mcap"
        self.write(path, "pose", "json", "", b"", [*data, b'{"pose": {"x": 0.5, "y": 1}}', b"no"])
        with open_recording(path) as recording:
            pose = recording.read(0, {"/topic:pose": np.arange(2)})["/topic:pose"]
            assert np.asarray(pose).tolist() == [[1, 2.5], [0.5, 1]]
            with pytest.raises(SourceError, match=r"Message 1 .* no field 'q'"):
                recording.read(0, {"/topic:q": np.array([1])})
            with pytest.raises(CorruptFileError, match="Message 2"):
                recording.read(0, {"/topic:pose": np.array([2])})

    def test_protobuf_is_read_by_the_descriptors_in_the_file(self, tmp_path):
        file = descriptor_pb2.FileDescriptorProto(name="pose.proto", package="lab", syntax="proto3")
        file.dependency.append("google/protobuf/timestamp.proto")
        message = file.message_type.add(name="Pose")
        for i, (name, kind) in enumerate((("x", 1), ("y", 2), ("n", 3)), start=1):
            message.field.add(name=name, number=i, type=kind, label=1)
        message.field.add(name="q", number=4, type=1, label=3)
        message.field.add(
            name="timestamp", number=5, type=11, label=1, type_name=".google.protobuf.Timestamp"
        )
        stamp = descriptor_pb2.FileDescriptorProto()
        timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
        schema = descriptor_pb2.FileDescriptorSet(file=[stamp, file]).SerializeToString()
        pool = descriptor_pool.DescriptorPool()
        pool.Add(stamp)
        pool.Add(file)
        pose = message_factory.GetMessageClass(pool.FindMessageTypeByName("lab.Pose"))
        sent = pose(x=1.5, y=2.5, n=3, q=[4.0, 5.0], timestamp={"seconds": 9, "nanos": 1})
        path = tmp_path / "pose.mcap"
        data = [sent.SerializeToString(), b"\xff\xff"]
        self.write(path, "lab.Pose", "protobuf", "protobuf", schema, data)
        with open_recording(path) as recording:
            first = {
                name: np.array([0]) for name in ("/topic:x", "/topic:y", "/topic:n", "/topic:q")
            }
            read = {name: np.asarray(of).tolist() for name, of in recording.read(0, first).items()}
            assert read == {
                "/topic:x": [1.5],
                "/topic:y": [2.5],
                "/topic:n": [3],
                "/topic:q": [[4.0, 5.0]],
            }
            assert recording.times(0, "/topic:x", "header").tolist() == [9_000_000_001, 0]
            with pytest.raises(CorruptFileError, match="Message 1"):
                recording.read(0, {"/topic:x": np.array([1])})

    def test_an_unknown_encoding_is_listed_with_its_name(self, tmp_path):
        path = self.write(tmp_path / "x.mcap", "t", "flatbuffer", "flatbuffer", b"", [b"1"])
        with open_recording(path) as recording:
            assert "'flatbuffer'" in recording.streams["/topic"].note
            with pytest.raises(SourceError, match="flatbuffer"):
                recording.read(0, {"/topic": np.array([0])})


class TestDefinitions:
    def strip(self, path):
        """Take the definitions out of a bag, as distributions before Iron wrote it."""
        base = sqlite3.connect(path / f"{path.name}.db3")
        base.execute("DROP TABLE message_definitions")
        base.commit()
        base.close()
        return path

    def test_standard_types_are_known_without_definitions(self, tmp_path):
        joints = {"name": ["a"], "position": [1.5]}
        sent = [Sent("/joints", "sensor_msgs/msg/JointState", START_NS, joints)]
        path = self.strip(write_bag2(tmp_path / "old", sent))
        for distro in (None, "foxy"):
            with open_recording(path, distro=distro) as recording:
                assert read_all(recording, "/joints:position").tolist() == [[1.5]]
        with pytest.raises(SourceError, match="no distribution 'melodic': give one of dashing"):
            open_recording(path, distro="melodic")

    def test_a_type_that_differs_between_distributions_asks_for_one(self, tmp_path):
        kind = "visualization_msgs/msg/Marker"
        path = self.strip(write_bag2(tmp_path / "old", [Sent("/marker", kind, START_NS)]))
        with open_recording(path) as recording:
            assert "--distro" in recording.streams["/marker"].note
        with open_recording(path, distro="humble") as recording:
            assert recording.streams["/marker:id"].dtype == "int32"

    def test_a_custom_type_without_definition_is_named_with_what_to_do(self, tmp_path):
        sent = [Sent("/gripper", "lab_msgs/msg/Gripper", START_NS)]
        path = self.strip(write_bag2(tmp_path / "old", sent))
        with open_recording(path) as recording:
            with pytest.raises(SourceError, match=r"'lab_msgs/msg/Gripper'.*Record it as MCAP"):
                recording.read(0, {"/gripper": np.array([0])})
            with pytest.raises(SourceError, match="'lab_msgs/msg/Gripper'"):
                recording.stream("/gripper:opening")

    def test_definitions_in_idl_are_read(self, tmp_path):
        idl = (
            "=" * 80 + "\nIDL: lab_msgs/msg/Force\n"
            "module lab_msgs { module msg { struct Force { double x; double y; }; }; };\n"
        )
        path = tmp_path / "idl.mcap"
        with path.open("wb") as file:
            writer = McapWriter(file)
            writer.start(profile="ros2")
            schema = writer.register_schema("lab_msgs/msg/Force", "ros2idl", idl.encode())
            channel = writer.register_channel("/force", "cdr", schema)
            data = b"\x00\x01\x00\x00" + struct.pack("<dd", 1.5, -2)
            writer.add_message(channel, START_NS, data, START_NS)
            writer.finish()
        with open_recording(path) as recording:
            assert read_all(recording, "/force").tolist() == [[1.5, -2]]

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "garbage $$",
            "lab_msgs/Loop loop\n",
            "string[4000000000] x\n",
            "float64[99999999999] x\n",
        ],
    )
    def test_a_definition_that_cannot_be_is_told_in_one_sentence(self, tmp_path, text):
        path = tmp_path / "bad.mcap"
        with path.open("wb") as file:
            writer = McapWriter(file)
            writer.start(profile="ros2")
            schema = writer.register_schema("lab_msgs/msg/Loop", "ros2msg", text.encode())
            channel = writer.register_channel("/bad", "cdr", schema)
            writer.add_message(channel, START_NS, b"\x00\x01\x00\x00", START_NS)
            writer.finish()
        with open_recording(path) as recording:
            assert "'lab_msgs/msg/Loop'" in recording.streams["/bad"].note
            assert "\n" not in recording.streams["/bad"].note

    def test_definitions_of_one_type_may_differ_between_topics(self, tmp_path):
        first = [Sent("/a", "std_msgs/msg/Header", START_NS, {"frame_id": "one"})]
        path = write_bag1(tmp_path / "run.bag", first)
        with open_recording(path) as recording:
            assert read_all(recording, "/a:frame_id") == ["one"]
