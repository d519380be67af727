"""CSV tables as spreadsheets and loggers write them, and UMI with two hands."""

from __future__ import annotations

import numpy as np
import pytest

from roboreel.errors import SourceError
from roboreel.importing import open_recording, plan_import
from roboreel.importing.media_folder import read_table


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a,b\n0.5,1\n-1,2\n", [0.5, -1]),
        ("a;b\n0,5;1\n-1;2\n", [0.5, -1]),
        ("a;b\n0.5;1\n-1;2\n", [0.5, -1]),
        ("a\tb\n0.5\t1\n-1\t2\n", [0.5, -1]),
    ],
)
def test_cells_are_separated_by_what_the_first_line_has(tmp_path, text, values):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8-sig")
    table = read_table(tmp_path / "a.csv")
    assert list(table) == ["a", "b"]
    assert np.asarray(table["a"]).tolist() == values
    assert np.asarray(table["b"]).dtype == np.int64


def test_a_column_of_times_may_name_its_unit_in_brackets(tmp_path):
    lines = ["Time [ms];joint 1;joint 2", *(f"{i * 20};{i};{-i}" for i in range(10))]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    with open_recording(tmp_path) as recording:
        assert (recording.fps, recording.episodes[0].length) == (50, 10)
        assert "Time [ms]" in plan_import(recording).unmapped


def test_a_column_of_times_in_bursts_tells_no_rate(tmp_path):
    lines = [
        "timestamp;a",
        *(f"{0.2 * burst + i / 7000};1" for burst in range(9) for i in range(9)),
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    with open_recording(tmp_path) as recording:
        assert recording.fps is None
        with pytest.raises(SourceError, match="give --fps"):
            plan_import(recording)


def test_both_hands_of_umi_are_the_state_and_the_action(tmp_path):
    zarr = pytest.importorskip("zarr")
    top = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    for hand in range(2):
        for name, width in (("eef_pos", 3), ("eef_rot_axis_angle", 3), ("gripper_width", 1)):
            top[f"data/robot{hand}_{name}"] = np.zeros((6, width), np.float32)
        top[f"data/robot{hand}_demo_end_pose"] = np.zeros((6, 6), np.float32)
    top["data/camera0_rgb"] = np.zeros((6, 16, 16, 3), np.uint8)
    top["meta/episode_ends"] = np.array([6])
    with open_recording(tmp_path / "a.zarr") as recording:
        recording.fps = 20
        plan = plan_import(recording)
    assert plan.features["action"].feature.shape == (14,)
    assert plan.features["observation.state"].feature.shape == (14,)
    assert "how the episode ends" in plan.unmapped["robot1_demo_end_pose"]
