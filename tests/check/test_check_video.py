"""Videos checked by their packet tables: what is wrong is found, and nothing else."""

import json
import shutil

import av
import numpy as np
import pytest

from roboreel.check import check_dataset, video
from roboreel.errors import CorruptFileError
from roboreel.schema import Depth, Feature
from roboreel.video.encode import Encoding, encode_video
from tests.clean import (
    CAMERAS,
    FPS,
    FRONT,
    LENGTHS,
    VERSIONS,
    WRIST,
    clean_dataset,
    film,
    film_images,
    rows_of,
    shown,
)
from tests.corruptions import CORRUPTIONS
from tests.factory import SHARED, needs_shared, write_dataset
from tests.surgery import LFS_POINTER, Folder, copy_packets
from tests.video_factory import join_videos, write_video

VIDEO = ["RR305", "RR4"]
CASES = [
    (corruption, version)
    for corruption in CORRUPTIONS
    for version in corruption.versions
    if corruption.code.startswith(tuple(VIDEO))
]


def found(root, only=VIDEO, **options):
    return check_dataset(root, only=only, **options)


def codes(findings, least="warning"):
    return [one.code for one in findings.at_least(least)]


@pytest.mark.parametrize(("corruption", "version"), CASES, ids=lambda case: str(case))
def test_a_corruption_is_found_under_its_code_and_place(corruption, version, tmp_path):
    root = clean_dataset(tmp_path / "clean", version)
    place = corruption.apply(root)
    findings = found(root)
    assert any(one.code == corruption.code and place.is_named_by(one) for one in findings)
    assert set(codes(findings)) <= {corruption.code, *corruption.also}


@pytest.mark.parametrize("per_file", [1, 2, 6])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_dataset_has_nothing_but_a_note_on_the_index(version, per_file, tmp_path):
    findings = found(clean_dataset(tmp_path / "clean", version, episodes_per_file=per_file))
    assert codes(findings, "note") == ["RR411"]
    assert set(findings.checked) >= {"RR305", *(f"RR4{i:02d}" for i in range(1, 13))}


@needs_shared
@pytest.mark.parametrize(
    "name", [path.name for path in sorted(SHARED.glob("*"))] if SHARED.is_dir() else []
)
def test_what_lerobot_wrote_has_no_error_and_no_warning(name):
    assert codes(found(SHARED / name)) == []


@pytest.mark.parametrize(
    ("codec", "options"),
    [
        ("libx264", {"bframes": 2, "gop": 10}),
        ("libx264", {"bframes": 3, "gop": 12, "options": {"x264-params": "open-gop=1"}}),
        ("libx265", {"bframes": 2, "gop": 10}),
        ("libvpx-vp9", {"gop": 10}),
        ("libsvtav1", {"gop": 8}),
        ("libx264", {"gop": 1}),
        ("libx264", {"container_options": {"movflags": "frag_keyframe+empty_moov"}}),
    ],
)
def test_any_way_to_encode_is_clean(codec, options, tmp_path):
    root = clean_dataset(tmp_path / "clean", "v2.1")
    folder = Folder(root)
    for episode in range(len(LENGTHS)):
        numbers = shown(FRONT, rows_of(episode))
        write_video(root / folder.video(FRONT, episode), numbers, codec, **options)
    info = {**folder.info["features"][FRONT]["info"], "video.codec": codec}
    folder.edit_feature(FRONT, info=info)
    assert codes(found(root)) == []


def test_a_file_whose_clips_are_all_one_image_late_is_told_once(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", episodes_per_file=3))
    for episode in (3, 4, 5):
        folder.shift_clip(WRIST, episode, 1)
    findings = found(folder.root)
    (one,) = findings.errors
    assert str(one).startswith("All 3 clips of the video start 1 image (0.033 s) late:")
    assert (one.file, one.episode, one.feature) == (folder.video(WRIST, 4), None, WRIST)
    assert one.fixable


def test_a_clip_in_the_middle_that_is_one_image_early_is_told_with_its_rows(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", episodes_per_file=6))
    folder.shift_clip(FRONT, 2, -1)
    findings = found(folder.root)
    assert codes(findings) == ["RR404", "RR405"]
    shifted, overlap = findings.errors
    rows = rows_of(2)
    assert (shifted.episode, shifted.rows) == (2, (rows.start, rows.stop))
    assert str(overlap) == "The clips of episodes 1 and 2 overlap by 1 image."


def test_a_start_that_is_off_by_less_than_half_a_frame_is_a_warning(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", episodes_per_file=6))
    folder.shift_clip(FRONT, 2, 0.3)
    (one,) = found(folder.root).at_least("warning")
    assert (one.code, one.severity, one.episode) == ("RR404", "warning", 2)
    assert "10 ms" in str(one)


def test_an_image_lost_in_the_middle_of_a_file_is_told_by_its_episode(tmp_path):
    """Clips follow the video, in which episode 1 is an image short."""
    folder = Folder(clean_dataset(tmp_path / "clean", episodes_per_file=6))
    parts, starts = [], []
    for episode in range(6):
        numbers = shown(FRONT, rows_of(episode))
        parts.append(tmp_path / f"{episode}.mp4")
        film(parts[-1], FRONT, numbers[:-1] if episode == 1 else numbers)
    starts = join_videos_at(folder.root / folder.video(FRONT, 0), parts)
    for episode, (start, stop) in enumerate(zip(starts, [*starts[1:], None], strict=True)):
        times = {"from": start, "to": start + LENGTHS[episode] / FPS if stop is None else stop}
        folder.edit_episode(
            episode, **{f"videos/{FRONT}/{end}_timestamp": time for end, time in times.items()}
        )
    (one,) = found(folder.root).errors
    assert (one.code, one.episode) == ("RR402", 1)
    assert one.rows == (rows_of(1).stop - 1, rows_of(1).stop)
    assert str(one) == "Episode 1 has 12 frames, and its video has images for 11 of them."


def join_videos_at(path, parts):
    counts = []
    for part in parts:
        with av.open(str(part)) as container:
            counts.append(container.streams.video[0].frames)
    join_videos(path, parts)
    # The factory counts packets at 30 per second, as they are.
    return [start / FPS for start in np.cumsum([0, *counts[:-1]]).tolist()]


def test_three_videos_that_changed_places_in_a_circle_are_found(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    paths = [folder.root / folder.video(FRONT, episode) for episode in (1, 2, 3)]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)
    findings = found(folder.root)
    assert codes(findings) == ["RR410"] * 3
    assert [one.episode for one in findings.errors] == [1, 2, 3]
    assert "that of episode 2" in str(findings.errors[0])


def test_two_short_videos_are_not_taken_for_swapped(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    for episode in (1, 3):
        copy_packets(folder.root / folder.video(FRONT, episode), keep=lambda number: number < 9)
    assert codes(found(folder.root)) == ["RR402", "RR402"]


def test_two_cameras_whose_videos_are_all_exchanged_are_told_by_camera(tmp_path):
    root = clean_dataset(tmp_path / "clean", "v3.0")
    videos = root / "videos"
    (videos / FRONT).rename(videos / "aside")
    (videos / WRIST).rename(videos / FRONT)
    (videos / "aside").rename(videos / WRIST)
    findings = found(root)
    assert [(one.code, one.feature) for one in findings.errors] == [
        ("RR410", FRONT),
        ("RR410", WRIST),
    ]


def test_a_video_at_twice_the_rate_is_told_by_its_rate_alone(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    path = folder.root / folder.video(FRONT, 2)
    numbers = np.repeat(shown(FRONT, rows_of(2)), 2)
    write_video(path, numbers.tolist(), fps=60, size=(48, 64))
    (one,) = found(folder.root).at_least("warning")
    assert (one.code, one.file) == ("RR305", folder.video(FRONT, 2))
    assert "60 images per second, info.json says 30" in str(one)


@pytest.mark.parametrize("timestamps_pause", [False, True])
def test_a_camera_that_pauses_is_a_warning_unless_the_timestamps_pause_too(
    timestamps_pause, tmp_path
):
    folder = Folder(clean_dataset(tmp_path / "clean", "v3.0", episodes_per_file=1))
    pause(folder.root / folder.video(FRONT, 3), after=10, frames=3)
    folder.edit_episode(3, **{f"videos/{FRONT}/to_timestamp": (LENGTHS[3] + 3) / FPS})
    if timestamps_pause:
        times = [(i + 3 * (i >= 10)) / FPS for i in range(LENGTHS[3])]
        folder.edit_column(3, "timestamp", lambda _: times)
    expected = [] if timestamps_pause else [("RR305", "warning", 3)]
    findings = found(folder.root).at_least("warning")
    assert [(one.code, one.severity, one.episode) for one in findings] == expected


def test_ends_that_are_stored_wrongly_are_a_note_for_the_camera(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v3.0"))
    for episode, row in enumerate(folder.episode_rows()):
        end = row[f"videos/{FRONT}/to_timestamp"] - 1 / FPS
        folder.edit_episode(episode, **{f"videos/{FRONT}/to_timestamp": end})
    (note,) = [one for one in found(folder.root) if one.code == "RR404"]
    assert (note.severity, note.feature) == ("note", FRONT)
    assert "The stored end of 6 clips" in str(note)


def pause(path, *, after, frames):
    copy = path.with_suffix(".copy.mp4")
    with av.open(str(path)) as source, av.open(str(copy), "w") as out:
        video = source.streams.video[0]
        stream = out.add_stream_from_template(video, opaque=True)
        step = round(1 / (FPS * video.time_base))
        for number, packet in enumerate(p for p in source.demux(video) if p.size):
            if number >= after:
                packet.pts, packet.dts = packet.pts + frames * step, packet.dts + frames * step
            packet.stream = stream
            out.mux(packet)
    copy.replace(path)


def test_few_keyframes_are_a_note_for_the_camera(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v3.0", episodes_per_file=6))
    numbers = folder.numbers(FRONT, 0)
    write_video(folder.root / folder.video(FRONT, 0), numbers, gop=250)
    (note,) = [one for one in found(folder.root) if one.code == "RR408"]
    assert (note.severity, note.feature, note.fixable) == ("note", FRONT, False)


def test_a_depth_camera_needs_twelve_bits(tmp_path):
    depth = Feature("video", (48, 64, 1), depth=Depth())
    write_dataset(tmp_path, [6], features={"depth": depth})
    path = tmp_path / "videos/depth/chunk-000/file-000.mp4"
    path.parent.mkdir(parents=True)
    images = np.random.default_rng(0).uniform(0.1, 5, (6, 48, 64, 1)).astype(np.float32)
    encode_video(path, images, fps=30, encoding=Encoding("hevc", depth=Depth()))
    assert codes(found(tmp_path)) == []
    write_video(path, range(6), "libx265", gop=2)
    (one,) = found(tmp_path).errors
    assert one.code == "RR406"
    assert "12 bits; its videos have 8" in str(one)


def test_the_codec_may_be_named_by_its_encoder(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    info = folder.info["features"][FRONT]["info"]
    folder.edit_feature(FRONT, info={**info, "video.codec": "libx264"})
    assert codes(found(folder.root)) == []
    folder.edit_feature(FRONT, info={**info, "video.codec": "av1"})
    (one,) = found(folder.root).at_least("warning")
    assert (one.code, one.severity, one.file) == ("RR406", "warning", "meta/info.json")


@pytest.mark.parametrize("content", [None, LFS_POINTER.encode()])
def test_what_is_not_there_is_not_checked_rather_than_right(content, tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    path = folder.root / folder.video(FRONT, 2)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    findings = found(folder.root)
    assert codes(findings) == []
    assert findings.not_checked["RR402"] == "1 video of 12 cannot be read."
    assert "RR402" not in findings.checked


def test_a_damaged_index_through_which_all_images_are_found_is_a_warning(tmp_path, monkeypatch):
    def refuse(path):
        raise CorruptFileError(f"Nonsense. Video file: {str(path)!r}.")

    monkeypatch.setattr(video, "read_packet_table", refuse)
    findings = found(clean_dataset(tmp_path / "clean", "v2.1"), episodes=[2])
    assert {(one.code, one.severity, one.episode) for one in findings.at_least("warning")} == {
        ("RR401", "warning", 2)
    }
    assert str(findings[0]) == (
        "The video's index is damaged. Nonsense. FFmpeg still finds all images."
    )


def test_only_the_files_of_wanted_episodes_are_read(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    (folder.root / folder.video(FRONT, 2)).write_bytes(b"")
    assert codes(found(folder.root, episodes=[0, 1])) == []
    assert codes(found(folder.root, episodes=[2])) == ["RR401"]


def test_a_still_scene_is_no_frozen_feed(tmp_path):
    """All images of a camera are alike, and the robot moves: that is how it always looks."""
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    image = np.random.default_rng(0).integers(0, 255, (48, 96, 3), dtype=np.uint8)
    for episode, length in enumerate(LENGTHS):
        path = folder.root / folder.video(WRIST, episode)
        film_images(path, [image] * length, Encoding("av1"))
    (note,) = [one for one in found(folder.root) if one.code == "RR409"]
    assert (note.severity, note.episode, note.feature) == ("note", None, WRIST)
    assert "in 3 of 6 episodes" in str(note)


def test_a_feed_that_stands_still_with_the_robot_is_not_told(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    folder.refilm(WRIST, 3, lambda numbers: [numbers[0]] * len(numbers))
    assert "RR409" in codes(found(folder.root), "note")
    for name in ("observation.state", "action", "observation.pose"):
        folder.edit_column(3, name, lambda values: [values[0]] * len(values))
    assert "RR409" not in codes(found(folder.root), "note")


def test_progress_is_told_video_by_video(tmp_path):
    told = []
    root = clean_dataset(tmp_path / "clean", "v2.1")
    found(root, on_progress=lambda *what: told.append(what))
    videos = [done for what, done, total in told if what == "Videos" and total == 12]
    assert videos == list(range(13))


def test_a_dataset_without_video_has_nothing_to_check(tmp_path):
    root = clean_dataset(tmp_path / "clean", "v3.0", store="image")
    findings = found(root)
    assert not len(findings)
    assert "RR402" in findings.not_checked


def test_what_all_of_a_thousand_videos_have_is_told_once(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    lines = [{"episode_index": i, "tasks": ["pick the cube"], "length": 20} for i in range(500)]
    (folder.root / "meta/episodes.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    for camera in CAMERAS:
        first = folder.root / folder.video(camera, 0)
        for episode in range(1, 500):
            shutil.copy(first, first.with_name(f"episode_{episode:06d}.mp4"))
    assert codes(found(folder.root), "note") == ["RR411"]
