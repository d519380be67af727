"""Atomic writes."""

import errno
import os
import sys
from pathlib import Path

import av
import pytest

from roboreel.files import (
    atomic_file,
    atomic_folder,
    link_file,
    remove_leftovers,
    write_atomically,
)


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


class TestLeftovers:
    """What killed processes left is removed; what is being written, or is not ours, is not."""

    def test_the_next_writer_removes_what_a_killed_one_left(self, tmp_path):
        left = tmp_path / ".0123456789ab.tmp-b.json"
        left.write_text("half")
        write_atomically(tmp_path / "b.json", "{}")
        assert [path.name for path in tmp_path.iterdir()] == ["b.json"]
        folder = tmp_path / ".0123456789ab.tmp-folder"
        (folder / "inside").mkdir(parents=True)
        with atomic_folder(tmp_path / "folder"):
            assert not folder.exists()

    def test_what_is_being_written_stays(self, tmp_path):
        with atomic_file(tmp_path / "a") as file, atomic_folder(tmp_path / "b") as folder:
            file.write_text("half")
            (folder / "c").write_text("half")
            remove_leftovers(tmp_path)
            assert file.exists()
            assert (folder / "c").exists()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]

    @pytest.mark.parametrize("name", ["a", ".0123456789ab.tmp", ".tmp-a", ".0123456789AB.tmp-a"])
    def test_other_names_stay(self, tmp_path, name):
        (tmp_path / name).write_text("mine")
        remove_leftovers(tmp_path)
        assert (tmp_path / name).read_text() == "mine"

    def test_no_link_is_followed(self, tmp_path):
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "thesis").write_text("mine")
        (tmp_path / ".0123456789ab.tmp-a").symlink_to(tmp_path / "home", target_is_directory=True)
        remove_leftovers(tmp_path)
        assert (tmp_path / "home" / "thesis").read_text() == "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to see what is synced")
def test_all_of_a_folder_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    path, synced = tmp_path / "folder", set()

    def fsync(handle: int) -> None:
        if not path.exists():
            synced.add(Path(f"/proc/self/fd/{handle}").readlink().name)

    with atomic_folder(path) as unfinished:
        (unfinished / "inner").mkdir()
        (unfinished / "inner" / "file").write_text("x")
        (unfinished / "inner" / "file").chmod(0o444)
        monkeypatch.setattr(os, "fsync", fsync)
    assert synced == {"file", "inner", unfinished.name}


def test_a_full_disk_is_told_with_the_name_of_the_file_also_by_ffmpeg(tmp_path):
    for kind in (OSError, av.error.OSError):
        with (
            pytest.raises(OSError, match=r"No space left on device: '.*clip\.mp4'"),
            atomic_file(tmp_path / "clip.mp4"),
        ):
            raise kind(errno.ENOSPC, "No space left on device")


def test_a_second_name_is_one_of_the_file_that_a_symbolic_link_leads_to(tmp_path):
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "blob").write_bytes(b"frames")
    (tmp_path / "snapshot" / "file").symlink_to(Path("..") / "blob")
    target = tmp_path / "other" / "place" / "file"
    target.parent.mkdir(parents=True)
    link_file(tmp_path / "snapshot" / "file", target)
    assert not target.is_symlink()
    assert target.read_bytes() == b"frames"
