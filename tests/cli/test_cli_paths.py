"""Paths on the command line: ``~`` in every option, and errors that name what the user has typed."""

from __future__ import annotations

import errno
import json
import os

import pytest

from tests.clean import clean_dataset
from tests.cli.test_cli import roboreel_

# Commands, and what they write below the home.
WRITERS = {
    "report ~/arm --out ~/page.html": "page.html",
    "export ~/arm --out ~/recordings --episodes 0": "recordings",
    "cache build ~/arm --numbers-only --out ~/cache": "cache",
    "cache build ~/arm --numbers-only --out ~/cache --workers 1": "cache",
    "check ~/arm --tier metadata --baseline ~/known.json --write-baseline": "known.json",
    "demo ~/made --episodes 1 --frames 3 --cameras 0": "made",
    "stats ~/arm --on slurm --job ~/job": "job",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    clean_dataset(home / "arm")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(elsewhere)
    return home


@pytest.mark.skipif(os.name != "posix", reason="the home is named by HOME")
@pytest.mark.parametrize("words", WRITERS)
def test_a_tilde_is_the_home_in_every_option(words, home, tmp_path):
    if words.startswith("export"):
        pytest.importorskip("rerun")
    done = roboreel_(*words.split())
    assert done.code == 0, done.err
    assert (home / WRITERS[words]).exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    if words.startswith("cache"):
        assert roboreel_("cache", "verify", "~/cache").code == 0
        assert "cache" in roboreel_("cache", "list", "--home", "~/").out


def test_an_error_names_the_file_that_was_asked_for(home):
    (home / "page.html").mkdir()
    said = roboreel_("report", str(home / "arm"), "--out", "../home/page.html")
    assert said.code == 2
    assert said.err.endswith("'../home/page.html'\n")


def test_a_full_disk_is_named_by_what_was_to_be_written(home, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    said = roboreel_("check", "~/arm", "--baseline", "known.json", "--write-baseline")
    assert said.code == 2
    assert said.err == f"Error: {os.strerror(errno.ENOSPC)}: 'known.json'\n"


def test_check_takes_json_as_other_commands_do(home):
    assert json.loads(roboreel_("check", "~/arm", "--json").out)
