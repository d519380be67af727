"""Recordings of other formats become datasets: values, bytes, tasks, plans, resuming, jobs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

import roboreel as reel
from roboreel.cli import app
from roboreel.errors import FolderTakenError, SourceError
from roboreel.image import encode_png
from roboreel.importing import (
    Changes,
    FeatureMap,
    ImportMap,
    TaskRule,
    import_dataset,
    open_recording,
    plan_import,
)
from roboreel.importing.defaults import changed_map
from roboreel.importing.mapping_file import map_from_json, map_to_json, map_to_toml, read_map
from roboreel.importing.provenance import provenance_path
from roboreel.jobs import Processes
from tests.importing import foreign
from tests.importing.foreign import image, jpeg, numbers
from tests.video_factory import decode_all

if TYPE_CHECKING:
    from pathlib import Path

h5py = pytest.importorskip("h5py")
pytest.importorskip("zarr")

HIGH = "observation.images.cam_high"


def plan_of(path, mapping=None, **changes):
    with open_recording(path) as recording:
        return plan_import(recording, changed_map(recording, mapping, Changes(**changes)))


def stored_pictures(dataset, camera):
    """Return the bytes of a camera's pictures as they lie in the data files."""
    import pyarrow.parquet as pq

    tables = [pq.read_table(path) for path in sorted((dataset.path / "data").rglob("*.parquet"))]
    return [cell["bytes"] for table in tables for cell in table[camera].to_pylist()]


def check_is_clean(path):
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 0, result.output


class TestValues:
    def test_pictures_of_act_are_byte_equal_and_numbers_the_same(self, tmp_path):
        source = foreign.write_act(tmp_path / "episode_0.hdf5")
        made = import_dataset(source, tmp_path / "d", changes=Changes(task="open the cup"))
        dataset = reel.open_dataset(made.path)
        assert (made.episodes, made.frames, dataset.fps) == (1, 6, 50)
        assert stored_pictures(dataset, HIGH) == [jpeg(row) for row in range(6)]
        batch = dataset.read(range(6))
        assert np.array_equal(batch["action"], numbers(range(6), 14, 10))
        assert np.array_equal(batch["observation.velocity"], numbers(range(6), 14, 2))
        assert set(batch["task"]) == {"open the cup"}
        check_is_clean(made.path)

    def test_libero_is_turned_upright_and_its_state_is_joined(self, tmp_path):
        source = foreign.write_robomimic(tmp_path / "a_demo.hdf5", libero=True)
        made = import_dataset(source, tmp_path / "d", changes=Changes(store="image"))
        dataset = reel.open_dataset(made.path)
        batch = dataset.read(range(8), reel.SampleSpec(layout="hwc"))
        upright = np.stack([image(row)[::-1] for row in range(8)])
        assert np.array_equal(batch["observation.images.agentview"], upright)
        expected = np.concatenate([numbers(range(8), 6), numbers(range(8), 2, 3)], axis=1)
        assert np.array_equal(batch["observation.state"], expected)
        assert batch["next.done"].tolist() == [False] * 4 + [True] + [False] * 2 + [True]
        assert batch["action"].dtype == np.float64
        assert set(batch["task"]) == {"put the bowl on the plate"}
        assert dataset.episodes[1].metadata["source.mask_valid"] is True
        check_is_clean(made.path)

    def test_pixels_become_video_that_shows_them(self, tmp_path):
        source = foreign.write_zarr(tmp_path / "pusht.zarr")
        made = import_dataset(source, tmp_path / "d", changes=Changes(fps=10))
        images = reel.open_dataset(made.path).read(range(9), reel.SampleSpec(layout="hwc"))
        found = images["observation.image"].astype(int)
        expected = np.stack([image(row) for row in range(9)]).astype(int)
        assert np.abs(found - expected).mean() < 4
        check_is_clean(made.path)

    def test_an_action_may_be_the_state_of_the_next_frame(self, tmp_path):
        from imagecodecs.numcodecs import Jpegxl

        lossless = [Jpegxl(lossless=True)]
        source = foreign.write_zarr(
            tmp_path / "u.zarr.zip", zipped=True, umi=True, compressors=lossless
        )
        made = import_dataset(source, tmp_path / "d", changes=Changes(fps=60))
        batch = reel.open_dataset(made.path).read(range(9))
        state = batch["observation.state"]
        later = [1, 2, 3, 4, 4, 6, 7, 8, 8]  # The last frame of an episode repeats its state.
        assert np.array_equal(batch["action"], state[later])
        assert np.array_equal(state[:, :3], numbers(range(9), 3))

    def test_rlds_has_a_task_for_each_step_and_its_pictures_unchanged(self, tmp_path):
        source = foreign.write_rlds(tmp_path / "bridge" / "1.0.0")
        made = import_dataset(source, tmp_path / "d", changes=Changes(fps=5, task="some task"))
        dataset = reel.open_dataset(made.path)
        assert stored_pictures(dataset, "observation.image") == [jpeg(row) for row in range(12)]
        batch = dataset.read(range(12))
        assert np.array_equal(batch["action"], numbers(range(12), 7, 10))
        # One episode has an empty instruction.
        assert list(batch["task"]) == ["put 0"] * 4 + ["some task"] * 3 + ["put 2"] * 5
        assert batch["observation.level"].tolist() == [-row for row in range(12)]
        check_is_clean(made.path)

    def test_the_last_step_of_rlds_can_be_left_out(self, tmp_path):
        source = foreign.write_rlds(tmp_path / "bridge")
        plan = plan_of(source, fps=5, drop_last=1)
        assert [episode.length for episode in plan.episodes] == [3, 2, 4]

    def test_packets_of_a_video_are_kept_and_depth_keeps_its_unit(self, tmp_path):
        source = foreign.write_media(tmp_path / "runs")
        made = import_dataset(source, tmp_path / "d")
        dataset = reel.open_dataset(made.path)
        camera = "observation.images.front"
        before = [f for e in (0, 1) for f in decode_all(source / f"episode_{e}" / "front.mp4")]
        batch = dataset.read(range(9), reel.SampleSpec([camera], layout="hwc"))
        assert np.abs(batch[camera].astype(int) - np.stack(before)).max() <= 2
        assert _packets(made.path) == _packets(source)
        check_is_clean(made.path)
        plain = import_dataset(foreign.write_plain_hdf5(tmp_path / "p.h5"), tmp_path / "p")
        depth = reel.open_dataset(plain.path).features["observation.images.depth"].depth
        assert depth is not None
        assert depth.unit == "mm"

    def test_a_mapping_chooses_elements_units_sizes_and_flips(self, tmp_path):
        source = foreign.write_act(tmp_path / "a.hdf5")
        mapping = ImportMap(
            {
                "action": FeatureMap(("action",), elements=(3, 0), unit="deg"),
                "observation.images.up": FeatureMap(
                    ("observations/images/cam_high",),
                    flip="both",
                    resize=(12, 16),
                    channels="bgr",
                    store="image",
                ),
            },
            task=TaskRule("turn"),
        )
        made = import_dataset(source, tmp_path / "d", mapping=mapping)
        dataset = reel.open_dataset(made.path)
        expected = np.deg2rad(numbers(range(6), 14, 10)[:, [3, 0]])
        batch = dataset.read(range(6), reel.SampleSpec(layout="hwc"))
        assert np.allclose(batch["action"], expected)
        assert dataset.features["action"].names == ("action_3", "action_0")
        pixels = batch["observation.images.up"]
        assert pixels.shape == (6, 12, 16, 3)
        # Blue was red, and the bright half is below.
        assert pixels[1, -1, 0, 2] > pixels[1, 0, 0, 2] + 10

    def test_numbers_of_64_bits_stay_so_unless_asked(self, tmp_path):
        source = foreign.write_robomimic(tmp_path / "a.hdf5")
        assert plan_of(source).features["action"].feature.dtype == "float64"
        assert plan_of(source, float32=True).features["action"].feature.dtype == "float32"


def _packets(folder: Path) -> list[bytes]:
    """Return the coded pictures of all videos below a folder, without parameter sets and lengths."""
    import av

    found = []
    for path in sorted(folder.rglob("*.mp4")):
        with av.open(str(path)) as container:
            for packet in container.demux(video=0):
                data, units = bytes(packet), []
                at = 0
                while at < len(data):
                    size = int.from_bytes(data[at : at + 4], "big")
                    unit = data[at + 4 : at + 4 + size]
                    units += [unit] if unit[0] & 31 in (1, 5) else []
                    at += 4 + size
                found += [b"".join(units)] if units else []
    return found


class TestThePlan:
    def test_what_is_not_known_is_asked_for_by_its_flag(self, tmp_path):
        source = foreign.write_zarr(tmp_path / "pusht.zarr")
        with pytest.raises(SourceError, match=r"give --fps .*pusht\.zarr"):
            import_dataset(source, tmp_path / "d")
        assert not (tmp_path / "d").exists()

    def test_it_lists_what_is_not_mapped_and_why(self, tmp_path):
        plan = plan_of(foreign.write_robomimic(tmp_path / "a.hdf5"))
        assert plan.unmapped == {
            "next_obs/robot0_eef_pos": "the observation of the next frame",
            "states": "the state of the simulator",
        }
        assert any("Give one with --task" in note for note in plan.notes)

    def test_packets_that_cannot_be_kept_are_named(self, tmp_path):
        source = foreign.write_media(tmp_path / "runs")
        mapping = ImportMap({"observation.images.front": FeatureMap(("front",), flip="vertical")})
        plan = plan_of(source, mapping)
        assert plan.episodes[0].encoded_again == {
            "observation.images.front": "its images are changed"
        }
        made = import_dataset(source, tmp_path / "d", mapping=mapping)
        assert made.frames == 9
        check_is_clean(made.path)

    @pytest.mark.parametrize(
        ("feature", "said"),
        [
            (FeatureMap(("nothing",)), "no stream 'nothing'"),
            (FeatureMap(("action",), elements=("elbow",)), "no element 'elbow'"),
            (FeatureMap(("action",), flip="vertical"), "for cameras"),
            (FeatureMap(("action", "observations/images/cam_high")), "give numbers"),
            (FeatureMap(("observations/images/cam_high",), dtype="float32"), "is a camera"),
        ],
    )
    def test_a_mapping_that_does_not_fit_says_where(self, tmp_path, feature, said):
        source = foreign.write_act(tmp_path / "a.hdf5")
        with pytest.raises(SourceError, match=said):
            plan_of(source, ImportMap({"x": feature}))

    def test_a_picture_of_another_size_names_its_episode_and_saves_the_others(self, tmp_path):
        source = foreign.write_plain_hdf5(tmp_path / "a.h5")
        other = encode_png(np.zeros((10, 10, 3), np.uint8))
        with h5py.File(source, "a") as file:
            file["episode_1/rgb"][1] = np.frombuffer(other, np.uint8)
        with pytest.raises(SourceError, match=r"Episode 'episode_1'.*\(10, 10, 3\).*The 1 before"):
            import_dataset(source, tmp_path / "d")
        assert len(reel.open_dataset(tmp_path / "d").episodes) == 1


class TestMappingFiles:
    def test_a_mapping_comes_back_from_its_file(self, tmp_path):
        plan = plan_of(foreign.write_robomimic(tmp_path / "a.hdf5"), max_gap_ns=50_000_000)
        file = tmp_path / "m.toml"
        file.write_text(map_to_toml(plan.mapping, unmapped=plan.unmapped))
        assert read_map(file) == plan.mapping
        assert "states" in file.read_text()
        assert map_from_json(map_to_json(plan.mapping)) == plan.mapping

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("fps = ", "not TOML"),
            ("speed = 3\n", "'speed': known are"),
            ("[features.a]\n", "needs stream"),
            ("[features.a]\nstream='x'\nflip='up'\n", "flip is 'up'"),
            ("max_gap = 50\n[features.a]\nstream='x'\n", "such as 50ms"),
            ("fps = 'fast'\n[features.a]\nstream='x'\n", "fps is 'fast'"),
            ("[episodes]\nby='gap'\n[features.a]\nstream='x'\n", "needs gap"),
            ("features = 3\n", "not a table"),
            ("[features.a]\nstream='x'\nresize=[3]\n", "wrong value"),
            ("[features.a]\nstream='x'\nresize=[inf, 1]\n", "wrong value"),
            ("", "has no features"),
        ],
    )
    def test_what_is_wrong_is_said_with_the_file(self, tmp_path, text, said):
        (tmp_path / "m.toml").write_text(text)
        with pytest.raises(SourceError, match=f"(?s){said}.*m\\.toml"):
            read_map(tmp_path / "m.toml")


class TestProvenance:
    def test_it_says_where_the_dataset_comes_from(self, tmp_path):
        import hashlib

        source = foreign.write_act(tmp_path / "a.hdf5")
        made = import_dataset(source, tmp_path / "d")
        said = json.loads(provenance_path(made.path).read_bytes())
        (one,) = said["sources"]
        assert said["complete"] is True
        assert one["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
        assert one["mapping"]["features"]["action"] == {"stream": "action"}
        assert [episode["frames"] for episode in one["episodes"]] == [6]

    def test_the_same_import_again_changes_nothing(self, tmp_path):
        source = foreign.write_act(tmp_path / "a.hdf5")
        made = import_dataset(source, tmp_path / "d")
        before = {p: p.stat().st_mtime_ns for p in made.path.rglob("*") if p.is_file()}
        again = import_dataset(source, tmp_path / "d")
        assert again.resumed_at == 1
        assert {p: p.stat().st_mtime_ns for p in made.path.rglob("*") if p.is_file()} == before

    def test_another_import_does_not_go_into_the_same_folder(self, tmp_path):
        source = foreign.write_act(tmp_path / "a.hdf5")
        import_dataset(source, tmp_path / "d")
        with pytest.raises(FolderTakenError, match="another mapping"):
            import_dataset(source, tmp_path / "d", changes=Changes(fps=10))
        (tmp_path / "e").mkdir()
        (tmp_path / "e" / "mine.txt").touch()
        with pytest.raises(FolderTakenError, match="already exists"):
            import_dataset(source, tmp_path / "e")


KILLED = """
import os, signal, sys
from roboreel.importing import import_dataset
from roboreel.record.recorder import Recorder
save = Recorder.add_frame
frames = 0
def add_frame(self, *args, **kwargs):
    global frames
    save(self, *args, **kwargs)
    frames += 1
    if frames == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
Recorder.add_frame = add_frame
import_dataset(sys.argv[1], sys.argv[2])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
class TestKilled:
    @pytest.mark.parametrize("frames", [1, 6])
    def test_it_goes_on_after_the_last_whole_episode(self, tmp_path, frames):
        source = foreign.write_robomimic(tmp_path / "a.hdf5")
        code = textwrap.dedent(KILLED)
        arguments = [sys.executable, "-c", code, str(source), str(tmp_path / "d"), str(frames)]
        killed = subprocess.run(arguments, capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        made = import_dataset(source, tmp_path / "d")
        assert (made.episodes, made.frames) == (2, 8)
        assert made.resumed_at == (0 if frames == 1 else 1)
        whole = import_dataset(source, tmp_path / "whole")
        ours, theirs = (reel.open_dataset(one.path) for one in (made, whole))
        one, other = (d.read(range(8), reel.SampleSpec(["action"])) for d in (ours, theirs))
        assert np.array_equal(one["action"], other["action"])
        check_is_clean(made.path)


class TestSeveralRecordings:
    def test_a_folder_of_files_becomes_one_dataset(self, tmp_path):
        (tmp_path / "in").mkdir()
        for number in range(3):
            foreign.write_act(tmp_path / "in" / f"episode_{number}.hdf5", 3 + number)
        made = import_dataset(tmp_path / "in", tmp_path / "d")
        dataset = reel.open_dataset(made.path)
        assert (made.episodes, made.frames, len(dataset)) == (3, 12, 12)
        assert [e.metadata["source.file"] for e in dataset.episodes] == [
            f"episode_{number}.hdf5" for number in range(3)
        ]
        check_is_clean(made.path)

    def test_parts_of_several_processes_are_merged(self, tmp_path, monkeypatch):
        from roboreel.importing import job

        monkeypatch.setattr(job, "_TASK_BYTES", 1)
        (tmp_path / "in").mkdir()
        for number in range(2):
            foreign.write_act(tmp_path / "in" / f"episode_{number}.hdf5", 3 + number)
        made = import_dataset(
            tmp_path / "in", tmp_path / "d", on=Processes(2), job=tmp_path / "job"
        )
        dataset = reel.open_dataset(made.path)
        assert stored_pictures(dataset, HIGH) == [jpeg(r) for n in (3, 4) for r in range(n)]
        said = json.loads(provenance_path(made.path).read_bytes())
        assert [source["path"] for source in said["sources"]] == [
            "episode_0.hdf5",
            "episode_1.hdf5",
        ]
        check_is_clean(made.path)

    def test_recordings_that_do_not_fit_together_are_named(self, tmp_path):
        (tmp_path / "in").mkdir()
        foreign.write_act(tmp_path / "in" / "a.hdf5")
        foreign.write_robomimic(tmp_path / "in" / "b.hdf5")
        with pytest.raises(SourceError, match=r"does not fit .*: it has 20 frames.*b\.hdf5"):
            import_dataset(tmp_path / "in", tmp_path / "d")
        foreign.write_zarr(tmp_path / "in" / "c.zarr")
        with pytest.raises(SourceError, match="several kinds, HDF5 file, Zarr store"):
            import_dataset(tmp_path / "in", tmp_path / "d")


class TestTheCommand:
    def run(self, *arguments):
        return CliRunner().invoke(app, ["import", *map(str, arguments)])

    def test_a_dry_run_says_everything_and_writes_nothing(self, tmp_path):
        source = foreign.write_zarr(tmp_path / "pusht.zarr")
        result = self.run(source, "--fps", 10, "--dry-run")
        assert result.exit_code == 0
        assert "diffusion_policy: 2 episodes, 9 frames at 10 fps (as asked)" in result.output
        assert "observation.image: video 24x32x3 from img, encoded as video" in result.output
        assert [p.name for p in tmp_path.iterdir()] == ["pusht.zarr"]
        raw = json.loads(self.run(source, "--fps", 10, "--dry-run", "--json").output)
        assert raw["streams"]["action"]["values"] == 9
        assert raw["done"] is False

    def test_a_mapping_is_written_edited_and_used(self, tmp_path):
        source = foreign.write_act(tmp_path / "a.hdf5")
        written = tmp_path / "map.toml"
        assert self.run(source, "--write-map", written).exit_code == 0
        text = written.read_text().replace("observation.velocity", "observation.speed")
        written.write_text(text)
        result = self.run(source, "--map", written, "--out", tmp_path / "d", "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.output)["frames"] == 6
        assert "observation.speed" in reel.open_dataset(tmp_path / "d").features
        assert self.run(source, "--write-map", written).exit_code == 2

    def test_without_a_folder_it_asks_for_one(self, tmp_path):
        result = self.run(foreign.write_act(tmp_path / "a.hdf5"))
        assert result.exit_code == 2
        assert "--out" in result.output
