"""Recording: what goes in is what is read, and what does not fit stays out."""

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.commit import WORKSHOP
from roboreel.errors import (
    DatasetInUseError,
    EncodingError,
    FrameError,
    MetadataError,
    NotADatasetError,
    RecordingError,
    TooSlowError,
    UnsupportedVersionError,
)
from roboreel.format import write_manifest
from roboreel.record import RecordingOptions
from roboreel.record.cameras import Camera, Cameras, VideoFile
from roboreel.record.recover import recover_dataset
from roboreel.schema import Depth, Feature
from tests.clean import clean_dataset
from tests.factory import write_dataset, write_dataset_v2
from tests.recordings import (
    CAMERAS,
    FPS,
    NUMBERS,
    check_dataset,
    decoded,
    features,
    frame,
    record,
)
from tests.surgery import Folder

H264 = reel.Encoding("h264")


def create(root: Path, store: str | None = "image", **options: Any) -> reel.Recorder:
    if store == "video":
        options.setdefault("encoding", H264)
    return reel.create_dataset(root, fps=FPS, features=features(store), **options)


@pytest.mark.parametrize("store", [None, "image", "video"])
@pytest.mark.parametrize("compact", [True, False])
def test_what_is_recorded_is_what_is_read(tmp_path, store, compact):
    with create(tmp_path / "d", store, compact_on_close=compact) as recorder:
        for episode, length in enumerate([3, 1, 4]):
            record(recorder, episode, length)
            assert recorder.open_frames == length
            assert recorder.save_episode() == episode
            assert check_dataset(tmp_path / "d", [3, 1, 4][: episode + 1]).problems == ()
    dataset = check_dataset(tmp_path / "d", [3, 1, 4])
    assert dataset.problems == ()
    assert dataset.fps == FPS
    assert dict(dataset.tasks) == {0: "task 0", 1: "task 1"}
    assert [episode.tasks for episode in dataset.episodes] == [
        ("task 0",),
        ("task 1",),
        ("task 0",),
    ]


def test_videos_hold_an_image_for_every_frame(tmp_path):
    with create(tmp_path / "d", "video", compact_on_close=False) as recorder:
        for episode, length in enumerate([3, 5]):
            record(recorder, episode, length)
            recorder.save_episode()
    for place, camera in enumerate(CAMERAS):
        paths = sorted((tmp_path / "d" / "videos" / camera).glob("*/*.mp4"))
        for episode, (path, length) in enumerate(zip(paths, [3, 5], strict=True)):
            expected = [frame(episode, i)[camera][0, 0, 0] for i in range(length)]
            assert np.abs(np.subtract(decoded(path), expected)).max() <= 2, place


def test_depth_is_recorded_as_video_of_twelve_bits(tmp_path):
    wanted = {"depth": Feature("video", (16, 24, 1), depth=Depth(max_m=4.0))}
    with reel.create_dataset(tmp_path / "d", fps=FPS, features=wanted) as recorder:
        for i in range(4):
            recorder.add_frame({"depth": np.full((16, 24), 0.5 + i / 4, np.float32)}, task="look")
        recorder.save_episode()
    dataset = reel.open_dataset(tmp_path / "d")
    assert dataset.features["depth"].depth == Depth(max_m=4.0)
    # Of every three images one counts: 0.5 m and 1.25 m.
    assert dataset.stats["depth"].mean == pytest.approx(0.875)
    info = json.loads((tmp_path / "d" / "meta" / "info.json").read_text())
    assert info["features"]["depth"]["info"]["video.pix_fmt"] == "gray12le"


def test_a_dataset_without_episodes_is_a_dataset(tmp_path):
    create(tmp_path / "d").close()
    dataset = reel.open_dataset(tmp_path / "d")
    assert len(dataset) == len(dataset.episodes) == 0
    assert dataset.problems == ()
    with reel.resume_dataset(tmp_path / "d") as recorder:
        record(recorder, 0, 2)
        recorder.save_episode()
    check_dataset(tmp_path / "d", [2])


def test_cameras_without_any_video_yet_are_no_problem(tmp_path):
    create(tmp_path / "d", "video").close()
    assert check_dataset(tmp_path / "d", []).problems == ()


def test_a_discarded_episode_leaves_nothing(tmp_path):
    with create(tmp_path / "d", "video") as recorder:
        record(recorder, 7, 3)
        recorder.discard_episode()
        recorder.discard_episode()
        assert recorder.open_frames == 0
        record(recorder, 0, 2)
        recorder.save_episode()
    check_dataset(tmp_path / "d", [2])
    assert not (tmp_path / "d" / WORKSHOP / "open").exists()


def test_after_an_interrupted_discard_the_next_frame_is_the_first_of_an_episode(
    tmp_path, monkeypatch
):
    def interrupt(_):
        raise KeyboardInterrupt

    with create(tmp_path / "d", "image") as recorder:
        record(recorder, 7, 3)
        with monkeypatch.context() as patch:
            patch.setattr(Camera, "join", interrupt)
            with pytest.raises(KeyboardInterrupt):
                recorder.discard_episode()
        assert recorder.open_frames == 0  # Whoever counts by it does not leave out frames.
        record(recorder, 0, 2)
        assert recorder.open_frames == 2
        recorder.save_episode()
    check_dataset(tmp_path / "d", [2])


def test_an_open_episode_outlives_its_recorder(tmp_path):
    with create(tmp_path / "d", "video") as recorder:
        record(recorder, 0, 2)
        recorder.save_episode()
        record(recorder, 1, 3)
    check_dataset(tmp_path / "d", [2])
    with (
        pytest.warns(UserWarning, match="3 of them have all their images and became episode 1"),
        reel.resume_dataset(tmp_path / "d") as recorder,
    ):
        assert recorder.num_episodes == 2
    check_dataset(tmp_path / "d", [2, 3])


def test_an_array_may_be_used_again_at_once(tmp_path):
    image = np.zeros((16, 24, 3), np.uint8)
    wanted = {"camera": Feature("image", (16, 24, 3))}
    with reel.create_dataset(tmp_path / "d", fps=FPS, features=wanted) as recorder:
        for i in range(5):
            image[:] = i
            recorder.add_frame({"camera": image}, task="look")
        image[:] = 99
        recorder.save_episode()
    assert reel.open_dataset(tmp_path / "d").stats["camera"].max.max() < 5 / 255


class TestAtTheDoor:
    """A frame that does not fit is refused, and the episode is as it was before."""

    @pytest.fixture
    def recorder(self, tmp_path):
        with create(tmp_path / "d", "image") as recorder:
            record(recorder, 0, 2)
            yield recorder
            assert recorder.open_frames == 2
            record_rest = frame(0, 2)
            recorder.add_frame(record_rest, task="task 0")
            recorder.save_episode()
            check_dataset(tmp_path / "d", [3])

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"observation.state": None}, r"\['observation.state'\] missing"),
            ({"more": 1}, r"\['more'\] not declared"),
            ({"timestamp": 0.0}, "'timestamp' is not a value of a frame"),
            ({"task": "x"}, "Give it as task="),
            ({"observation.state": np.zeros(3)}, "dtype float64: float32 is declared"),
            ({"observation.state": np.zeros(4, np.float32)}, r"shape \(4,\): \(3,\) is declared"),
            ({"observation.state": np.array([0, np.nan, 0], np.float32)}, "holds NaN"),
            ({"action": np.full((2, 2), np.inf)}, "'action' holds NaN or infinity"),
            ({"note": 3}, "'note' has type int: a string is declared"),
            ({CAMERAS[0]: np.zeros((3, 16, 24), np.uint8)}, "Channels come last"),
            ({CAMERAS[0]: np.zeros((24, 16, 3), np.uint8)}, r"uint8 \(16, 24, 3\) is declared"),
            ({CAMERAS[0]: np.zeros((16, 24, 3))}, "Multiply by 255"),
            ({CAMERAS[1]: np.zeros((16, 24), np.uint8)}, CAMERAS[1]),
        ],
    )
    def test_a_value_that_does_not_fit_is_refused(self, recorder, changes, message):
        values = {**frame(0, 2), **changes}
        values = {name: value for name, value in values.items() if value is not None}
        with pytest.raises(FrameError, match=message):
            recorder.add_frame(values, task="task 0")

    @pytest.mark.parametrize("task", ["", None, 3])
    def test_a_frame_without_a_task_is_refused(self, recorder, task):
        with pytest.raises(FrameError, match="every frame needs one in words"):
            recorder.add_frame(frame(0, 2), task=task)

    def test_a_task_that_no_file_can_hold_is_refused(self, recorder):
        with pytest.raises(FrameError, match="half of a character"):
            recorder.add_frame(frame(0, 2), task="lift \ud800")


def test_nan_passes_where_it_is_allowed(tmp_path):
    wanted = {"x": Feature("float32", (1,))}
    with reel.create_dataset(
        tmp_path / "d", fps=FPS, features=wanted, nan_allowed=["x"]
    ) as recorder:
        recorder.add_frame({"x": np.nan}, task="t")
        recorder.add_frame({"x": 1.0}, task="t")
        recorder.save_episode()
    assert reel.open_dataset(tmp_path / "d").stats["x"].mean == pytest.approx(1.0)
    with pytest.raises(FrameError, match="'y', which is not a feature of numbers"):
        reel.resume_dataset(tmp_path / "d", nan_allowed=["y"])


def test_an_empty_episode_is_not_saved(tmp_path):
    with (
        create(tmp_path / "d") as recorder,
        pytest.raises(FrameError, match="add_frame comes first"),
    ):
        recorder.save_episode()
    check_dataset(tmp_path / "d", [])


def test_there_is_one_recorder_at_a_time(tmp_path):
    with create(tmp_path / "d"):
        with pytest.raises(DatasetInUseError):
            create(tmp_path / "d")
        with pytest.raises(DatasetInUseError):
            reel.resume_dataset(tmp_path / "d")
    reel.resume_dataset(tmp_path / "d").close()


def test_a_closed_recorder_says_so(tmp_path):
    recorder = create(tmp_path / "d")
    recorder.close()
    recorder.close()
    with pytest.raises(RecordingError, match="closed"):
        record(recorder, 0, 1)


def test_where_nothing_was_recorded_a_dataset_can_be_made_again(tmp_path):
    create(tmp_path / "d", None).close()
    with create(tmp_path / "d", "image") as recorder:
        record(recorder, 0, 2)
    for _ in range(2):  # An open episode, and then a saved one.
        with pytest.raises(RecordingError, match="resume_dataset"):
            create(tmp_path / "d")
        recover_dataset(tmp_path / "d")
    check_dataset(tmp_path / "d", [2])


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(RecordingError, match="choose a new folder"):
        create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"a/b": Feature("float32", (1,))}, MetadataError),
        ({".hidden": Feature("float32", (1,))}, MetadataError),
        ({"task": Feature("string", (1,))}, MetadataError),
        ({"x": {"dtype": "complex64", "shape": [1]}}, MetadataError),
        ({"x": Feature("language", (1,))}, MetadataError),
        ({"x": Feature("video", (15, 24, 3))}, EncodingError),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_anything_is_made(tmp_path, wanted, error):
    with pytest.raises(error):
        reel.create_dataset(tmp_path / "d", fps=FPS, features=wanted, encoding=H264)
    assert not (tmp_path / "d").exists()


def test_features_may_be_written_as_lerobot_writes_them(tmp_path):
    entries: dict[str, dict[str, Any]] = {
        "action": {"dtype": "float32", "shape": (2,), "names": ["a", "b"]},
        "camera": {
            "dtype": "video",
            "shape": (16, 24, 3),
            "names": ["height", "width", "channels"],
        },
    }
    with reel.create_dataset(tmp_path / "d", fps=FPS, features=entries, store="image") as recorder:
        assert recorder.features["action"] == Feature("float32", (2,), names=("a", "b"))
        assert recorder.features["camera"].dtype == "image"


class TestOptions:
    """How to record is one value, whose fields are keywords too."""

    def test_keywords_stand_in_place_of_the_fields_of_a_value(self, tmp_path):
        options = RecordingOptions(queue_s=2.0, max_wait_s=3.0, compact_on_close=False)
        with create(tmp_path / "d", options=options, max_wait_s=4.0) as recorder:
            expected = RecordingOptions(queue_s=2.0, max_wait_s=4.0, compact_on_close=False)
            assert recorder._settings.options == expected
        with reel.resume_dataset(tmp_path / "d", options=options) as recorder:
            assert recorder._settings.options == options
        with reel.resume_dataset(tmp_path / "d") as recorder:
            assert recorder._settings.options == RecordingOptions()

    def test_a_keyword_that_is_none_of_them_is_an_error(self, tmp_path):
        with pytest.raises(TypeError, match="queue_seconds"):
            create(tmp_path / "d", queue_seconds=3)
        assert not (tmp_path / "d").exists()

    @pytest.mark.parametrize(
        ("keywords", "message"),
        [
            ({"queue_s": -1}, "queue_s is -1"),
            ({"max_wait_s": float("inf")}, "max_wait_s is inf"),
            ({"max_wait_s": float("nan")}, "max_wait_s is nan"),
            ({"nan_allowed": "action"}, r"give a list of features, \['action'\]"),
        ],
    )
    def test_what_is_out_of_range_is_refused_before_anything_is_made(
        self, tmp_path, keywords, message
    ):
        with pytest.raises(RecordingError, match=message):
            create(tmp_path / "d", **keywords)
        assert not (tmp_path / "d").exists()

    @pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
    def test_a_rate_that_is_none_is_refused(self, tmp_path, fps):
        with pytest.raises(MetadataError, match="give frames per second"):
            reel.create_dataset(tmp_path / "d", fps=fps, features=features(None))
        assert not (tmp_path / "d").exists()


class TestResuming:
    def test_other_rates_and_features_are_refused(self, tmp_path):
        create(tmp_path / "d").close()
        root = tmp_path / "d"
        with pytest.raises(RecordingError, match="20 fps were asked for: there are 10"):
            reel.resume_dataset(root, fps=20)
        less = {name: f for name, f in features().items() if name != "note"}
        with pytest.raises(RecordingError, match="'note' is in the dataset, not in features"):
            reel.resume_dataset(root, features=less)
        with pytest.raises(RecordingError, match="'more' is not in the dataset"):
            reel.resume_dataset(root, features={**features(), "more": Feature("bool", (1,))})
        with pytest.raises(RecordingError, match="'action' is float64"):
            reel.resume_dataset(root, features={**features(), "action": Feature("float32", (7,))})
        reel.resume_dataset(root, fps=FPS, features=features()).close()

    def test_other_versions_are_refused(self, tmp_path):
        write_dataset_v2(tmp_path / "d", [3])
        with pytest.raises(UnsupportedVersionError, match=r"Only v3\.0 is recorded"):
            reel.resume_dataset(tmp_path / "d")

    def test_gaps_between_episode_numbers_are_refused(self, tmp_path):
        manifest = write_dataset(tmp_path / "d", [2, 2, 2])
        number = np.array([0, 1, 5])
        write_manifest(replace(manifest, episodes=replace(manifest.episodes, number=number)))
        with pytest.raises(RecordingError, match="not numbered 0 to 2"):
            reel.resume_dataset(tmp_path / "d")

    def test_what_is_no_dataset_is_left_alone(self, tmp_path):
        with pytest.raises(NotADatasetError):
            reel.resume_dataset(tmp_path)
        assert not any(tmp_path.iterdir())

    def test_the_codec_stays(self, tmp_path):
        create(tmp_path / "d", "video").close()
        with reel.resume_dataset(tmp_path / "d") as recorder:
            assert recorder._settings.encodings[CAMERAS[0]].codec == "h264"


class TestStatistics:
    def test_one_number_has_lists_of_one_as_lerobot_needs_to_record_on(self, tmp_path):
        with create(tmp_path / "d", None) as recorder:
            record(recorder, 0, 3)
            recorder.save_episode()
        stats = json.loads((tmp_path / "d/meta/stats.json").read_text())
        assert stats["frame_index"]["max"] == [2.0]
        (table,) = (tmp_path / "d/meta/episodes").rglob("*.parquet")
        assert pq.read_table(table)["stats/frame_index/q50"].to_pylist() == [[1.0]]

    @pytest.mark.parametrize("sessions", [[4], [1, 1, 2], [2, 2]])
    def test_totals_are_those_of_all_values_however_often_recording_broke_off(
        self, tmp_path, sessions
    ):
        root, episode = tmp_path / "d", 0
        for number, count in enumerate(sessions):
            recorder = create(root, "video") if number == 0 else reel.resume_dataset(root)
            for _ in range(count):
                record(recorder, episode, 6 + episode)
                recorder.save_episode()
                episode += 1
            if number % 2:  # leave without remembering the numbers
                recorder._failed = True
            recorder.close()
        pairs = [(e, i) for e in range(4) for i in range(6 + e)]
        states = np.array([frame(e, i)["observation.state"] for e, i in pairs], np.float64)
        stats = reel.open_dataset(root).stats["observation.state"]
        np.testing.assert_allclose(stats.mean, states.mean(axis=0))
        np.testing.assert_allclose(stats.std, states.std(axis=0))
        np.testing.assert_allclose(stats.quantiles["q90"], np.quantile(states, 0.9, axis=0))
        assert stats.count.tolist() == [len(pairs)] * 3
        # Every third image counts, from the first of each episode on.
        greys = [frame(e, i)[CAMERAS[0]][0, 0, 0] for e, i in pairs if i % 3 == 0]
        camera = reel.open_dataset(root).stats[CAMERAS[0]]
        np.testing.assert_allclose(camera.mean.ravel(), np.mean(greys) / 255)
        np.testing.assert_allclose(camera.quantiles["q50"].ravel(), np.median(greys) / 255)

    def test_what_was_remembered_and_does_not_fit_is_not_believed(self, tmp_path):
        with create(tmp_path / "d") as recorder:
            record(recorder, 0, 5)
            recorder.save_episode()
        expected = reel.open_dataset(tmp_path / "d").stats["observation.state"].max
        for name in ("numbers", "cameras"):
            (tmp_path / "d" / WORKSHOP / f"{name}.npz").write_bytes(b"PK noise")
        with reel.resume_dataset(tmp_path / "d") as recorder:
            record(recorder, 0, 1)
            recorder.save_episode()
        stats = reel.open_dataset(tmp_path / "d").stats
        np.testing.assert_array_equal(stats["observation.state"].max, expected)
        assert stats[CAMERAS[0]].count.max() == 3  # two of the first episode, one of the second


class SlowFile:
    """Takes an image only when told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.go = threading.Event()
        self.images: list[int] = []

    def write(self, image: Any) -> None:
        self.go.wait()
        self.images.append(int(image[0, 0, 0]))

    def finish(self) -> int:
        return len(self.images)


def camera_of(store: SlowFile) -> Camera:
    return Camera("front", Feature("video", (2, 2, 3)), store, capacity=3, sample_every=1)


def put(cameras: Cameras, number: int) -> None:
    cameras.wait_for_room(number)
    cameras.put(number, {"front": np.full((2, 2, 3), number, np.uint8)})


class TestBackPressure:
    def test_a_slow_camera_is_waited_for_and_drops_nothing(self, tmp_path):
        store = SlowFile(tmp_path / "x")
        cameras = Cameras({"front": camera_of(store)}, max_wait_s=60)
        for number in range(3):
            put(cameras, number)
        threading.Timer(0.05, store.go.set).start()
        for number in range(3, 10):
            put(cameras, number)
        assert cameras.finish()["front"].count == 10
        assert store.images == list(range(10))

    def test_a_camera_that_stays_behind_raises_with_the_rates(self, tmp_path):
        store, quick = SlowFile(tmp_path / "x"), SlowFile(tmp_path / "y")
        quick.go.set()
        behind, ahead = camera_of(store), camera_of(quick)
        cameras = Cameras({"quick": ahead, "front": behind}, max_wait_s=0.01)
        images = {name: np.zeros((2, 2, 3), np.uint8) for name in ("quick", "front")}
        for number in range(3):
            cameras.wait_for_room(number)
            cameras.put(number, images)
        for _ in range(5):  # again and again: the quick one keeps its place each time
            with pytest.raises(
                TooSlowError, match=r"images/s came from 'front', 0\.0/s were stored"
            ):
                cameras.wait_for_room(3)
        store.go.set()
        finished = cameras.finish()
        assert finished["quick"].count == finished["front"].count == 3

    def test_an_encoder_that_fails_says_so_and_the_next_episode_is_fine(
        self, tmp_path, monkeypatch
    ):
        with create(tmp_path / "d", "video") as recorder:
            record(recorder, 0, 2)
            recorder.save_episode()
            with monkeypatch.context() as patched:
                patched.setattr(VideoFile, "write", _fail)
                record(recorder, 1, 1)
                with pytest.raises(RecordingError, match="the lens fell off"):
                    recorder.save_episode()
                recorder.discard_episode()
            record(recorder, 1, 2)
            recorder.save_episode()
        check_dataset(tmp_path / "d", [2, 2])

    def test_a_camera_that_failed_is_told_of_when_its_episode_is_left_open(
        self, tmp_path, monkeypatch
    ):
        recorder = create(tmp_path / "d", "video")
        with monkeypatch.context() as patched:
            patched.setattr(VideoFile, "write", _fail)
            record(recorder, 0, 1)
            with pytest.warns(UserWarning, match="lacks images.*the lens fell off"):
                recorder.close()
        with (
            pytest.warns(UserWarning, match="None of them could be kept|1 frames lack an image"),
            reel.resume_dataset(tmp_path / "d") as recorder,
        ):
            assert recorder.num_episodes == 0


def _fail(store: VideoFile, image: Any) -> None:
    raise EncodingError("the lens fell off.")


def test_when_saving_fails_the_episode_can_be_recovered(tmp_path, monkeypatch):
    recorder = create(tmp_path / "d")
    record(recorder, 0, 2)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(RecordingError, match="Saving episode 0 failed: full"):
            recorder.save_episode()
    with pytest.raises(RecordingError, match=r"0 episodes are saved for certain.*resume_dataset"):
        record(recorder, 1, 1)
    recorder.close()
    with (
        pytest.warns(UserWarning, match="became episode 0"),
        reel.resume_dataset(tmp_path / "d") as recorder,
    ):
        assert recorder.num_episodes == 1
    check_dataset(tmp_path / "d", [2])


def test_an_episode_without_cameras_needs_no_thread(tmp_path):
    with create(tmp_path / "d", None) as recorder:
        threads = threading.active_count()
        record(recorder, 0, 3)
        assert threading.active_count() == threads
        recorder.save_episode()
    assert set(NUMBERS) < set(reel.open_dataset(tmp_path / "d").features)


def test_video_of_one_colour_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(MetadataError, match=r"three colours, not the 1 of shape \(8, 8, 1\)"):
        reel.create_dataset(
            tmp_path / "d", fps=10, features={"grey": reel.Feature("video", (8, 8, 1))}
        )
    assert not (tmp_path / "d").exists()


def test_a_dataset_without_names_for_new_files_is_not_recorded_into(tmp_path):
    root = clean_dataset(tmp_path / "arm", "v3.0", episodes_per_file=1)
    Folder(root).edit_info(data_path="data/chunk-000/file-{episode_index:03d}.parquet")
    assert len(reel.open_dataset(root)) > 0
    with pytest.raises(UnsupportedVersionError, match="no place for new files"):
        reel.resume_dataset(root)


def test_a_camera_without_names_of_its_axes_gets_those_that_lerobot_looks_for(tmp_path):
    features = {"observation.images.front": reel.Feature("image", (4, 6, 3))}
    with reel.create_dataset(tmp_path / "d", fps=10, features=features) as recorder:
        recorder.add_frame({"observation.images.front": np.zeros((4, 6, 3), np.uint8)}, task="look")
        recorder.save_episode()
    info = json.loads((tmp_path / "d" / "meta" / "info.json").read_text())
    names = info["features"]["observation.images.front"]["names"]
    assert names == ["height", "width", "channels"]
