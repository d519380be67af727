"""Packets of a stream are those of the MP4 file, with parameter sets at keyframes."""

import re

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import CorruptFileError
from roboreel.video.bitstream import obus, stream_packer
from roboreel.video.mp4 import read_packet_table
from roboreel.video.packet_table import Coding
from tests.video_factory import write_video


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_packets_for_a_stream_are_those_of_ffmpegs_filter(codec, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(9), codec=codec, gop=3)
    pack = packer(read_packet_table(path).coding)
    name = {"libx264": "h264", "libx265": "hevc"}[codec]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        convert = av.BitStreamFilterContext(f"{name}_mp4toannexb", stream)
        for packet in container.demux(stream):
            if packet.size:
                ours = units(pack(bytes(packet), packet.is_keyframe))
                (theirs,) = (units(bytes(made)) for made in convert.filter(packet))
                # FFmpeg repeats x265's settings, which lie in the header of the file, and puts the
                # parameter sets after other remarks.
                wanted = [unit for unit in theirs if b"x265 (build" not in unit]
                assert sorted(ours) == sorted(wanted)


def packer(coding):
    pack = stream_packer(coding)
    assert pack is not None
    return pack


def units(packet):
    return [unit for unit in re.split(rb"\x00\x00\x00?\x01", packet) if unit]


@given(st.sampled_from(["h264", "hevc", "av1"]), st.binary(max_size=60), st.binary(max_size=60))
def test_damaged_packets_are_an_error_or_passed_on_but_never_a_crash(codec, record, packet):
    try:
        pack = packer(Coding(codec, b"\x01" + record, 64, 48))
        assert isinstance(pack(packet, True), bytes)
    except CorruptFileError:
        pass


def test_an_av1_keyframe_without_its_header_gets_it():
    header, frame = b"\x0a\x01\xff", b"\x32\x01\xaa"
    pack = packer(Coding("av1", bytes(4) + header, 64, 48))
    assert pack(b"\x12\x00" + frame, True) == header + frame
    assert pack(b"\x12\x00" + frame, False) == frame
    assert pack(header + frame, True) == header + frame


def test_av1_units_are_listed_up_to_the_first_damaged_length():
    packet = bytes([0x12, 0x00, 0x32, 0x02, 7, 7])  # a temporal delimiter, a frame of two bytes
    assert list(obus(packet)) == [(2, 2), (6, 4)]
    assert list(obus(packet + b"\x0a")) == [(2, 2), (6, 4)]
    assert list(obus(packet + b"\x0a" + b"\x80" * 100_000)) == [(2, 2), (6, 4)]
