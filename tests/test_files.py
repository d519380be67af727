"""Atomic writes."""

import pytest

from roboreel.files import atomic_file, atomic_folder, write_atomically


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


@pytest.mark.parametrize("is_there", [False, True], ids=["nothing there", "an empty folder there"])
def test_a_folder_appears_when_it_is_filled(tmp_path, is_there):
    path = tmp_path / "a" / "folder"
    if is_there:
        path.mkdir(parents=True)
    with atomic_folder(path) as unfinished:
        (unfinished / "file").write_text("x")
        assert not (path / "file").exists()
    assert (path / "file").read_text() == "x"
    assert [entry.name for entry in path.parent.iterdir()] == ["folder"]


def test_a_folder_that_is_not_finished_leaves_nothing(tmp_path):
    def fill():
        with atomic_folder(tmp_path / "folder") as unfinished:
            (unfinished / "file").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert list(tmp_path.iterdir()) == []
