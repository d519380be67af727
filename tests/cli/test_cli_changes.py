"""Commands that change a dataset print their plan and ask: the one rule, on undo and history."""

import json

import pytest
from typer.testing import CliRunner

from roboreel.cli import app
from roboreel.commit import Change, Commit, Workshop, list_changes


@pytest.fixture
def root(tmp_path):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text("old")
    commit = Commit(Workshop(tmp_path), change=Change("repair", "right \x1b[31mcounts"))
    commit.add("meta/info.json").write_text("new")
    commit.run()
    return tmp_path


def run(*words, answer=None, monkeypatch=None):
    if answer is not None:
        monkeypatch.setattr("roboreel.cli.confirm._is_terminal", lambda: True)
    return CliRunner().invoke(app, list(map(str, words)), input=answer)


def info(root):
    return (root / "meta" / "info.json").read_text()


def test_without_a_terminal_and_without_yes_a_command_refuses(root):
    for words in (["undo", root], ["history", root, "--purge"]):
        done = run(*words)
        assert done.exit_code == 2
        assert "--yes" in done.output
    assert info(root) == "new"
    assert len(list_changes(root)) == 1


def test_dry_run_prints_the_plan_and_changes_nothing(root):
    done = run("undo", root, "--dry-run")
    assert done.exit_code == 0
    assert "restored  1 file, 0.0 kB\n            meta/info.json" in done.output
    assert "\x1b" not in done.output
    assert info(root) == "new"


@pytest.mark.parametrize(("answer", "left"), [("y\n", "old"), ("n\n", "new"), ("\n", "new")])
def test_at_a_terminal_the_answer_counts(root, answer, left, monkeypatch):
    done = run("undo", root, answer=answer, monkeypatch=monkeypatch)
    assert done.exit_code == 0
    assert info(root) == left
    assert ("Nothing was changed." in done.output) == (left == "new")


def test_yes_does_not_ask_and_json_says_what_was_done(root):
    done = run("undo", root, "--yes", "--json")
    told = json.loads(done.stdout)
    assert (told["command"], told["done"], told["returned"]) == ("repair", True, ["meta/info.json"])
    assert info(root) == "old"


def test_history_shows_the_space_and_whether_undo_is_possible(root):
    told = json.loads(run("history", root, "--json").stdout)
    assert (told["kept_bytes"], told["undoable"]) == (3, True)
    assert "roboreel undo" in run("history", root).stdout
    (root / "meta" / "info.json").write_text("recorded")
    assert json.loads(run("history", root, "--json").stdout)["undoable"] is False
    assert "no longer what 'repair' left" in run("history", root).stdout
    assert run("history", root, "--keep", "1").exit_code == 2


def test_purging_is_asked_for_and_frees_the_store(root):
    assert json.loads(run("history", root, "--purge", "--yes", "--json").stdout)["purged"] == [1]
    assert list_changes(root) == []
    assert "no change that can be undone" in run("history", root).stdout
