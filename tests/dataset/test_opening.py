"""Opening a dataset while another process records into it and compacts it."""

import subprocess
import sys

import pytest

import roboreel as reel
from roboreel import format as format_module
from roboreel.errors import MissingFileError
from roboreel.format import read_manifest
from tests import PROJECT
from tests.factory import write_dataset

WRITER = """
import sys, warnings
import roboreel as reel
from roboreel.record.compact import compact_dataset
from tests.recordings import features, record
for _ in range({rounds}):
    with reel.resume_dataset(sys.argv[1], compact_on_close=False) as recorder:
        for _ in range(3):
            record(recorder, recorder.num_episodes, 1)
            recorder.save_episode()
    compact_dataset(sys.argv[1])
"""


@pytest.mark.long
@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_a_dataset_opens_at_any_moment_of_a_compaction(tmp_path, rounds):
    from tests.recordings import FPS, features

    reel.create_dataset(tmp_path / "d", fps=FPS, features=features(None)).close()
    command = [sys.executable, "-c", WRITER.format(rounds=rounds), str(tmp_path / "d")]
    with subprocess.Popen(command, cwd=PROJECT) as writer:
        opened, before = 0, 0
        while writer.poll() is None:
            count = len(reel.open_dataset(tmp_path / "d").episodes)
            assert count >= before
            opened, before = opened + 1, count
    assert writer.returncode == 0
    assert opened > 3
    assert len(reel.open_dataset(tmp_path / "d").episodes) == 3 * rounds


def test_a_table_that_was_moved_away_while_it_was_read_is_looked_for_again(tmp_path, monkeypatch):
    write_dataset(tmp_path / "d", [3, 4])
    real, tries = format_module._read, []

    def moved_once(root):
        tries.append(root)
        if len(tries) == 1:
            info = root / "meta" / "info.json"
            info.write_text(info.read_text() + "\n")
            raise MissingFileError("gone")
        return real(root)

    monkeypatch.setattr(format_module, "_read", moved_once)
    assert len(read_manifest(tmp_path / "d").episodes) == 2
    assert len(tries) == 2


def test_a_failure_without_a_change_is_told_at_once(tmp_path, monkeypatch):
    write_dataset(tmp_path / "d", [3, 4])
    tries = []

    def missing(root):
        tries.append(root)
        raise MissingFileError("gone")

    monkeypatch.setattr(format_module, "_read", missing)
    with pytest.raises(MissingFileError, match="gone"):
        read_manifest(tmp_path / "d")
    assert len(tries) == 1
