"""Video files with a new index: the same packets and times, readable from any keyframe."""

import av
import numpy as np
import pytest

from roboreel.errors import CorruptFileError, UnsupportedVideoError
from roboreel.video.mp4 import read_packet_table
from roboreel.video.rewrite_index import IndexChange, rewrite_index
from roboreel.video.salvage import whole_fragments
from tests.factory import SHARED, needs_shared
from tests.surgery import rename_box
from tests.video_factory import decode_all, write_video

CODECS = ["libx264", "libx265", "libsvtav1", "libvpx-vp9"]
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}


def times_of(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        return stream.time_base, [(p.pts, p.dts, p.duration, bytes(p)) for p in packets]


def assert_same_video(path, other):
    assert times_of(path) == times_of(other)
    np.testing.assert_array_equal(decode_all(path), decode_all(other))


@pytest.mark.parametrize("codec", CODECS)
def test_a_video_gets_its_keyframes_and_its_index_first(codec, tmp_path):
    path = write_video(tmp_path / "video.mp4", range(12), codec, gop=4)
    expected = read_packet_table(path).keyframe.tolist()
    rename_box(path, b"stss")
    change = rewrite_index(path, tmp_path / "new.mp4")
    assert change == IndexChange(moved=True, keyframes_listed=True)
    table = read_packet_table(tmp_path / "new.mp4")
    assert (table.lists_keyframes, table.index_at_end) == (True, False)
    assert table.keyframe.tolist() == expected
    assert_same_video(path, tmp_path / "new.mp4")


def test_b_frames_and_edit_lists_stay_as_they_are(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(20), gop=10, bframes=2)
    assert b"elst" in path.read_bytes()
    rewrite_index(path, tmp_path / "new.mp4")
    assert_same_video(path, tmp_path / "new.mp4")


def test_a_video_that_is_in_order_stays_in_order(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(8), gop=4)
    rewrite_index(path, tmp_path / "first.mp4")
    change = rewrite_index(tmp_path / "first.mp4", tmp_path / "second.mp4")
    assert change == IndexChange(moved=False, keyframes_listed=False)
    assert (tmp_path / "second.mp4").read_bytes() == (tmp_path / "first.mp4").read_bytes()


def test_where_all_packets_are_keyframes_none_are_listed(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(6), gop=1)
    assert not read_packet_table(path).lists_keyframes
    assert not rewrite_index(path, tmp_path / "new.mp4").keyframes_listed
    assert_same_video(path, tmp_path / "new.mp4")


def test_bytes_between_the_boxes_do_not_confuse_the_offsets(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(8), gop=4)
    path.write_bytes(path.read_bytes() + b"\0\0\0\x10freepadding!")
    rewrite_index(path, tmp_path / "new.mp4")
    assert_same_video(path, tmp_path / "new.mp4")


def test_a_fragmented_file_is_refused(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(8), gop=4, container_options=FRAGMENTS)
    with pytest.raises(UnsupportedVideoError, match=r"with moof.*video\.mp4"):
        rewrite_index(path, tmp_path / "new.mp4")
    assert not (tmp_path / "new.mp4").exists()


def test_a_file_cut_in_half_without_its_index_cannot_be_recovered(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(8), gop=4)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CorruptFileError, match="no 'moov' box"):
        rewrite_index(path, tmp_path / "new.mp4")


def test_of_a_fragmented_file_the_whole_fragments_can_be_recovered(tmp_path):
    path = write_video(tmp_path / "video.mp4", range(12), gop=4, container_options=FRAGMENTS)
    pieces = path.read_bytes().rpartition(b"moof")
    path.write_bytes(b"".join(pieces[:2]) + pieces[2][:200])
    assert whole_fragments(path, tmp_path / "saved.mp4") == 8


@needs_shared
@pytest.mark.parametrize(
    "path", sorted(path.relative_to(SHARED) for path in SHARED.rglob("*.mp4"))[::3], ids=str
)
def test_what_lerobot_wrote_is_the_same_with_a_new_index(path, tmp_path):
    rewrite_index(SHARED / path, tmp_path / "new.mp4")
    assert times_of(SHARED / path) == times_of(tmp_path / "new.mp4")
