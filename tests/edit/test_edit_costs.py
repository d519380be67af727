"""What an edit of many small files does once, and not once more."""

import numpy as np
import pytest

from roboreel import open_dataset
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.edit import plan_conversion, verify_copy
from roboreel.errors import CorruptFileError, EditError
from roboreel.format.stats_json import stats_to_columns, stats_to_json
from roboreel.frames.clips import FrameOrder
from roboreel.parquet.parquet_table import open_parquet
from roboreel.stats import stats_of
from roboreel.video import boxes
from roboreel.video.mp4 import read_packet_table


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    demo = make_demo_dataset(folder / "demo", DemoSpec(3, 8, size=(48, 64)))
    plan_conversion(demo, "v2.1", folder / "v21").apply()
    return folder / "v21"


def test_a_comparison_takes_the_order_of_rows_from_the_rows_it_has_read(old, tmp_path, monkeypatch):
    plan = plan_conversion(old, "v3.0", tmp_path / "new")
    plan.apply()

    def refuse(*_):
        raise AssertionError("the order of rows was looked up")

    monkeypatch.setattr(FrameOrder, "_look_up", refuse)
    verify_copy(plan)


def test_a_comparison_finds_one_byte_of_one_packet(old, tmp_path):
    plan = plan_conversion(old, "v3.0", tmp_path / "new")
    plan.apply()
    video = next((tmp_path / "new").rglob("*.mp4"))
    table = read_packet_table(video)
    data = bytearray(video.read_bytes())
    data[int(table.offset[-1]) + int(table.size[-1]) - 1] ^= 1
    video.write_bytes(data)
    with pytest.raises(EditError, match="episode 2 is not what it was"):
        verify_copy(plan)


@pytest.mark.parametrize("shapes", [[(2,)], [()], [(3, 1, 1)], [(2,), (2, 1)], [(0,)]])
def test_statistics_of_episodes_are_the_same_as_arrays_and_as_lists(shapes):
    rng = np.random.default_rng(3)
    several = [
        stats_of({"x": rng.normal(size=(5, *shapes[n % len(shapes)]))})["x"] for n in range(4)
    ]
    columns = stats_to_columns(several)
    for n, one in enumerate(several):
        said = {key: np.asarray(column[n]).tolist() for key, column in columns.items()}
        assert said == stats_to_json(one)


def test_statistics_are_written_as_lists_of_numbers(old, tmp_path):
    plan_conversion(old, "v3.0", tmp_path / "new").apply()
    path = next((tmp_path / "new" / "meta" / "episodes").rglob("*.parquet"))
    camera = next(iter(open_dataset(old).cameras))
    with open_parquet(path) as table:
        columns = table.arrays(["stats/action/mean", f"stats/{camera}/mean", "stats/action/count"])
    assert np.shape(columns[f"stats/{camera}/mean"][0]) == (3, 1, 1)
    assert list(columns["stats/action/count"][0]) == [8]


def test_boxes_are_found_by_the_first_of_a_type_and_no_later_one_is_looked_at():
    def box(kind, content):
        return (8 + len(content)).to_bytes(4, "big") + kind + content

    data = memoryview(
        box(b"aaaa", box(b"bbbb", b"1")) + box(b"aaaa", box(b"cccc", b"2")) + b"\0\0\0\1zzzz"
    )
    inside = boxes.Inside(data)
    assert bytes(inside.require(b"aaaa", b"bbbb")) == b"1"
    assert inside.find(b"aaaa", b"cccc") is None
    assert bytes(inside.require(b"aaaa", b"bbbb")) == b"1"
    with pytest.raises(CorruptFileError):
        inside.find(b"dddd")  # the walk comes to the damaged box
