"""Values of episodes, read for a single pass."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.errors import CorruptFileError, MissingValueError
from roboreel.frames import columns as module
from roboreel.frames import pieces
from roboreel.frames.frame_reader import FrameReader
from roboreel.io.budget import Budget, process_budget
from roboreel.parquet.row_groups import RowGroups
from tests.factory import write_dataset

LENGTHS = [5, 1, 9, 3, 2]


def open_columns(root, limit_bytes=2**29):
    manifest = reel.open_dataset(root).manifest
    return FrameReader(manifest, Budget(limit_bytes)).columns, manifest


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
    reads: list[tuple[object, int]] = []
    read = RowGroups.parts

    def count(self, groups, names, num_rows):
        if "action" in names:
            reads.extend((self.path, group) for group in groups)
        return read(self, groups, names, num_rows)

    monkeypatch.setattr(RowGroups, "parts", count)
    columns, manifest = open_columns(root)
    for start, stop in spans(manifest):
        columns.read_span(["action", "mode"], start, stop)
    assert len(reads) == len(set(reads)) > 0
    assert set(columns._budget.held_by_owner()) == {"open files"}


def test_values_are_right_while_others_have_the_whole_budget(root):
    spec = reel.SampleSpec(["action", "observation.state", "mode"])
    expected = reel.open_dataset(root).read(np.arange(5), spec)
    dataset = reel.open_dataset(root)
    budget = process_budget()
    with budget.lent(2 * budget.limit_bytes, owner="decoders"):  # Nothing that is put stays.
        read = dataset.read(np.arange(5), spec)
    for name in ("action", "observation.state", "mode"):
        np.testing.assert_array_equal(read[name], expected[name])


def test_no_rows_have_values_of_the_right_shape(tmp_path):
    write_dataset(tmp_path, [3, 0, 2])
    columns, _ = open_columns(tmp_path)
    read = columns.read_span(["observation.state", "note"], 3, 3)
    assert [values.shape for values in read.values()] == [(0, 3), (0,)]


def rewrite(root, *, rows):
    (path,) = sorted((root / "data").rglob("*.parquet"))
    pq.write_table(pq.read_table(path), path, row_group_size=rows)
    return path


@pytest.mark.parametrize(("ahead_bytes", "calls"), [(1, 40), (2**20, 2)], ids=["one", "many"])
def test_small_row_groups_in_a_row_are_read_several_at_a_time(
    ahead_bytes, calls, tmp_path, monkeypatch
):
    write_dataset(tmp_path, [4] * 40, episodes_per_file=40)
    rewrite(tmp_path, rows=4)
    monkeypatch.setattr(module, "_AHEAD_BYTES", ahead_bytes)
    reads = []
    read = RowGroups.parts

    def count(self, groups, names, num_rows):
        if "action" in names:
            reads.append(groups)
        return read(self, groups, names, num_rows)

    monkeypatch.setattr(RowGroups, "parts", count)
    columns, manifest = open_columns(tmp_path)
    for start, stop in spans(manifest):
        columns.read_span(["action"], start, stop)
    assert len(reads) == calls
    columns.read_span(["action"], 0, 4)
    assert reads[-1] == range(1)  # Not in a row: alone.


def test_small_row_groups_are_filled_several_at_a_time(tmp_path, monkeypatch):
    write_dataset(tmp_path, [4] * 200, episodes_per_file=200)
    rewrite(tmp_path, rows=4)
    reads = []
    read = RowGroups.parts

    def count(self, groups, names, num_rows):
        if "action" in names:
            reads.append(groups)
        return read(self, groups, names, num_rows)

    monkeypatch.setattr(RowGroups, "parts", count)
    expected, _ = open_columns(tmp_path)
    rows = np.random.default_rng(0).permutation(800)
    whole = expected.gather("action", np.arange(800))
    assert [len(groups) for groups in reads] == [200]
    reads.clear()
    monkeypatch.setattr(module, "_LITTLE_BYTES", 1)
    columns, _ = open_columns(tmp_path)
    for some in np.split(rows, 100):
        np.testing.assert_array_equal(columns.gather("action", some), whole[some])
    assert len(reads[0]) == 1
    assert len(reads) < 100
    assert sorted(group for groups in reads for group in groups) == list(range(200))


def test_a_damaged_row_group_is_told_of_when_it_is_asked_for(tmp_path):
    write_dataset(tmp_path, [4] * 6, episodes_per_file=6)
    path = rewrite(tmp_path, rows=4)
    table = pq.read_table(path)
    place, values = table.schema.get_field_index("mode"), table["mode"].to_pylist()
    values[17] = None
    column = pa.array(values, table.schema.field(place).type)
    pq.write_table(table.set_column(place, "mode", column), path, row_group_size=4)
    columns, _ = open_columns(tmp_path)
    for start in range(0, 16, 4):
        assert len(columns.read_span(["mode"], start, start + 4)["mode"]) == 4
    with pytest.raises(MissingValueError, match="'mode' is null in row 17"):
        columns.read_span(["mode"], 16, 20)
    assert len(columns.read_span(["mode"], 20, 24)["mode"]) == 4


@pytest.mark.parametrize("limit_bytes", [2**29, 100], ids=["one array", "row groups"])
def test_only_the_null_rows_of_a_row_group_are_lost(tmp_path, limit_bytes):
    write_dataset(tmp_path, [4] * 6, episodes_per_file=6)
    path = rewrite(tmp_path, rows=24)
    table = pq.read_table(path)
    for name, nulls in (("mode", [17]), ("action", [3, 18])):
        place, values = table.schema.get_field_index(name), table[name].to_pylist()
        for row in nulls:
            values[row] = None if name == "mode" or row == 3 else [*values[row][:-1], None]
        table = table.set_column(place, name, pa.array(values))
    pq.write_table(table, path)
    clean = {name: np.asarray(table[name].to_pylist()[4:16]) for name in ("mode", "action")}
    columns, _ = open_columns(tmp_path, limit_bytes)
    for name, row in (("mode", 17), ("action", 3), ("action", 18)):
        assert np.array_equal(columns.gather(name, np.arange(4, 16)), clean[name])
        assert np.array_equal(columns.read_span([name], 4, 8)[name], clean[name][:4])
        with pytest.raises(MissingValueError, match=f"{name!r} is null in"):
            columns.gather(name, np.array([5, row]))
    assert columns.gather_tasks("mode", np.array([16, 17]))[1] == -1


def test_a_file_that_became_shorter_is_noticed(tmp_path):
    write_dataset(tmp_path, [4] * 6, episodes_per_file=6)
    path = rewrite(tmp_path, rows=4)
    columns, _ = open_columns(tmp_path)
    columns.read_span(["action"], 0, 4)
    with path.open("rb+") as file:
        file.truncate(100)
    with pytest.raises(CorruptFileError, match=r"(too short|ends before|only got 0).*file-000"):
        columns.read_span(["action"], 8, 12)


def test_one_row_is_found_where_many_are(root):
    columns, manifest = open_columns(root)
    rows = np.arange(manifest.episodes.num_rows)
    files, places = columns._files.locate(rows)
    found = [columns._files.locate_one(row) for row in rows.tolist()]
    assert found == list(zip(files.tolist(), places.tolist(), strict=True))


@pytest.mark.parametrize(("least_bytes", "in_parts"), [(2**16, False), (2**9, True)])
def test_a_read_that_is_stopped_gives_back_what_was_lent(
    least_bytes, in_parts, tmp_path, monkeypatch
):
    write_dataset(tmp_path, [40])
    monkeypatch.setattr(pieces, "_LEAST_BYTES", least_bytes)
    budget = Budget(2**12)
    columns = FrameReader(reel.open_dataset(tmp_path).manifest, budget).columns
    parts = columns._pieces.numbers(0, range(1), ["observation.state"])
    _, values = next(parts)
    assert (len(values["observation.state"].values) < 40) == in_parts
    assert budget.held_by("row groups") > 0
    del parts  # Which closes the generator.
    assert budget.held_by("row groups") == 0


def test_an_error_that_is_kept_does_not_stop_the_next_read(tmp_path, monkeypatch):
    write_dataset(tmp_path, [40])
    monkeypatch.setattr(pieces, "_LEAST_BYTES", 2**9)
    columns = FrameReader(reel.open_dataset(tmp_path).manifest, Budget(2**9)).columns
    unfinished = columns._files.open(0).parts([0], ["action"], 1)
    next(unfinished)
    assert len(columns.gather("action", np.arange(40))) == 40
    assert next(unfinished) is not None


def test_an_array_that_another_thread_replaced_is_filled_all_the_same(tmp_path):
    write_dataset(tmp_path, LENGTHS)
    manifest = reel.open_dataset(tmp_path).manifest
    budget = Budget()
    columns, rows = FrameReader(manifest, budget).columns, np.arange(sum(LENGTHS))

    def replaced():
        budget.clear()  # As if another thread had put its own array in the place of ours.
        return ["action"]

    values = columns.gather("action", rows, together=replaced)
    np.testing.assert_array_equal(values, columns.gather("action", rows))


def say_another_length(root, episode, length):
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    lengths = table["length"].to_pylist()
    lengths[episode] = length
    place = table.schema.get_field_index("length")
    pq.write_table(table.set_column(place, "length", pa.array(lengths)), path)


@pytest.mark.parametrize("limit_bytes", [2**29, 100], ids=["one array", "row groups"])
@pytest.mark.parametrize("length", [2, 6])
def test_an_episode_of_another_length_is_refused_after_its_neighbours_were_read(
    tmp_path, length, limit_bytes
):
    write_dataset(tmp_path, [4] * 4, episodes_per_file=4)
    rewrite(tmp_path, rows=16)
    say_another_length(tmp_path, 1, length)
    columns, manifest = open_columns(tmp_path, limit_bytes)
    (start, _), bad, *_ = spans(manifest)
    for name in ("action", "frame_index", "note"):
        columns.gather(name, np.array([start]))
        for rows in (np.arange(*bad), np.array([start, bad[0]])):
            with pytest.raises(CorruptFileError, match=f"Episode 1 has {length} frames in the"):
                columns.gather(name, rows)


def test_values_are_right_after_the_budget_has_changed(tmp_path, monkeypatch):
    write_dataset(tmp_path, [1000])
    (path,) = sorted((tmp_path / "data").rglob("*.parquet"))
    small_pages = {"data_page_size": 512, "write_batch_size": 32, "use_dictionary": False}
    pq.write_table(pq.read_table(path), path, **small_pages)
    monkeypatch.setattr(pieces, "_LEAST_BYTES", 2**9)
    whole, _ = open_columns(tmp_path)
    rows, budget = np.arange(1000), Budget()
    columns = FrameReader(reel.open_dataset(tmp_path).manifest, budget).columns
    for limit_bytes in (2**17, 2**16, 2**18, 2**15):
        budget.limit_bytes = limit_bytes  # As opening another dataset with a `memory=` does.
        for name in ("note", "grid"):
            np.testing.assert_array_equal(columns.gather(name, rows), whole.gather(name, rows))
