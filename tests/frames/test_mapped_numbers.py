"""Numbers beyond the budget: a mapped copy, and a warning that says what would help."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import roboreel as reel
from roboreel.dataset.cache import build
from roboreel.errors import CacheError
from roboreel.frames import pieces
from roboreel.frames.frame_reader import FrameReader
from roboreel.io.budget import Budget
from tests.factory import write_dataset

LENGTHS = [30, 1, 55, 12]
ROWS = [97, 0, 30, 31, 31, 60]


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOREEL_CACHE", str(tmp_path / "caches"))
    write_dataset(tmp_path / "data", LENGTHS)
    return tmp_path / "data"


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert np.asarray(one[name]).dtype == np.asarray(other[name]).dtype, name
        assert np.array_equal(one[name], other[name]), name


@pytest.mark.parametrize("block_bytes", [1, 200, 2**25])
def test_mapped_numbers_are_those_of_the_dataset(block_bytes, root, monkeypatch):
    monkeypatch.setattr(build, "_BLOCK_BYTES", block_bytes)
    plain, mapped = reel.open_dataset(root), reel.open_dataset(root, numbers="mapped")
    names = [name for name, feature in plain.features.items() if not feature.is_camera]
    windows = {"action": range(-3, 4)}
    same(mapped.read(ROWS, names, windows=windows), plain.read(ROWS, names, windows=windows))
    assert mapped.memory.paths["action"] == "training cache, mapped"


def test_the_copy_is_written_once_and_again_when_the_dataset_changes(root, monkeypatch):
    built = []
    write = build._build

    def counted(*given):
        built.append(1)
        write(*given)

    monkeypatch.setattr(build, "_build", counted)
    reel.open_dataset(root, numbers="mapped")
    reel.open_dataset(root, numbers="mapped")
    assert len(built) == 1
    data = next((root / "data").rglob("*.parquet"))
    data.write_bytes(data.read_bytes())  # Its time changes, and with it its state.
    opened = reel.open_dataset(root, numbers="mapped")
    assert len(built) == 2
    same(opened.read(ROWS, ["action"]), reel.open_dataset(root).read(ROWS, ["action"]))


def test_a_pickle_finds_the_copy(root):
    mapped = pickle.loads(pickle.dumps(reel.open_dataset(root, numbers="mapped")))
    assert mapped.memory.paths["action"] == "training cache, mapped"


def test_a_disk_without_space_is_an_error_before_anything_is_written(root, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1))
    with pytest.raises(CacheError, match=r"MB are free. Set ROBOREEL_CACHE"):
        reel.open_dataset(root, numbers="mapped")


def test_a_folder_of_caches_that_cannot_be_made_is_an_error_that_says_what_to_do(
    root, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROBOREEL_CACHE", str(tmp_path / "file"))
    with pytest.raises(CacheError, match=r"cannot be written .* Set ROBOREEL_CACHE"):
        reel.open_dataset(root, numbers="mapped")


def test_a_read_only_folder_of_caches_is_an_error_that_says_what_to_do(root, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(CacheError, match=r"it is read-only.* Set ROBOREEL_CACHE"):
        reel.open_dataset(root, numbers="mapped")


def test_another_word_is_refused(root):
    with pytest.raises(ValueError, match="'in place' or 'mapped', not 'fast'"):
        reel.open_dataset(root, numbers="fast")  # type: ignore[arg-type]


def read_often(columns):
    for _ in range(30):
        columns.gather("action", np.array(ROWS))


def test_reading_row_groups_again_and_again_warns_once_and_says_what_helps(root, monkeypatch):
    monkeypatch.setattr(pieces, "_MANY_READS", 4)
    columns = FrameReader(reel.open_dataset(root).manifest, Budget(500)).columns
    with pytest.warns(UserWarning, match=r"raise `memory=` to .* numbers='mapped'") as warned:
        read_often(columns)
    assert len(warned) == 1
    assert "numbers='mapped'" in columns.rung("action")


def test_a_single_pass_does_not_warn(root, monkeypatch):
    monkeypatch.setattr(pieces, "_MANY_READS", 0)
    columns = FrameReader(reel.open_dataset(root).manifest, Budget(500)).columns
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for row in (0, 30, 31, 86):
            columns.gather("action", np.array([row]))
