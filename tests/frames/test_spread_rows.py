"""Episodes whose rows go on in the data files after their own, as LeRobot reads them."""

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.edit import edit_dataset
from roboreel.errors import DatasetError
from roboreel.repair import plan_repair
from roboreel.schema import Feature
from tests.factory import NUMBERS, write_dataset

LENGTHS = [4, 9, 3, 5]
FEATURES = {**NUMBERS, "camera": Feature("image", (8, 12, 3))}


def cut_into_files(root, bounds):
    """Cut the rows of the only data file; the metadata is left as it is."""
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        pq.write_table(
            table.slice(start, stop - start),
            path.with_name(f"file-{number:03}.parquet"),
            row_group_size=2,
        )


def begin_in_files(root, files):
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    column = table.schema.get_field_index("data/file_index")
    field = table.schema.field(column)
    pq.write_table(table.set_column(column, field, [files]), path)


# Episode 1 lies in three files; the one in the middle is named by no episode.
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_an_episode_whose_rows_lie_in_three_files_is_read(order, tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=4, features=FEATURES)
    whole = [reel.open_dataset(tmp_path).episodes[e].read() for e in range(4)]
    cut_into_files(tmp_path, [0, 6, 9, 21])
    begin_in_files(tmp_path, [0, 0, 2, 2])
    dataset = reel.open_dataset(tmp_path)
    for episode in order:
        read = dataset.episodes[episode].read()
        assert len(read["camera"]) == LENGTHS[episode]
        for name, values in whole[episode].items():
            assert np.array_equal(read[name], values), name
    rows = np.random.default_rng(0).permutation(21)
    assert [int(dataset[int(row)]["index"]) for row in rows] == rows.tolist()


def test_an_edit_refuses_what_goes_on_in_other_files(tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=4)
    cut_into_files(tmp_path, [0, 6, 9, 21])
    begin_in_files(tmp_path, [0, 0, 2, 2])
    with pytest.raises(DatasetError, match="episode 1 go on in the data files after its own"):
        edit_dataset(tmp_path).delete([0]).apply()


@pytest.mark.parametrize("lengths", [LENGTHS, [9, 9, 3]])
def test_check_says_where_they_lie_and_repair_changes_nothing(lengths, tmp_path):
    root = tmp_path / "d"
    write_dataset(root, lengths, episodes_per_file=4)
    cut_into_files(root, [0, 6, 9, sum(lengths)])
    begin_in_files(root, [0, 0, 2, 2][: len(lengths)] if lengths == LENGTHS else [0, 2, 2])
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    found = check_dataset(root, ignore=["RR503"])
    assert {one.code for one in found.at_least("warning")} == {"RR204"}
    assert not found.at_least("error")
    assert any(one.file == "data/chunk-000/file-001.parquet" for one in found)
    for only in ([], ["RR105"], ["RR202", "RR205"]):
        plan = plan_repair(root, only=only, ignore=["RR503"], set_aside=True)
        assert not plan, only
        assert plan.unlisted == ()
    assert before == {file: file.read_bytes() for file in before}


def test_rows_that_lie_in_no_file_are_refused(tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=4)
    cut_into_files(tmp_path, [0, 6, 9, 21])
    begin_in_files(tmp_path, [0, 0, 2, 2])
    (tmp_path / "data/chunk-000/file-001.parquet").unlink()
    dataset = reel.open_dataset(tmp_path)
    assert dataset.episodes[3].read()["index"][0] == 16
    with pytest.raises(DatasetError, match="Episode 1 has 9 frames in the metadata and 2 in its"):
        dataset.episodes[1].read()
