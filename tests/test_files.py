"""Atomic writes."""

import pytest

from roboreel.storage.files import atomic_file, write_atomically


def test_a_file_appears_whole_with_its_folder(tmp_path):
    write_atomically(tmp_path / "a" / "b.json", "{}")
    assert (tmp_path / "a" / "b.json").read_text() == "{}"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]


def test_when_writing_fails_the_old_file_stays_and_nothing_else(tmp_path):
    path = tmp_path / "b.json"
    path.write_text("old")
    with pytest.raises(FileNotFoundError), atomic_file(path) as temporary:
        (temporary.parent / "absent").rename(temporary)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
