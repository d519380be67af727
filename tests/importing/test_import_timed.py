"""Recordings with times become datasets: clocks, gaps, episodes, packets."""

from __future__ import annotations

import av
import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import SourceError
from roboreel.image import encode_jpeg
from roboreel.importing import (
    Changes,
    EpisodeRule,
    FeatureMap,
    ImportMap,
    TaskRule,
    import_dataset,
    open_recording,
    plan_import,
)
from roboreel.importing.defaults import changed_map
from roboreel.video.bitstream import stream_packer
from roboreel.video.demux import demux_packet_table
from roboreel.video.encode import Encoding, encode_video
from tests.importing.test_import import check_is_clean, stored_pictures

pytest.importorskip("mcap")
pytest.importorskip("rosbags")

from tests.importing.ros_files import START_NS, Sent, header, write_mcap

MS = 1_000_000
STATE, CAMERA = "observation.state", "observation.images.camera"


def picture(number: int) -> bytes:
    return encode_jpeg(np.full((16, 24, 3), number % 250, np.uint8))


def joints(at_ms, value, stamp_ms=None, topic="/joints"):
    stamp = START_NS + round((at_ms if stamp_ms is None else stamp_ms) * MS)
    values = {"header": header(stamp), "name": ["a", "b"], "position": [value, -value]}
    return Sent(topic, "sensor_msgs/msg/JointState", START_NS + round(at_ms * MS), values)


def camera(at_ms, number, stamp_ms=None):
    stamp = START_NS + round((at_ms if stamp_ms is None else stamp_ms) * MS)
    values = {"header": header(stamp), "format": "jpeg", "data": picture(number)}
    return Sent("/camera", "sensor_msgs/msg/CompressedImage", START_NS + round(at_ms * MS), values)


def flag(at_ms, value):
    return Sent("/active", "std_msgs/msg/Bool", START_NS + round(at_ms * MS), {"data": value})


def word(at_ms, text):
    return Sent("/task", "std_msgs/msg/String", START_NS + round(at_ms * MS), {"data": text})


def write(path, *sent):
    return write_mcap(path, sorted(sent, key=lambda one: one.log_ns))


def run(length_ms=1000, start_ms=0):
    """Joints at 100 Hz and a camera at 10 Hz; values count milliseconds."""
    times = range(start_ms, start_ms + length_ms, 10)
    yield from (joints(t, float(t)) for t in times)
    yield from (camera(t, t // 100) for t in times if t % 100 == 0)


def plan_of(path, mapping=None, **changes):
    with open_recording(path) as recording:
        return plan_import(recording, changed_map(recording, mapping, Changes(**changes)))


def test_rows_take_the_rate_of_the_camera_and_keep_its_pictures(tmp_path):
    source = write(tmp_path / "a.mcap", *run(), word(0, "wave"))
    made = import_dataset(source, tmp_path / "d")
    dataset = reel.open_dataset(made.path)
    assert (dataset.fps, made.frames) == (10, 10)
    batch = dataset.read(range(10))
    assert batch[STATE][:, 0].tolist() == [100.0 * i for i in range(10)]
    assert dataset.features[STATE].names == ("a", "b")
    assert set(batch["task"]) == {"wave"}
    assert stored_pictures(dataset, CAMERA) == [picture(i) for i in range(10)]
    check_is_clean(made.path)


def test_values_between_two_messages_are_interpolated(tmp_path):
    source = write(tmp_path / "a.mcap", *run())
    mapping = ImportMap({STATE: FeatureMap(("/joints:position",))}, fps=80, align="linear")
    made = import_dataset(source, tmp_path / "d", mapping=mapping)
    values = reel.open_dataset(made.path).read(range(made.frames))[STATE][:, 0]
    assert np.allclose(values, np.arange(made.frames) * 12.5)


def test_a_slow_camera_is_held_and_the_plan_says_how_often(tmp_path):
    source = write(tmp_path / "a.mcap", *run())
    plan = plan_of(source, fps=50)
    (episode,) = plan.episodes
    usage = episode.piece.usage()["/camera"]
    assert (episode.length, usage.held) == (46, 36)
    assert any("/camera 36 held" in line for line in plan.lines())


def test_a_pause_of_the_camera_cuts_the_episode(tmp_path):
    sent = [one for one in run(3000) if one.topic != "/camera" or not 1000 < _ms(one) < 2000]
    plan = plan_of(write(tmp_path / "a.mcap", *sent), fps=10, max_gap_ns=100 * MS)
    assert [(e.name, e.length) for e in plan.episodes] == [("a/0", 12), ("a/1", 11)]
    assert any("rows dropped" in note and "/camera" in note for note in plan.notes)


def test_double_and_late_messages_are_put_in_order(tmp_path):
    sent = [*run(500), joints(255, 777.0, stamp_ms=100), joints(256, 888.0, stamp_ms=100)]
    source = write(tmp_path / "a.mcap", *sent)
    plan = plan_of(source, fps=10, clock="header")
    assert any("came late" in note for note in plan.notes)
    assert any("have the time of another" in note for note in plan.notes)
    made = import_dataset(source, tmp_path / "d", changes=Changes(fps=10, clock="header"))
    # Of three messages stamped at 100 ms, the last one counts.
    values = reel.open_dataset(made.path).read(range(5))[STATE][:, 0]
    assert values.tolist() == [0.0, 888.0, 200.0, 300.0, 400.0]


def test_headers_that_ascend_count_and_others_do_not(tmp_path):
    early = [joints(t, float(t), stamp_ms=t - 50) for t in range(0, 1000, 10)]
    pictures = [camera(t, t // 100, stamp_ms=t) for t in range(0, 1000, 100)]
    mapping = ImportMap(
        {STATE: FeatureMap(("/joints:position",)), CAMERA: FeatureMap(("/camera",))}
    )
    source = write(tmp_path / "a.mcap", *early, *pictures)
    values = _states(tmp_path / "d", source, mapping, fps=10)
    assert values[:3] == [50.0, 150.0, 250.0]
    since_boot = [joints(t, float(t), stamp_ms=t - 10**9) for t in range(0, 1000, 10)]
    source = write(tmp_path / "b.mcap", *since_boot, *pictures)
    assert any("Times of the log" in note for note in plan_of(source, mapping, fps=10).notes)
    assert _states(tmp_path / "e", source, mapping, fps=10)[:3] == [0.0, 100.0, 200.0]


def test_a_stream_that_starts_late_begins_the_rows(tmp_path):
    sent = [one for one in run(4000) if one.topic != "/camera" or _ms(one) >= 2000]
    plan = plan_of(
        write(tmp_path / "a.mcap", *sent),
        ImportMap({STATE: FeatureMap(("/joints:position",)), CAMERA: FeatureMap(("/camera",))}),
        fps=10,
    )
    assert plan.episodes[0].length == 20
    assert any("/camera starts 2.00 s late" in note for note in plan.notes)


def test_a_clock_that_is_set_back_makes_two_episodes(tmp_path):
    before, after = list(run(1000, 5000)), list(run(500))
    source = write_mcap(tmp_path / "a.mcap", [*_sorted(before), *_sorted(after)])
    mapping = ImportMap(
        {STATE: FeatureMap(("/joints:position",)), CAMERA: FeatureMap(("/camera",))}
    )
    plan = plan_of(source, mapping, fps=10, clock="log")
    assert [e.length for e in plan.episodes] == [10, 5]


class TestEpisodes:
    def mapping(self, rule):
        features = {STATE: FeatureMap(("/joints:position",)), CAMERA: FeatureMap(("/camera",))}
        return ImportMap(features, fps=10, episodes=rule)

    def lengths(self, path, rule):
        return [episode.length for episode in plan_of(path, self.mapping(rule)).episodes]

    def test_a_signal_tells_when_one_is_under_way(self, tmp_path):
        flags = [flag(0, False), flag(1000, True), flag(1500, False), flag(2200, True)]
        source = write(tmp_path / "a.mcap", *run(3000), *flags)
        assert self.lengths(source, EpisodeRule("topic", active="/active")) == [5, 8]

    def test_messages_start_and_stop_them(self, tmp_path):
        marks = [word(500, "go"), word(1500, "go"), flag(1000, True), flag(2000, True)]
        source = write(tmp_path / "a.mcap", *run(3000), *marks)
        assert self.lengths(source, EpisodeRule("topic", start="/task")) == [10, 15]
        assert self.lengths(source, EpisodeRule("topic", start="/task", stop="/active")) == [5, 5]

    def test_a_pause_separates_them(self, tmp_path):
        source = write(tmp_path / "a.mcap", *run(1000), *run(1000, 5000))
        assert self.lengths(source, EpisodeRule("gap", gap_ns=10**9)) == [10, 10]

    def test_they_may_be_given_in_seconds(self, tmp_path):
        source = write(tmp_path / "a.mcap", *run(3000))
        assert self.lengths(source, EpisodeRule("times", times=((0.0, 0.5), (1.0, 2.0)))) == [5, 10]

    def test_a_topic_that_is_not_there_is_named(self, tmp_path):
        source = write(tmp_path / "a.mcap", *run(300))
        with pytest.raises(SourceError, match="no stream '/start'"):
            self.lengths(source, EpisodeRule("topic", start="/start"))


class TestPackets:
    def packets(self, tmp_path, count=20):
        images = [np.full((32, 48, 3), 10 * i, np.uint8) for i in range(count)]
        path = tmp_path / "v.mp4"
        encode_video(path, images, fps=10, encoding=Encoding("h264", keyframe_distance=5))
        pack = stream_packer(demux_packet_table(path).coding)
        assert pack is not None
        with av.open(str(path)) as container:
            packets = [p for p in container.demux(video=0) if p.size]
            return [pack(bytes(p), p.is_keyframe) for p in packets]

    def write(self, tmp_path, times):
        kind = "foxglove_msgs/msg/CompressedVideo"
        sent = [
            Sent("/video", kind, START_NS + t * MS, {"format": "h264", "data": data})
            for t, data in zip(times, self.packets(tmp_path), strict=True)
        ]
        return write(tmp_path / "a.mcap", *sent, *(joints(t, float(t)) for t in range(0, 2000, 10)))

    def test_consecutive_packets_from_a_keyframe_are_kept(self, tmp_path):
        source = self.write(tmp_path, range(0, 2000, 100))
        plan = plan_of(source, fps=10)
        camera = next(name for name in plan.features if "video" in name)
        assert plan.episodes[0].encoded_again == {}
        made = import_dataset(source, tmp_path / "d", changes=Changes(fps=10))
        dataset = reel.open_dataset(made.path)
        images = dataset.read(range(made.frames), reel.SampleSpec([camera], layout="hwc"))[camera]
        levels = images.reshape(made.frames, -1).mean(axis=1)
        assert np.abs(levels - 10 * np.arange(made.frames)).max() < 4
        check_is_clean(made.path)

    @pytest.mark.parametrize("fps", [5, 20])
    def test_others_are_encoded_again_and_show_the_same(self, tmp_path, fps):
        source = self.write(tmp_path, range(0, 2000, 100))
        plan = plan_of(source, fps=fps)
        camera = next(name for name in plan.features if "video" in name)
        assert plan.episodes[0].encoded_again == {camera: "rows repeat or skip packets"}
        made = import_dataset(source, tmp_path / "d", changes=Changes(fps=fps))
        dataset = reel.open_dataset(made.path)
        images = dataset.read(range(made.frames), reel.SampleSpec([camera], layout="hwc"))[camera]
        levels = images.reshape(made.frames, -1).mean(axis=1)
        shown = plan.episodes[0].piece.picked["/video"].first[: made.frames]
        assert np.abs(levels - 10 * shown).max() < 5
        check_is_clean(made.path)


def test_a_task_may_come_from_a_topic_and_change(tmp_path):
    source = write(tmp_path / "a.mcap", *run(), word(0, "reach"), word(450, "grasp"))
    mapping = ImportMap(
        {STATE: FeatureMap(("/joints:position",))}, fps=10, task=TaskRule(stream="/task:data")
    )
    made = import_dataset(source, tmp_path / "d", mapping=mapping)
    tasks = reel.open_dataset(made.path).read(range(10))["task"]
    assert list(tasks) == ["reach"] * 5 + ["grasp"] * 5


def _states(out, source, mapping, **changes):
    made = import_dataset(source, out, mapping=mapping, changes=Changes(**changes))
    return reel.open_dataset(made.path).read(range(made.frames))[STATE][:, 0].tolist()


def _ms(sent):
    return (sent.log_ns - START_NS) / MS


def _sorted(sent):
    return sorted(sent, key=lambda one: one.log_ns)


def test_the_rate_of_values_that_come_in_bursts_is_asked_for(tmp_path):
    bursts = [212 * burst + 0.139 * i for burst in range(120) for i in range(10)]
    path = write_mcap(tmp_path / "run.mcap", [joints(at, at) for at in bursts])
    with open_recording(path) as recording:
        with pytest.raises(SourceError, match=r"has 47\.\d+ values a second on average.*--fps"):
            plan_import(recording)
        changes = Changes(fps=20, max_gap_ns=200 * MS)
        plan = plan_import(recording, changed_map(recording, None, changes))
    assert plan.streams["/joints:position"]["rate_hz"] == pytest.approx(47, 0.05)
    assert plan.num_frames == pytest.approx(20 * 0.212 * 120, 0.02)
    assert len(plan.episodes) == 1


@pytest.mark.parametrize("lost", [[], range(20, 60, 5)])
def test_pauses_and_lost_values_do_not_make_a_stream_bursty(tmp_path, lost):
    times = [at for start in (0, 60_000) for at in np.arange(30) * 33.3 + start]
    kept = [at for i, at in enumerate(times) if i not in lost]
    with open_recording(write_mcap(tmp_path / "run.mcap", [joints(at, at) for at in kept])) as run:
        assert plan_import(run).fps == 30


def test_headers_that_are_half_a_frame_from_the_log_of_others_are_told(tmp_path):
    def said(late_ms):
        sent = [camera(t + late_ms, 0, stamp_ms=t) for t in range(0, 2000, 100)]
        source = write(
            tmp_path / f"{late_ms}.mcap", *sent, *(flag(t, True) for t in range(0, 2000, 50))
        )
        return [note for note in plan_of(source).notes if "more than half a frame" in note]

    assert said(40) == []
    assert "the headers of /camera are 400ms from the log" in said(400)[0]
    assert "/active:data goes by the log: --clock log" in said(400)[0]


def test_the_plan_tells_values_more_than_half_a_frame_from_their_row(tmp_path):
    sent = [one for t in range(0, 2000, 100) for one in (camera(t, 0), joints(t + 30, 0.0))]
    plan = plan_of(write(tmp_path / "a.mcap", *sent), align="previous", follow="/camera")
    assert any("/joints:position (gap 70 ms)" in line for line in plan.lines())
