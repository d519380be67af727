"""A wrong value on the command line: one sentence that names it, exit code 2, and nothing written."""

import json
import shutil
from pathlib import Path

import pytest

from tests.clean import FRONT, clean_dataset
from tests.cli.test_cli import COMMANDS, roboreel_, set_width

# Words of a command, and what the last line of its error says.
WRONG = [
    ("edit delete arm 0-9", "Episode 6 does not exist: there are 6 episodes, 0 to 5."),
    ("edit delete arm 0-5", "No episode would stay"),
    ("edit keep arm", "give --episodes or --where"),
    ("edit keep arm --where len>3", "There is no column 'len'"),
    ("edit trim arm 1", "give episodes and --from or --to"),
    ("edit trim arm 1 --from soon", "or the number of a frame, not 'soon'"),
    ("edit trim arm 9 --from 1", "Episode 9 does not exist"),
    ("edit trim arm 1 --from 900s", "No frame of the episode would stay"),
    ("edit cut arm 1 --at 0", "cannot be cut at frame 0"),
    ("edit cut arm 1 --at -1", "-1 is "),
    ("edit task arm  --episodes 0", "A task is a text"),
    ("edit set arm success", "NAME=VALUE was expected"),
    ("edit set arm length=3", "'length' cannot be set"),
    ("edit rename arm nothing x", "There is no feature 'nothing'"),
    ("edit rename arm index x", "every LeRobot dataset has it"),
    ("edit remove arm nothing", "There is no feature 'nothing'"),
    ("edit reencode arm action", "not as video"),
    (f"edit reencode arm {FRONT} --codec vp9", "No codec 'vp9'"),
    (f"edit resize arm {FRONT} --size big", "'big' is not a size"),
    (f"edit resize arm {FRONT} --size 0x3", "'0x3' is not a size"),
    ("edit resample arm --fps 0", "0.0 frames per second"),
    ("edit apply arm --recipe nothing.json", "No such file or directory"),
    ("edit apply arm --recipe deep.json", "Not JSON (maximum recursion depth"),
    ("prefetch arm --limit much", "'much' is not a size"),
    ("edit apply arm --recipe bad.json", "'do' must be one of delete, keep, trim"),
    ("edit scrub arm --scrub", "No such option"),
    ("merge arm --out new", "A merge takes two datasets or more, not 1."),
    ("merge arm nothing --out new", "No LeRobot dataset at 'nothing'"),
    ("merge arm arm --out arm", "'arm' already exists"),
    ("merge arm arm --out new --pad action", "NAME=VALUE was expected"),
    ("convert arm --to 9 --out new", "There is no version '9'"),
    ("convert arm --to 2.1 --out arm", "'arm' already exists"),
    ("split arm train=0.5 val=0.7 --out new", "add up to 1.2, not to 1"),
    ("split arm train --out new", "NAME=VALUE was expected"),
    ("split arm a/b=0.5 c=0.5 --out new", "'a/b' cannot be the name of a folder"),
    ("undo arm", "There is no change to undo: 'arm'."),
    ("history arm --keep 3", "--keep, --yes and --dry-run go with --purge."),
    ("repair arm --only RR999", "No rule has the code 'RR999'"),
    ("repair arm --drop-episodes 9", "Episode 9 does not exist"),
    ("check arm --only RR999", "No rule has the code 'RR999'"),
    ("check arm --baseline nothing.json", "There is no baseline"),
    ("check arm --write-baseline", "Name the file with --baseline."),
    ("job run nothing", "There is no job at"),
    ("job run nothing --shard 5", "'5' is not a shard"),
    ("job status nothing", "There is no job at"),
    ("job commit arm", "There is no job at"),
    ("job resume nothing", "There is no job at"),
    ("job remove arm", "There is no job at"),
    ("cache build arm --size 0x0", "'0x0' is not a size"),
    ("cache build arm --camera nothing", "No camera matches 'nothing'"),
    ("cache verify arm", "No cache at 'arm'"),
    ("cache remove arm", "No cache at 'arm'"),
    ("cache prune --keep-bytes much", "'much' is not a size"),
    ("demo arm", "'arm' already exists"),
    ("demo new --codec vp9", "codec is 'vp9'"),
    ("stats arm --workers 0", "Invalid value for '--workers'"),
    ("recover arm/meta", "No LeRobot dataset at 'arm/meta'"),
    ("compact arm/meta", "No LeRobot dataset at 'arm/meta'"),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("wrong") / "arm"
    clean_dataset(root)
    return root


@pytest.fixture
def folder(template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "arm")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "bad.json").write_text(json.dumps({"operations": [{"do": "fly"}]}))
    monkeypatch.chdir(tmp_path)
    set_width(80, monkeypatch)
    return tmp_path


def everything(folder):
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): path.read_bytes() for path in files}


def name_of(given):
    return next(" ".join(given[:n]) for n in (2, 1) if " ".join(given[:n]) in COMMANDS)


def test_every_command_that_asks_before_it_changes_something_is_here():
    asking = {
        name
        for name, command in COMMANDS.items()
        if any("--yes" in parameter.opts for parameter in command.params)
    }
    assert asking <= {name_of(words.split(" ")) for words, _ in WRONG}


@pytest.mark.parametrize(("words", "says"), WRONG, ids=[words for words, _ in WRONG])
def test_a_wrong_value_is_named_and_changes_nothing(words, says, folder):
    before = everything(folder)
    given = words.split(" ")
    if any("--yes" in one.opts for one in COMMANDS[name_of(given)].params):
        given.append("--yes")
    done = roboreel_(*given)
    assert done.code == 2
    line = done.err.splitlines()[-1]
    assert line.startswith("Error: ")
    assert says in line
    assert "Traceback" not in done.err
    assert everything(folder) == before
    assert not Path("new").exists()
