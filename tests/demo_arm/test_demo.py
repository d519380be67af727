"""Datasets of the simulated arm, from Python and from the command line."""

import json

import pytest
from typer.testing import CliRunner

import roboreel as reel
from roboreel.cli import app
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.errors import RecordingError

SMALL = ["--episodes", "1", "--frames", "4", "--cameras", "1", "--size", "48x64"]


@pytest.mark.parametrize("version", ["3.0", "2.1", "2.0"])
@pytest.mark.parametrize("store", ["video", "image"])
def test_every_version_opens_without_problems(tmp_path, version, store):
    spec = DemoSpec(3, 4, 1, (48, 64), store=store, codec="h264", version=version)
    dataset = reel.open_dataset(make_demo_dataset(tmp_path / "d", spec))
    assert dataset.problems == ()
    assert dataset.manifest.version == f"v{version}"
    assert len(dataset.episodes) == 3
    assert dataset.read(range(2))["observation.images.front"].shape == (2, 3, 48, 64)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"episodes": -1}, "-1 episodes of 100 frames"),
        ({"frames": 1}, "at least 2 frames"),
        ({"cameras": 99}, "99 cameras were asked for: there are 6"),
        ({"store": "disk"}, "store is 'disk': choose one of 'video', 'image'"),
        ({"codec": "vp9"}, "codec is 'vp9': choose one of 'av1', 'h264', 'hevc'"),
        ({"version": "1.6"}, "version is '1.6': choose one of '3.0', '2.1', '2.0'"),
    ],
)
def test_a_spec_checks_itself(wrong, message):
    with pytest.raises(ValueError, match=message):
        DemoSpec(**wrong)


def test_what_is_there_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(RecordingError, match="already exists: choose a new folder"):
        make_demo_dataset(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("command", ["demo", "sample"])
@pytest.mark.parametrize(
    ("options", "dtype", "codec"),
    [
        ([], "video", "av1"),
        (["--codec", "h264"], "video", "h264"),
        (["--store", "video"], "video", "av1"),
        (["--codec", "h264", "--store", "video"], "video", "h264"),
        (["--store", "image"], "image", None),
        (["--store", "image", "--codec", "h264"], "image", None),
    ],
)
def test_the_command_makes_what_it_is_asked_for(tmp_path, command, options, dtype, codec):
    done = CliRunner().invoke(app, [command, str(tmp_path / "d"), *SMALL, *options])
    assert done.exit_code == 0, done.output
    info = json.loads((tmp_path / "d" / "meta" / "info.json").read_text())
    camera = info["features"]["observation.images.front"]
    assert camera["dtype"] == dtype
    assert camera.get("info", {}).get("video.codec") == codec


def test_the_old_name_of_the_command_is_not_shown():
    shown = CliRunner().invoke(app, ["--help"]).output
    assert " demo " in shown
    assert " sample " not in shown


@pytest.mark.parametrize("options", [["--size", "big"], ["--codec", "vp9"], ["--version", "1.6"]])
def test_a_wrong_option_is_an_error_of_usage(tmp_path, options):
    assert CliRunner().invoke(app, ["demo", str(tmp_path / "d"), *options]).exit_code == 2
    assert not (tmp_path / "d").exists()
