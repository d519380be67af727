"""Episodes that are held and saved together are the same as episodes that are saved one by one."""

import os

import numpy as np
import pytest

import roboreel as reel
from roboreel.commit import Workshop
from roboreel.errors import FrameError, RecordingError
from roboreel.image import encode_png
from roboreel.record import EncodedImage, FileSizes
from tests.recordings import FPS, check_as_lerobot, check_dataset, features, record

LENGTHS = [3, 5, 1, 4]
SAID: list[dict[str, object]] = [
    {"success": True},
    {"operator": "ada"},
    {},
    {"success": False, "operator": "bo"},
]


def make(root, store, hold, **options):
    options.setdefault("encoding", reel.Encoding("h264"))  # AV1 of older PyAVs has no small images
    with reel.create_dataset(root, fps=FPS, features=features(store), **options) as recorder:
        for number, length in enumerate(LENGTHS):
            record(recorder, number, length)
            if hold and number < 3:
                recorder.hold_episode(metadata=SAID[number])
            else:
                recorder.save_episode(metadata=SAID[number])
    return reel.open_dataset(root)


@pytest.mark.parametrize("store", ["image", "video"])
def test_values_statistics_and_metadata_are_the_same(tmp_path, store):
    held = make(tmp_path / "held", store, hold=True)
    check_dataset(held.path, LENGTHS)
    check_as_lerobot(held.path)
    one_by_one = make(tmp_path / "saved", store, hold=False)
    assert [e.metadata for e in held.episodes] == [e.metadata for e in one_by_one.episodes]
    for file in ("meta/stats.json", "meta/info.json"):
        assert (held.path / file).read_bytes() == (one_by_one.path / file).read_bytes()
    assert not (Workshop(held.path).path / "held").exists()


def test_they_are_in_one_data_file_unless_that_outgrows_its_limit(tmp_path):
    whole = make(tmp_path / "one", "image", hold=True, compact_on_close=False)
    assert len(list((whole.path / "data").rglob("*.parquet"))) == 1
    small = FileSizes(data_mb=0.0006)
    parts = make(tmp_path / "more", "image", hold=True, compact_on_close=False, files=small)
    assert len(list((parts.path / "data").rglob("*.parquet"))) == 3
    check_dataset(parts.path, LENGTHS)


def test_closing_saves_them_and_counts_say_which_are_saved(tmp_path):
    with reel.create_dataset(tmp_path / "d", fps=FPS, features=features(None)) as recorder:
        record(recorder, 0, 3)
        recorder.hold_episode()
        assert (recorder.num_episodes, recorder.held_episodes) == (0, 1)
        record(recorder, 1, 2)
        recorder.hold_episode()
    check_dataset(tmp_path / "d", [3, 2])


def test_metadata_keeps_its_type_among_them(tmp_path):
    with reel.create_dataset(tmp_path / "d", fps=FPS, features=features(None)) as recorder:
        record(recorder, 0, 3)
        recorder.hold_episode(metadata={"attempt": 1})
        record(recorder, 1, 2)
        with pytest.raises(FrameError, match="holds integers"):
            recorder.hold_episode(metadata={"attempt": "two"})
        recorder.hold_episode(metadata={"attempt": 2})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_dead_process_leaves_what_was_saved_and_the_open_episode(tmp_path):
    child = os.fork()
    if child == 0:
        recorder = reel.create_dataset(tmp_path / "d", fps=FPS, features=features("image"))
        record(recorder, 0, 3)
        recorder.save_episode()
        for episode in (1, 2):
            record(recorder, episode, 2)
            recorder.hold_episode()
        os._exit(0)
    os.waitpid(child, 0)
    check_dataset(tmp_path / "d", [3])
    with reel.resume_dataset(tmp_path / "d") as recorder:
        assert not (Workshop(tmp_path / "d").path / "held").exists()
        record(recorder, 1, 4)
        recorder.save_episode()
    check_dataset(tmp_path / "d", [3, 4])


def test_an_error_says_that_held_episodes_are_lost(tmp_path, monkeypatch):
    def fill_disk(*_):
        raise OSError(28, "No space left on device")

    recorder = reel.create_dataset(tmp_path / "d", fps=FPS, features=features("image"))
    for episode in (0, 1):
        record(recorder, episode, 2)
        recorder.hold_episode()
    with monkeypatch.context() as patch:
        patch.setattr("roboreel.record.recorder.save_episodes", fill_disk)
        with pytest.raises(RecordingError, match="Saving 2 held episodes failed: No space"):
            recorder.save_held()
    recorder.close()
    with reel.resume_dataset(tmp_path / "d") as recorder:
        assert recorder.num_episodes == 0


def test_encoded_pictures_stay_as_they_are(tmp_path):
    import pyarrow.parquet as pq

    given = [encode_png(np.full((4, 6, 3), i, np.uint8)) for i in range(6)]
    declared = {"observation.image": reel.Feature("image", (4, 6, 3))}
    with reel.create_dataset(tmp_path / "d", fps=FPS, features=declared) as recorder:
        for i, data in enumerate(given):
            recorder.add_frame({"observation.image": EncodedImage(data)}, task="look")
            if i % 2:
                recorder.hold_episode()
    (file,) = (tmp_path / "d" / "data").rglob("*.parquet")
    cells = pq.read_table(file)["observation.image"].to_pylist()
    assert [cell["bytes"] for cell in cells] == given
