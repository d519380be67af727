"""Images decoded and looked at: damage, frozen cameras, black and blurred images, statistics."""

import json

import imagecodecs
import numpy as np
import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.check.image_watch import ImageWatch
from roboreel.check.pixel_summary import differences, join_summaries, summarize_pixels
from roboreel.check.still_packets import runs_of
from roboreel.schema import Feature
from roboreel.stats import ImageAccumulator
from roboreel.video.encode import Encoding
from tests.clean import FRONT, LENGTHS, VERSIONS, WRIST, clean_dataset, film_images, rows_of, shown
from tests.corruptions import CORRUPTIONS
from tests.factory import SHARED, needs_shared
from tests.surgery import Folder
from tests.video_factory import numbered_image

DEEP = ["RR61", "RR501", "RR505", "RR506"]
CASES = [
    (corruption, version)
    for corruption in CORRUPTIONS
    for version in corruption.versions
    if corruption.code.startswith("RR61")
]
RNG = np.random.default_rng(0)


def found(root, only=DEEP, **options):
    return check_dataset(root, tier="deep", only=only, **options)


def codes(findings, least="warning"):
    return [one.code for one in findings.at_least(least)]


@pytest.mark.parametrize(("corruption", "version"), CASES, ids=lambda case: str(case))
def test_a_corruption_is_found_under_its_code_and_place(corruption, version, tmp_path):
    root = clean_dataset(tmp_path / "clean", version)
    place = corruption.apply(root)
    findings = found(root)
    assert any(one.code == corruption.code and place.is_named_by(one) for one in findings)
    assert set(codes(findings)) <= {corruption.code, *corruption.also}


@pytest.mark.parametrize("store", ["video", "image"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_dataset_has_nothing(version, store, tmp_path):
    findings = found(clean_dataset(tmp_path / "clean", version, store=store))
    assert codes(findings, "note") == []
    assert set(findings.checked) >= {"RR610", "RR611", "RR612", "RR613"}


@needs_shared
@pytest.mark.parametrize(
    "name", [path.name for path in sorted(SHARED.glob("lerobot*"))] if SHARED.is_dir() else []
)
def test_what_lerobot_wrote_has_no_error_and_no_warning(name):
    findings = found(SHARED / name)
    assert codes(findings) == []
    assert set(codes(findings, "note")) <= {"RR505"}


@needs_shared
def test_a_real_robot_has_nothing_but_the_old_numbers_of_its_episodes():
    findings = found(SHARED / "unitree_g1_v21", episodes=[2])
    assert codes(findings) == []
    # These episodes were taken out of a longer dataset, with its statistics.
    (note,) = findings.at_least("note")
    assert note.message.startswith("Episode 2, 'episode_index': min is 4 in the metadata and 2 in")


def record(root, image, lengths, store="video", codec="av1"):
    features = {
        "observation.state": Feature("float32", (3,)),
        "action": Feature("float32", (2,)),
        "camera": Feature(store, (48, 64, 3)),
    }
    with reel.create_dataset(root, fps=30, features=features, encoding=Encoding(codec)) as recorder:
        for episode, length in enumerate(lengths):
            for i in range(length):
                values = {
                    "observation.state": RNG.normal(size=3).astype(np.float32),
                    "action": RNG.normal(size=2).astype(np.float32),
                    "camera": image(episode, i),
                }
                recorder.add_frame(values, task="move")
            recorder.save_episode()
    return root


def noise(*_):
    return RNG.integers(0, 256, (48, 64, 3), dtype=np.uint8)


STILL = noise()


def hardly_moves(_, i):
    image = np.full((48, 64, 3), 90, np.uint8)
    image[20:24, i % 60 : i % 60 + 4] = 200
    return image


@pytest.mark.parametrize("episodes", [1, 2, 5])
@pytest.mark.parametrize(
    ("name", "image"),
    [("still", lambda *_: STILL), ("noise", noise), ("hardly moves", hardly_moves)],
)
def test_what_our_recorder_writes_has_no_error_and_no_warning(name, image, episodes, tmp_path):
    root = record(tmp_path / "recorded", image, [24] * episodes)
    assert codes(check_dataset(root, tier="deep")) == []


@pytest.mark.parametrize("codec", ["av1", "hevc"])
def test_a_frozen_camera_among_live_episodes_is_a_warning(codec, tmp_path):
    def image(episode, i):
        return STILL if episode == 3 else noise()

    root = record(tmp_path / "recorded", image, [20] * 6, codec=codec)
    (one,) = found(root).at_least("warning")
    assert (one.code, one.severity, one.episode) == ("RR611", "warning", 3)
    assert "of episode 3 while numbers change." in str(one)
    assert one.rows is not None
    assert one.rows[1] in (79, 80)  # Some versions of SVT-AV1 change the last image.


def test_frozen_pictures_are_a_warning(tmp_path):
    root = record(
        tmp_path / "recorded", lambda e, i: STILL if e == 1 else noise(), [20] * 3, store="image"
    )
    (one,) = found(root).at_least("warning")
    assert (one.code, one.severity, one.rows) == ("RR611", "warning", (20, 40))
    assert one.file == "data/chunk-000/file-000.parquet"


def test_a_broken_picture_is_told_with_its_row(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1", store="image"))
    folder.edit_column(3, FRONT, break_pictures)
    (one,) = found(folder.root, only=["RR610"])
    start = rows_of(3).start
    assert (one.episode, one.feature, one.rows) == (3, FRONT, (start + 4, start + 8))
    assert one.file == folder.data(3)
    assert str(one).startswith("2 images of episode 3 cannot be decoded, from frame 4 on.")


def break_pictures(pictures):
    for place in (4, 7):
        pictures[place] = {**pictures[place], "bytes": pictures[place]["bytes"][:60]}
    return pictures


def test_a_picture_that_is_null_does_not_hide_the_others(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1", store="image"))
    folder.edit_column(3, FRONT, lambda pictures: [None, *break_pictures(pictures)[1:]])
    (one,) = found(folder.root, only=["RR610"])
    assert one.rows == (rows_of(3).start, rows_of(3).start + 8)
    assert str(one).startswith("3 images of episode 3 cannot be decoded, from frame 0 on.")


def test_decoding_goes_on_at_the_next_keyframe(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    damage = next(one for one in CORRUPTIONS if one.name == "undecodable-images")
    damage.apply(folder.root)
    (one,) = found(folder.root, only=["RR610"])
    start = rows_of(3).start
    assert one.rows == (start + 18, start + 22)
    assert one.file == folder.video(WRIST, 3)


def test_images_of_a_missing_file_are_not_checked(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    (folder.root / folder.video(WRIST, 3)).unlink()
    findings = found(folder.root, only=["RR610"])
    assert not len(findings)
    assert WRIST in findings.not_checked["RR610"]


def test_black_episodes_are_told_one_by_one_unless_they_are_common(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    darken(folder, [3])
    assert [(one.code, one.episode) for one in found(folder.root, only=["RR612"])] == [("RR612", 3)]
    darken(folder, range(6))
    (one,) = found(folder.root, only=["RR612"])
    assert (one.severity, one.episode, one.feature) == ("note", None, WRIST)


def darken(folder, episodes):
    for episode in episodes:
        images = [np.zeros((48, 96, 3), np.uint8)] * LENGTHS[episode]
        film_images(folder.root / folder.video(WRIST, episode), images)


@pytest.mark.parametrize("version", ["v2.0", "v3.0"])
def test_wrong_statistics_of_a_camera_are_an_error(version, tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", version))
    folder.edit_stats(FRONT, mean=[[[100.0]], [[110.0]], [[110.0]]])
    (one,) = found(folder.root).errors
    assert (one.code, one.file, one.feature) == ("RR501", "meta/stats.json", FRONT)
    assert "mean is 100 in the metadata" in str(one)


def test_statistics_that_count_to_255_are_told_so(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.0"))
    stats = json.loads((folder.root / "meta/stats.json").read_text())[FRONT]
    folder.edit_stats(FRONT, mean=(255 * np.array(stats["mean"])).tolist())
    (one,) = found(folder.root).errors
    assert "from 0 to 255 instead of 0 to 1" in str(one)


def test_wrong_statistics_of_an_episode_are_an_error_where_there_are_no_others(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1"))
    folder.edit_episode_stats(2, WRIST, mean=[[[0.0]], [[0.5]], [[0.5]]])
    (one,) = found(folder.root).errors
    assert (one.code, one.episode, one.file) == ("RR506", 2, "meta/episodes_stats.jsonl")


def test_statistics_are_not_compared_when_only_some_episodes_are_seen(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.0"))
    folder.edit_stats(FRONT, mean=[[[100.0]], [[110.0]], [[110.0]]])
    assert codes(found(folder.root, episodes=[1])) == []


def test_the_overflow_of_lerobot_is_a_note_that_names_it(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.0"))
    parts = []
    for episode in range(len(LENGTHS)):
        images = [numbered_image(n, 48, 64) for n in shown(FRONT, rows_of(episode))]
        parts.append(summary_of(np.stack(images)))
    overflown = join_summaries(parts).overflown
    folder.edit_stats(FRONT, std=overflown.reshape(3, 1, 1).tolist())
    (one,) = [one for one in found(folder.root, only=["RR501", "RR505"]) if one.feature == FRONT]
    assert (one.code, one.severity) == ("RR505", "note")
    assert "LeRobot 0.4.0 to 0.5.1" in str(one)


def summary_of(images):
    counted = ImageAccumulator(3)
    counted.update(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    return summarize_pixels(counted)


def test_an_overflown_deviation_is_what_numpy_makes_of_squared_bytes():
    images = RNG.integers(0, 30, (5, 8, 8, 3), dtype=np.uint8)
    flat = images.reshape(-1, 3)
    variance = (flat**2).mean(axis=0) - flat.mean(axis=0) ** 2
    expected = np.sqrt(variance.clip(0)) / 255
    assert summary_of(images).overflown == pytest.approx(expected)


def test_joined_summaries_are_those_of_all_images():
    first, second = noise()[None], np.stack([noise() // 2, noise() // 3])
    joined, whole = (
        join_summaries([summary_of(first), summary_of(second)]),
        summary_of(np.concatenate([first, second])),
    )
    assert joined.mean == pytest.approx(whole.mean)
    assert joined.std == pytest.approx(whole.std)


def test_statistics_of_another_shape_are_told():
    true = summary_of(noise()[None])
    assert differences(np.zeros(1), np.ones(1), true).problem == "there are 1 means for 3 channels"
    assert differences(true.mean, true.std, true).problem is None


def test_a_watch_finds_runs_of_equal_and_of_similar_images():
    watch = ImageWatch(least=5)
    images = [noise() for _ in range(4)]
    images += [STILL] * 6 + [np.clip(STILL.astype(int) + 1, 0, 255).astype(np.uint8)] * 6
    for frame, image in enumerate(images):
        watch.add(frame, image.transpose(2, 0, 1), is_independent=frame % 2 == 0)
    watch.finish()
    assert [(run.start, run.stop, run.codings) for run in watch.same] == [(4, 10, 3), (10, 16, 3)]
    assert [(run.start, run.stop) for run in watch.still] == [(4, 16)]
    assert 0 < watch.still[0].change <= 1


def test_a_gap_between_frames_ends_a_run():
    watch = ImageWatch(least=3)
    for frame in (0, 1, 2, 8, 9, 10):
        watch.add(frame, STILL.transpose(2, 0, 1), is_independent=True)
    watch.finish()
    assert [(run.start, run.stop) for run in watch.same] == [(0, 3), (8, 11)]


def test_distances_are_only_compared_bit_by_bit():
    watch = ImageWatch(least=2, is_depth=True)
    near = RNG.uniform(0, 5, (1, 8, 8)).astype(np.float32)
    for frame, image in enumerate([near, near, near + 1e-3]):
        watch.add(frame, image, is_independent=True)
    watch.finish()
    assert [(run.start, run.stop) for run in watch.same] == [(0, 2)]
    assert [*watch.still, *watch.black, *watch.sharpness] == []


def test_sharp_images_are_sharper_than_smooth_ones(tmp_path):
    watch = ImageWatch(least=5)
    smooth = np.linspace(0, 200, 64)[None, :, None] * np.ones((48, 1, 3))
    for frame, image in enumerate([noise(), smooth.astype(np.uint8)]):
        watch.add(frame, image.transpose(2, 0, 1), is_independent=True)
    assert watch.sharpness[0] > watch.sharpness[1] + 60


def test_runs_are_found_at_both_ends():
    flags = np.array([True, True, False, True, False, True, True])
    assert runs_of(flags, 2) == [(0, 2), (5, 7)]
    assert runs_of(flags[:0], 1) == []


def test_a_grey_picture_is_looked_at_and_not_counted(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "clean", "v2.1", store="image"))
    grey = bytes(imagecodecs.png_encode(np.ascontiguousarray(noise()[..., 0])))
    folder.edit_column(3, FRONT, lambda pictures: [{"bytes": grey, "path": None} for _ in pictures])
    assert [(one.code, one.episode) for one in found(folder.root, only=["RR611"])] == [("RR611", 3)]
