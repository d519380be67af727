"""Recovery: what can be used becomes an episode, the rest is set aside."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import roboreel as reel
from roboreel.cli import app
from roboreel.commit import WORKSHOP
from roboreel.errors import DatasetInUseError, NotADatasetError, RecordingError
from roboreel.record.recover import recover_dataset
from tests.factory import write_dataset
from tests.recordings import CAMERAS, FPS, check_dataset, decoded, features, record


def leave_open(root: Path, store: str | None = "video", saved: int = 1, frames: int = 6) -> Path:
    """Save some episodes and leave another one open."""
    encoding = reel.Encoding("h264") if store == "video" else None
    with reel.create_dataset(
        root, fps=FPS, features=features(store), encoding=encoding, compact_on_close=False
    ) as recorder:
        for episode in range(saved):
            record(recorder, episode, 2)
            recorder.save_episode()
        record(recorder, saved, frames)
    return root / WORKSHOP / "open"


def cut(path: Path, size_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:size_bytes])


def test_a_sound_dataset_needs_nothing(tmp_path):
    write_dataset(tmp_path / "d", [3, 4])
    found = recover_dataset(tmp_path / "d")
    assert (found.saved_episodes, found.found_frames, found.kept_frames) == (2, 0, 0)
    assert not found.finished
    assert found.set_aside == ()


@pytest.mark.parametrize("store", ["image", "video", None])
def test_an_open_episode_becomes_one(tmp_path, store):
    leave_open(tmp_path / "d", store)
    plan = recover_dataset(tmp_path / "d", dry_run=True)
    check_dataset(tmp_path / "d", [2])
    done = recover_dataset(tmp_path / "d")
    assert plan == done
    assert (done.found_frames, done.kept_frames, done.set_aside) == (6, 6, ())
    assert check_dataset(tmp_path / "d", [2, 6]).problems == ()
    assert not (tmp_path / "d" / WORKSHOP / "open").exists()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.99])
def test_a_video_cut_anywhere_gives_its_whole_fragments(tmp_path, share):
    folder = leave_open(tmp_path / "d", frames=9)
    video = next(folder.glob("*.mp4"))
    cut(video, int(video.stat().st_size * share))
    done = recover_dataset(tmp_path / "d")
    assert done.found_frames == 9
    assert done.kept_frames <= 9
    lost = done.kept_frames < 9
    assert done.set_aside == ((f"{WORKSHOP}/open",) if lost else ())
    assert len(list((tmp_path / "d" / WORKSHOP / "aside").rglob("rows.journal"))) == lost
    lengths = [2, done.kept_frames] if done.kept_frames else [2]
    check_dataset(tmp_path / "d", lengths)
    if done.kept_frames:
        for place, camera in enumerate(CAMERAS):
            path = sorted((tmp_path / "d" / "videos" / camera).rglob("*.mp4"))[1]
            wanted = [((100 + i) * 8 + place * 100) % 240 for i in range(done.kept_frames)]
            assert np.abs(np.subtract(decoded(path), wanted)).max() <= 2


def test_rows_without_images_are_set_aside(tmp_path):
    folder = leave_open(tmp_path / "d", "image")
    pictures = next(folder.glob("*.pictures"))
    cut(pictures, pictures.stat().st_size - 5)
    done = recover_dataset(tmp_path / "d")
    assert (done.found_frames, done.kept_frames) == (6, 5)
    assert done.set_aside
    check_dataset(tmp_path / "d", [2, 5])


def test_a_journal_of_other_features_is_set_aside(tmp_path):
    folder = leave_open(tmp_path / "d", None)
    rows = folder / "rows.journal"
    rows.write_bytes(b"noise" * 100)
    done = recover_dataset(tmp_path / "d")
    assert done.kept_frames == 0
    assert done.set_aside == (f"{WORKSHOP}/open",)
    (kept,) = (tmp_path / "d" / WORKSHOP / "aside").rglob("rows.journal")
    assert kept.read_bytes() == b"noise" * 100
    check_dataset(tmp_path / "d", [2])


def test_files_that_no_episode_is_in_are_set_aside(tmp_path):
    leave_open(tmp_path / "d", "video")
    root = tmp_path / "d"
    strays = ["data/chunk-000/file-007.parquet", f"videos/{CAMERAS[0]}/chunk-000/file-009.mp4"]
    for stray in strays:
        (root / stray).write_bytes(b"without a footer")
    done = recover_dataset(root)
    assert list(done.set_aside) == strays
    for stray in strays:
        assert not (root / stray).exists()
        (kept,) = (root / WORKSHOP / "aside").rglob(stray.rsplit("/", 1)[1])
        assert kept.read_bytes() == b"without a footer"
    check_dataset(root, [2, 6])


def test_statistics_of_a_recovered_episode_are_those_of_its_images(tmp_path):
    leave_open(tmp_path / "a", frames=7)
    recover_dataset(tmp_path / "a")
    with reel.create_dataset(
        tmp_path / "b", fps=FPS, features=features("video"), encoding=reel.Encoding("h264")
    ) as recorder:
        for episode, length in enumerate([2, 7]):
            record(recorder, episode, length)
            recorder.save_episode()
    recovered, plain = (
        reel.open_dataset(tmp_path / "a").stats,
        reel.open_dataset(tmp_path / "b").stats,
    )
    for name in plain:
        np.testing.assert_allclose(recovered[name].mean, plain[name].mean, atol=0.01)
        np.testing.assert_array_equal(recovered[name].count, plain[name].count)


class TestChoices:
    """An open episode is kept aloud, dropped, or asked about."""

    def test_it_is_kept_and_announced(self, tmp_path):
        leave_open(tmp_path / "d", None)
        with pytest.warns(
            UserWarning, match="6 of them have all their images and became episode 1"
        ):
            reel.resume_dataset(tmp_path / "d").close()
        dataset = check_dataset(tmp_path / "d", [2, 6])
        assert [episode.metadata["recovered"] for episode in dataset.episodes] == [None, True]

    def test_it_is_dropped_if_asked_for(self, tmp_path):
        leave_open(tmp_path / "d", "video")
        with pytest.warns(UserWarning, match="6 frames were written down. It was discarded"):
            reel.resume_dataset(tmp_path / "d", open_episode="discard").close()
        check_dataset(tmp_path / "d", [2])
        assert not (tmp_path / "d" / WORKSHOP / "open").exists()

    def test_raise_says_what_there_is_and_changes_nothing(self, tmp_path):
        folder = leave_open(tmp_path / "d", "image")
        with pytest.raises(RecordingError, match="6 frames were written down, and 6 of them"):
            reel.resume_dataset(tmp_path / "d", open_episode="raise")
        assert folder.exists()
        recover_dataset(tmp_path / "d")
        reel.resume_dataset(tmp_path / "d", open_episode="raise").close()
        check_dataset(tmp_path / "d", [2, 6])

    def test_another_word_is_refused(self, tmp_path):
        leave_open(tmp_path / "d", None)
        with pytest.raises(RecordingError, match="give one of"):
            reel.resume_dataset(tmp_path / "d", open_episode="ask")  # type: ignore[arg-type]

    def test_the_command_discards(self, tmp_path):
        leave_open(tmp_path / "d", None)
        root = str(tmp_path / "d")
        plan = CliRunner().invoke(app, ["recover", root, "--discard", "--dry-run"]).stdout
        assert "It would be discarded." in plan
        assert "It was discarded." in CliRunner().invoke(app, ["recover", root, "--discard"]).stdout
        check_dataset(tmp_path / "d", [2])


@pytest.mark.parametrize("damage", [b"", b"noise" * 9, bytes(4096)])
def test_damaged_sketches_are_made_again(tmp_path, damage):
    leave_open(tmp_path / "d", None)
    for sketch in (tmp_path / "d" / WORKSHOP).glob("*.npz"):
        sketch.write_bytes(damage)
    recover_dataset(tmp_path / "d")
    for sketch in (tmp_path / "d" / WORKSHOP).glob("*.npz"):
        sketch.write_bytes(damage)
    reel.resume_dataset(tmp_path / "d").close()
    dataset = check_dataset(tmp_path / "d", [2, 6])
    assert (dataset.stats["action"].count == 8).all()


def test_nothing_is_recovered_while_somebody_records(tmp_path):
    with (
        reel.create_dataset(tmp_path / "d", fps=FPS, features=features(None)),
        pytest.raises(DatasetInUseError),
    ):
        recover_dataset(tmp_path / "d")


def test_a_folder_that_is_no_dataset_stays_as_it_is(tmp_path):
    with pytest.raises(NotADatasetError):
        recover_dataset(tmp_path)
    assert not any(tmp_path.iterdir())


class TestCommands:
    def test_recover_tells_what_it_did(self, tmp_path):
        leave_open(tmp_path / "d", "image")
        root = str(tmp_path / "d")
        plan = CliRunner().invoke(app, ["recover", root, "--dry-run"])
        assert "6 frames were written down" in plan.stdout
        assert "would become episode 1" in plan.stdout
        check_dataset(tmp_path / "d", [2])
        done = json.loads(CliRunner().invoke(app, ["recover", root, "--json"]).stdout)
        assert done["kept_frames"] == 6
        assert "No episode was open" in CliRunner().invoke(app, ["recover", root]).stdout
        check_dataset(tmp_path / "d", [2, 6])

    def test_compact_tells_what_it_did(self, tmp_path):
        leave_open(tmp_path / "d", "image", saved=3)
        root = str(tmp_path / "d")
        plan = CliRunner().invoke(app, ["compact", root, "--dry-run"]).stdout
        assert "3 files become data/chunk-000/file-000.parquet" in plan
        assert "4 files would go." in plan
        done = json.loads(CliRunner().invoke(app, ["compact", root, "--json"]).stdout)
        assert len(done["data"][0]) == 3
        assert "no small files" in CliRunner().invoke(app, ["compact", root]).stdout
        check_dataset(tmp_path / "d", [2, 2, 2])
