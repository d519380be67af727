"""Streams that are closed, full, or that nobody reads any more: no traceback, and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from roboreel.cli import app, main
from tests.clean import clean_dataset

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
RUNS = (
    ("info ARM", "", 141),
    ("check ARM --json", "", 141),
    ("check ARM --tier metadata", ">&-", 0),
    ("info ARM", "2>&- >/dev/null", 0),
    ("info nothing", "2>&-", 2),
)


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return clean_dataset(tmp_path_factory.mktemp("streams") / "arm")


@pytest.mark.parametrize(("words", "streams", "code"), RUNS)
def test_a_command_ends_quietly(arm, words, streams, code):
    read, write = os.pipe()
    os.close(read)  # Nobody reads what the command prints, from its first byte on.
    command = f'"$0" -m roboreel {words.replace("ARM", str(arm))} {streams}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (code, "")


def test_a_warning_is_a_problem_without_a_line_of_code(monkeypatch, capsys):
    def warn(_, **__):
        warnings.warn("A mirror\x1b[31m is damaged.", UserWarning, stacklevel=2)

    before = warnings.showwarning
    monkeypatch.setattr(type(app), "__call__", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main()
    assert capsys.readouterr().err == "Problem: A mirror\\x1b[31m is damaged.\n"
    assert warnings.showwarning is before
