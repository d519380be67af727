"""A damaged mirror is counted and passed over: its neighbours are read and make room as ever."""

import os

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import MirrorError
from roboreel.mirror.geometry import BLOCK_BYTES, SEGMENT_BYTES
from roboreel.mirror.holes import stored_bytes
from roboreel.mirror.opening import _make
from tests.mirror.remote_folder import FolderClient, mirror_folder


@pytest.fixture
def far(tmp_path):
    folder = tmp_path / "far"
    folder.mkdir()
    (folder / "a.bin").write_bytes(np.random.default_rng(0).bytes(4 * SEGMENT_BYTES))
    return FolderClient(folder)


def read_all(mirror, far):
    content = (far.root / "a.bin").read_bytes()
    file = mirror.open(mirror.folder.tree / "a.bin", "file")
    for start in range(0, len(content), SEGMENT_BYTES):
        stop = start + SEGMENT_BYTES
        assert file.read(start, stop) == content[start:stop]


def damage_text(path):
    path.write_text("[\n")


def damage_kind(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [damage_text, damage_kind])
def test_room_is_made_beside_a_damaged_mirror(far, tmp_path, damage):
    home = tmp_path / "home"
    mirror = mirror_folder(far, home, name="good")
    _make(mirror.home, "bad", far.list_files(), {"url": "test://bad"})
    (home / "bad" / "bytes" / "0").write_bytes(bytes(BLOCK_BYTES))
    damage(home / "bad" / "table.jsonl")
    mirror.home.limit_bytes = 2 * SEGMENT_BYTES
    with pytest.warns(UserWarning, match=r"damaged mirror takes room .*mirror prune.*bad'"):
        read_all(mirror, far)
    read_all(mirror, far)  # said once
    held = mirror.home.held_bytes()
    assert stored_bytes(home / "bad") <= held <= mirror.home.limit_bytes


@pytest.mark.parametrize("text", ["[" * 100_000, '{"url": 5, "is_listed": 1}', "[]", None])
def test_what_is_no_description_of_a_mirror_is_refused(tmp_path, text):
    (tmp_path / "files").mkdir()
    (tmp_path / "mirror.json").write_text(text or "")
    if text is None:
        os.truncate(tmp_path / "mirror.json", 2**40)
    with pytest.raises(MirrorError, match="Not a mirror"):
        reel.open_dataset(tmp_path / "files")
