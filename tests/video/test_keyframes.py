"""Keyframes by what packets say, and what a packet table says of its file."""

import numpy as np
import pytest

from roboreel.io.budget import Budget
from roboreel.video.demux import demux_packet_table
from roboreel.video.keyframes import find_keyframes
from roboreel.video.mp4 import read_packet_table
from roboreel.video.reader import VideoReader
from tests.surgery import copy_packets, rename_box
from tests.video.test_video_reader import request
from tests.video_factory import decode_all, write_video

CODECS = ["libx264", "libx265", "libsvtav1", "libvpx-vp9"]


def keyframes_of(path, stop=None):
    found = find_keyframes(path, read_packet_table(path), stop)
    assert found is not None
    return found.tolist()


@pytest.mark.parametrize("gop", [1, 2, 7])
@pytest.mark.parametrize("codec", CODECS)
def test_packets_say_the_same_as_the_keyframe_table(codec, gop, tmp_path):
    path = write_video(tmp_path / "video.mp4", range(20), codec, gop=gop)
    found = keyframes_of(path)
    assert found == read_packet_table(path).keyframe.tolist()
    assert sum(found) == -(-20 // gop)


def test_packets_say_the_same_with_b_frames(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(20), gop=10, bframes=2)
    assert keyframes_of(path) == read_packet_table(path).keyframe.tolist()
    assert keyframes_of(path, 3) == [True, False, False]


def test_a_codec_that_is_not_known_is_not_guessed(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(4), "mpeg4", gop=2)
    assert find_keyframes(path, demux_packet_table(path)) is None


def test_a_table_tells_whether_keyframes_are_listed(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(8), gop=2)
    assert read_packet_table(path).lists_keyframes
    rename_box(path, b"stss")
    table = read_packet_table(path)
    assert not table.lists_keyframes
    assert table.keyframe.all()
    assert keyframes_of(path) == [True, False] * 4


def test_a_fragmented_file_lists_its_keyframes(tmp_path):
    flags = {"movflags": "frag_keyframe+empty_moov"}
    path = write_video(tmp_path / "video.mp4", range(8), gop=2, container_options=flags)
    table = read_packet_table(path)
    assert table.lists_keyframes
    assert not table.index_at_end


def test_a_table_tells_where_the_index_is(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(8))
    assert read_packet_table(path).index_at_end
    copy_packets(path, options={"movflags": "+faststart"})
    assert not read_packet_table(path).index_at_end


@pytest.mark.parametrize("codec", [*CODECS, "mpeg4"])
def test_a_file_that_lists_no_keyframes_is_decoded_from_those_that_its_packets_tell(
    codec, tmp_path
):
    path = write_video(tmp_path / "video.mp4", range(40), codec, gop=20)
    expected = decode_all(path)
    rename_box(path, b"stss")
    reader = VideoReader(budget=Budget(), threads=1)
    for frames in ([39], [7], [25, 26], [0], [18, 3, 31], range(40)):
        plan = reader.plan([request(path, list(frames), length=40)])
        images = np.empty((len(frames), *plan.image_sizes[path], 3), np.uint8)
        reader.read(plan, images, layout="hwc")
        assert np.array_equal(images, expected[list(frames)])
    reader.close()
