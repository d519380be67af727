"""Every command: at 80 columns, piped, as JSON, with wrong input, and its exit code."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

import roboreel
from roboreel.cli import app, main
from roboreel.cli.commands import COMMANDS as ENTRIES
from roboreel.cli.console import errors, output
from roboreel.commit import Change, Commit, Workshop
from roboreel.dataset.episode_numbers import parse_episodes
from roboreel.schema import Feature
from tests import factory
from tests.clean import FRONT, clean_dataset
from tests.remote.remote_servers import FileServer

CAMERAS = [f"observation.images.cam_high_on_the_left_wrist_{side}" for side in ("inner", "outer")]
FEATURES = {
    "observation.state": Feature("float32", (8,), tuple(f"left_arm_joint_{i}" for i in range(8))),
    **{name: Feature("image", (8, 12, 3)) for name in CAMERAS},
}
# Every command that runs to its end on the dataset `arm`, in an order in which each can.
RUNS = {
    "info": ["info", "arm", "--episodes"],
    "stats": ["stats", "arm"],
    "report": ["report", "arm", "--out", "page.html", "--episodes", "1"],
    "export": ["export", "arm", "--out", "recordings", "--episodes", "0,2-3"],
    "view": ["view", "arm", "--episode", "1"],
    "compact": ["compact", "arm", "--dry-run"],
    "recover": ["recover", "arm", "--dry-run"],
    "undo": ["undo", "arm", "--yes"],
    "history": ["history", "arm"],
    "demo": ["demo", "made", "--episodes=1", "--frames=3", "--cameras=0"],
    "check": ["check", "arm"],
    "repair": ["repair", "arm", "--yes"],
    "import": ["import", "run", "--out", "brought", "--task", "pour"],
    "merge": ["merge", "arm", "arm", "--out", "both", "--yes"],
    "convert": ["convert", "arm", "--to", "2.1", "--out", "old", "--yes"],
    "split": ["split", "arm", "train=0.5", "val=0.5", "--seed", "1", "--out", "parts", "--yes"],
    "edit delete": ["edit", "delete", "arm", "1", "--yes"],
    "edit keep": ["edit", "keep", "arm", "--where", "length > 3", "--yes"],
    "edit trim": ["edit", "trim", "arm", "1,2", "--from", "0.03s", "--to", "3", "--yes"],
    "edit cut": ["edit", "cut", "arm", "2", "--at", "2", "--out", "cut", "--yes"],
    "edit task": ["edit", "task", "arm", "pour", "--episodes", "0-2", "--yes"],
    "edit set": ["edit", "set", "arm", "success=true", "--yes", "--dry-run"],
    "edit rename": ["edit", "rename", "arm", "observation.state", "state", "--yes"],
    "edit remove": ["edit", "remove", "arm", "observation.state", "--yes"],
    "edit reencode": ["edit", "reencode", "arm", FRONT, "--codec", "h264", "--yes"],
    "edit resize": ["edit", "resize", "arm", FRONT, "--size", "24x32", "--dry-run"],
    "edit resample": ["edit", "resample", "arm", "--fps", "15", "--yes"],
    "edit scrub": ["edit", "scrub", "arm", "--yes"],
    "edit apply": ["edit", "apply", "arm", "--recipe", "recipe.json", "--scrub", "--yes"],
    "cache build": ["cache", "build", "arm", "--size", "4x6", "--out", "caches/arm"],
    "cache list": ["cache", "list", "--home", "caches"],
    "cache verify": ["cache", "verify", "caches/arm", "--dataset", "arm"],
    "cache prune": ["cache", "prune", "--keep-bytes", "1GB", "--home", "caches"],
    "cache remove": ["cache", "remove", "caches/arm"],
    "prefetch": ["prefetch", "arm"],
    "mirror list": ["mirror", "list", "--home", "mirrors"],
    "mirror prune": ["mirror", "prune", "--keep-bytes", "1GB", "--home", "mirrors"],
    "job run": ["job", "run", "jobs/work", "--shard", "0/2", "--workers", "1"],
    "job status": ["job", "status", "jobs/work"],
    "job list": ["job", "list", "--home", "jobs"],
    "job commit": ["job", "commit", "jobs/work"],
    "job resume": ["job", "resume", "jobs/work", "--workers", "1", "--verify"],
    "job remove": ["job", "remove", "jobs/work"],
}
NEED_A_CACHE = ("cache list", "cache verify", "cache prune", "cache remove")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def roboreel_(*words):
    """Run the command line in this process, with stdout and stderr piped."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code = 0
    before, sys.argv = sys.argv, ["roboreel", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    finally:
        sys.argv = before
    for stream in (out, err):
        stream.flush()
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def commands(group=None, path=()):
    """Yield every command's words and the command itself."""
    group = group or typer.main.get_command(app)
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands())
WITH_JSON = [
    name
    for name, command in COMMANDS.items()
    if any("--json" in parameter.opts for parameter in command.params)
]
ON_A_DATASET = [name for name in RUNS if "arm" in RUNS[name]]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("cli")
    factory.write_dataset(root / "arm", [3, 4, 5, 3], features=FEATURES)
    return root


@pytest.fixture
def folder(template, tmp_path, monkeypatch):
    """The current folder: `arm` is a dataset in it."""
    shutil.copytree(template / "arm", tmp_path / "arm")
    monkeypatch.chdir(tmp_path)
    set_width(80, monkeypatch)
    # Outside of a terminal these ask for colours all the same.
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def set_width(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    for console in (output, errors):
        monkeypatch.setattr(console, "width", columns)  # It was read when the console was made.


def prepare(name, monkeypatch):
    if name in ("export", "view"):
        pytest.importorskip("rerun")
    if name == "view":
        monkeypatch.setattr("roboreel.rerun.viewer.open_viewer", lambda files, port: None)
    if name in ("undo", "history"):
        commit = Commit(Workshop(Path("arm")), change=Change("repair", "new statistics"))
        commit.add("meta/stats.json").write_text("{}")
        commit.run()
    if name in ("edit reencode", "edit resize"):  # of cameras that are video
        shutil.rmtree("arm")
        clean_dataset(Path("arm"))
    if name == "edit apply":
        said = {
            "operations": [{"do": "delete", "episodes": [0]}, {"do": "cut", "episode": 2, "at": 1}]
        }
        Path("recipe.json").write_text(json.dumps(said))
    if name == "import":
        Path("run").mkdir()
        Path("run/log.csv").write_text("timestamp,action_0,action_1\n0.0,1,2\n0.1,3,4\n")
    if name.startswith("job"):
        made = roboreel_("stats", "arm", "--on", "slurm", "--shards", "2", "--job", "jobs/work")
        assert (made.code, made.err) == (0, "")
    if name == "job commit":
        assert roboreel_("job", "run", "jobs/work", "--workers", "1").code == 0
    if name.startswith("mirror"):
        pytest.importorskip("obstore")
        with FileServer(Path()) as server:
            roboreel.open_dataset(f"{server.url}/arm", mirror="mirrors")
    if name in NEED_A_CACHE:
        assert roboreel_(*RUNS["cache build"]).code == 0


def test_every_command_is_run_here():
    assert set(RUNS) == set(COMMANDS)


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.summary])
def test_the_list_says_of_a_command_what_its_help_says(name):
    group: Any = typer.main.get_command(app)
    assert group.get_command(None, name).help.startswith(ENTRIES[name].summary)


@pytest.mark.parametrize("name", RUNS)
def test_a_command_fits_80_columns_and_writes_plain_text_to_a_pipe(name, folder, monkeypatch):
    prepare(name, monkeypatch)
    done = roboreel_(*RUNS[name])
    assert (done.code, done.err) == (0, "")
    assert done.out or name == "view"
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines()), default=0) <= 80


@pytest.mark.parametrize("name", WITH_JSON)
def test_json_is_all_that_stdout_gets(name, folder, monkeypatch):
    prepare(name, monkeypatch)
    done = roboreel_(*RUNS[name], "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)


@pytest.mark.parametrize("name", ON_A_DATASET)
def test_a_missing_folder_is_one_sentence_and_exit_code_2(name, folder, monkeypatch):
    prepare(name, monkeypatch)
    shutil.rmtree("arm")
    done = roboreel_(*RUNS[name])
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("Error: No LeRobot dataset at 'arm': there is no such folder.")


@pytest.mark.parametrize("name", ["export", "view", "report"])
def test_an_episode_that_does_not_exist_is_one_sentence_and_exit_code_2(name, folder, monkeypatch):
    prepare(name, monkeypatch)
    wrong = ["7" if word in ("1", "0,2-3") else word for word in RUNS[name]]
    done = roboreel_(*wrong)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("Error: Episode 7 does not exist: there are 4 episodes, 0 to 3")


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "-1", "0-99999999"])
def test_what_is_not_a_list_of_episodes_is_wrong_usage(text, folder):
    with pytest.raises(ValueError, match=r"not a list of episodes|more episodes than"):
        parse_episodes(text)
    done = roboreel_("report", "arm", f"--episodes={text}")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith("Error: Invalid value for '--episodes'")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_option_is_wrong_usage(name, folder):
    done = roboreel_(*name.split(), "--nonsense")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: roboreel " + name)
    assert re.match(r"Error: No such option:? '?--nonsense", done.err.splitlines()[-1])


@pytest.mark.parametrize("wanted", ["-h", "--help"])
@pytest.mark.parametrize("name", ["", "cache", "edit", "job", *COMMANDS])
def test_every_command_has_help(name, wanted, folder):
    done = roboreel_(*name.split(), wanted)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: roboreel {name}".rstrip())
    assert max(map(len, done.out.splitlines())) <= 80
    assert "..." not in done.out.partition("Options:")[2], "a summary was cut off"


def test_the_help_tells_the_exit_codes(folder):
    said = " ".join(roboreel_("-h").out.split())
    assert "Exit codes: 0 success; 1 a check found problems; 2 wrong usage or failure." in said


def test_names_and_numbers_are_whole_at_80_columns(folder):
    info = roboreel_("info", "arm").out
    unwrapped = "".join(line.split(" ")[0] for line in info.splitlines())
    for name in CAMERAS:
        assert name in unwrapped
    stats = roboreel_("stats", "arm").out
    assert "observation.state (15 values)" in stats
    assert "…" not in stats.replace("… 2 more", "")
    assert stats.splitlines()[0].split() == ["min", "max", "mean", "std", "q01", "q50", "q99"]


def test_a_wide_terminal_shows_all_quantiles(folder, monkeypatch):
    set_width(120, monkeypatch)
    heading = roboreel_("stats", "arm").out.splitlines()[0]
    assert heading.split()[4:] == ["q01", "q10", "q50", "q90", "q99"]


def test_a_check_that_finds_problems_exits_with_1(folder):
    stats = Path("arm/meta/stats.json")
    wrong = {"mean": [9.0], "std": [1.0], "min": [0.0], "max": [9.0], "count": [15]}
    known = json.loads(stats.read_text()) if stats.exists() else {}
    stats.write_text(json.dumps({**known, "timestamp": wrong}))
    done = roboreel_("stats", "arm", "--check")
    assert done.code == 1
    assert "Problem: 'timestamp': mean is 9 in the metadata" in done.out
    checked = roboreel_("stats", "arm", "--check", "--json")
    assert checked.code == 1
    assert json.loads(checked.out)["problems"]


def test_the_statistics_of_a_counter_are_compared_too(folder):
    stats = clean_dataset(Path("d")) / "meta/stats.json"
    known = json.loads(stats.read_text())
    index = known["episode_index"]
    index["min"], index["max"] = [1], [5]
    stats.write_text(json.dumps(known))
    done = roboreel_("stats", "d", "--check")
    assert done.code == 1
    assert "Problem: 'episode_index': min is 1 in the metadata" in done.out
    assert "agree" not in done.out
    assert roboreel_("check", "d", "--only", "RR501").code == 0


def test_stats_say_whether_they_are_stored_or_computed(folder):
    stats = clean_dataset(Path("d")) / "meta/stats.json"
    known = json.loads(stats.read_text())
    known["action"]["max"] = [777.0] * len(known["action"]["max"])
    stats.write_text(json.dumps(known))
    for options in ([], ["--stored"]):
        said = roboreel_("stats", "d", *options).out
        assert "777" in said
        assert "These are stored in the metadata." in said
    for options in (["--computed"], ["--on", "local"], ["--workers", "1"]):
        said = roboreel_("stats", "d", *options).out
        assert "777" not in said
        assert "These are computed from the values." in said
    refused = roboreel_("stats", "d", "--stored", "--on", "local")
    assert refused.code == 2
    assert "--stored reads the metadata only." in " ".join(refused.err.split())


def test_text_from_a_dataset_cannot_control_the_terminal(folder):
    info = Path("arm/meta/info.json")
    facts = json.loads(info.read_text())
    facts["robot_type"] = "\x1b[2J[red]arm :ok:"
    info.write_text(json.dumps(facts))
    assert r"robot \x1b[2J[red]arm :ok:, 30 fps" in roboreel_("info", "arm").out


def test_a_dataset_of_the_hub_is_found_by_its_address(folder, monkeypatch):
    monkeypatch.setenv("HF_LEROBOT_HOME", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shutil.move("arm", "somebody/arm")
    done = roboreel_("info", "hf://datasets/somebody/arm", "--json")
    assert json.loads(done.out)["episodes"] == 4
    missing = roboreel_("info", "hf://datasets/somebody/else")
    assert missing.code == 2
    assert missing.err.startswith("Error: 'somebody/else' is not on this machine.")


@pytest.mark.parametrize("name", ["compact", "recover"])
def test_a_dataset_of_the_hub_is_not_changed(name, folder):
    done = roboreel_(name, "hf://datasets/somebody/arm")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: A dataset is written to a folder on this machine")


def test_what_the_system_refuses_is_one_sentence(folder):
    Path("file").touch()
    done = roboreel_("report", "arm", "--out", "file/page.html")
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith("Error: ")
    assert "file" in line


@pytest.mark.parametrize("name", ["export", "view"])
def test_without_the_extra_the_error_says_how_to_install_it(name, folder, monkeypatch):
    for module in [*sys.modules]:
        if module.startswith("roboreel.rerun"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "rerun", None)
    done = roboreel_(*RUNS[name])
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.endswith("pip install 'roboreel[rerun]'")


def test_the_package_runs_as_a_module_and_shows_any_text_in_any_encoding(folder):
    tasks = Path("arm/meta/info.json")
    tasks.write_text(tasks.read_text(encoding="utf-8").replace("test_arm", "机器人"), "utf-8")
    paths = [str(Path(roboreel.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "roboreel", "info", "arm"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert r"robot \u673a\u5668\u4eba" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="bash's completion")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("roboreel st", ["stats"]),
        ("roboreel info --js", ["--json"]),
        ("roboreel info a", []),  # Nothing of ours: bash goes on with the names of files.
    ],
)
def test_the_shell_completes_commands_and_options(typed, offered, folder, monkeypatch):
    monkeypatch.setenv("_ROBOREEL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    assert roboreel_().out.split() == offered


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ("--version", "numpy"),
        ("--help", "numpy"),
        ("info --help", "roboreel.edit"),
        ("undo --help", "av"),
    ],
)
def test_a_command_imports_only_what_it_needs(words, absent):
    code = (
        f"import sys; sys.argv = ['roboreel', *{words.split()!r}]\n"
        "from roboreel.__main__ import main\n"
        "try: main()\n"
        f"finally: print('loaded:', {absent!r} in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: False"
