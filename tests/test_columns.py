"""Values of episodes, read for a single pass."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.storage import columns as module
from roboreel.storage.budget import Budget
from roboreel.storage.columns import Columns
from roboreel.storage.frame_files import FrameFile, FrameFiles
from tests.factory import write_dataset

LENGTHS = [5, 1, 9, 3, 2]


def open_columns(root):
    manifest = reel.open_dataset(root).manifest
    files = FrameFiles(manifest.root, manifest.data_files, manifest.episodes)
    return Columns(files, manifest.features, Budget()), manifest


def spans(manifest):
    episodes = manifest.episodes
    return zip(episodes.start.tolist(), (episodes.start + episodes.length).tolist(), strict=True)


@pytest.fixture(params=[1, 2, 4, 7, 1000], ids=lambda rows: f"groups of {rows}")
def root(request, tmp_path):
    write_dataset(tmp_path, LENGTHS, episodes_per_file=3)
    for path in sorted((tmp_path / "data").rglob("*.parquet")):
        pq.write_table(pq.read_table(path), path, row_group_size=request.param)
    return tmp_path


@pytest.mark.parametrize("together_bytes", [0, module._TOGETHER_BYTES], ids=["large", "small"])
def test_a_pass_gives_what_any_read_gives(root, together_bytes, monkeypatch):
    monkeypatch.setattr(module, "_TOGETHER_BYTES", together_bytes)
    once, manifest = open_columns(root)
    held, _ = open_columns(root)
    for start, stop in spans(manifest):
        read = once.read_span(list(manifest.features), start, stop)
        for name, values in read.items():
            expected = held.gather(name, np.arange(start, stop))
            assert values.dtype == expected.dtype
            np.testing.assert_array_equal(values, expected)


def test_a_pass_holds_no_numbers_and_reads_each_row_group_once(root, monkeypatch):
    reads = []
    read_together = FrameFile.read_together

    def count(self, group, names):
        if "action" in names:
            reads.append((self.path, group))
        return read_together(self, group, names)

    monkeypatch.setattr(FrameFile, "read_together", count)
    columns, manifest = open_columns(root)
    for start, stop in spans(manifest):
        columns.read_span(["action", "mode"], start, stop)
    assert len(reads) == len(set(reads)) > 0
    assert columns._budget.held_bytes == 0


def test_no_rows_have_values_of_the_right_shape(tmp_path):
    write_dataset(tmp_path, [3, 0, 2])
    columns, _ = open_columns(tmp_path)
    read = columns.read_span(["observation.state", "note"], 3, 3)
    assert [values.shape for values in read.values()] == [(0, 3), (0,)]
