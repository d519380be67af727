#!/usr/bin/env python3
"""Run the tests in other environments: other Pythons, no extras, lowest versions.

python .ci/matrix.py                          core and lowest, on every Python that is here
python .ci/matrix.py core-3.12 'lowest-*'     these alone
python .ci/matrix.py --list                   all names

`make matrix` and the hosted workflow both run this file, so that they cannot differ.
It needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

PROJECT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
DEFAULT = ("core-*", "lowest-3*")
TESTS = "not slow and not load and not network and not interop"
# First and pinned, so that the ranges of other packages find it installed.
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Environment:
    """One set of packages that the tests run with."""

    kind: str
    python: str

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return f"{self.kind}-{self.python}"

    def installs(self) -> list[list[str]]:
        """Return the arguments of each ``pip install``, in order."""
        every = ["--editable", ".[all]", "--group", "test", "--group", "bench"]
        if self.kind == "core":
            return [["--editable", ".", "--group", "test"]]
        if self.kind == "all":
            return [[TORCH], every]
        if self.kind == "lowest":
            return [["--editable", ".", "--group", "test", *lower_bounds("core")]]
        # The lowest versions of the extras need newer ones of the core here and there.
        return [[*every, *lower_bounds("extras")]]


ENVIRONMENTS = (
    *(Environment("core", python) for python in PYTHONS),
    *(Environment("all", python) for python in PYTHONS),
    # The oldest wheels exist for the oldest Python alone.
    Environment("lowest", PYTHONS[0]),
    Environment("lowest-extras", PYTHONS[0]),
)


@dataclass(frozen=True)
class Outcome:
    """What became of one environment."""

    name: str
    result: str
    """passed, failed or skipped."""
    detail: str
    duration_s: float = 0.0


def main() -> int:
    """Run the chosen environments, print a table, and return 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--folder", type=Path, default=PROJECT / ".matrix", help="for environments")
    parser.add_argument("--workers", default="auto", help="processes that run tests")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    if options.list:
        print(*(one.name for one in ENVIRONMENTS), sep="\n")
        return 0
    patterns = options.names or DEFAULT
    chosen = [one for one in ENVIRONMENTS if any(fnmatch.fnmatch(one.name, p) for p in patterns)]
    if not chosen:
        parser.error(f"no environment is called {' or '.join(patterns)}; see --list")
    outcomes = [run(one, options.folder, options.workers) for one in chosen]
    print_table(outcomes)
    return int(any(outcome.result == "failed" for outcome in outcomes))


def run(environment: Environment, folder: Path, workers: str) -> Outcome:
    """Make an environment anew, install into it and run the tests there."""
    name = environment.name
    python = find_python(environment.python)
    if python is None:
        print(f"{name}: skipped, there is no python{environment.python}", flush=True)
        return Outcome(name, "skipped", f"no python{environment.python}")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / name, ignore_errors=True)
    started = time.monotonic()
    log_path = folder / f"{name}.log"
    print(f"{name}: running, see {log_path}", flush=True)
    with log_path.open("w+", encoding="utf-8", errors="replace") as log:
        result, detail = run_steps(environment, python, folder / name, workers, log)
        if result == "failed":
            log.seek(0)
            print("".join(log.readlines()[-200:]), flush=True)
    return Outcome(name, result, detail, time.monotonic() - started)


def run_steps(
    environment: Environment, python: str, venv: Path, workers: str, log: TextIO
) -> tuple[str, str]:
    """Carry out one environment's commands; return the result and a line about it."""
    inside = str(venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    install = [inside, "-m", "pip", "install", "--quiet"]
    steps = [[python, "-m", "venv", str(venv)], [*install, "pip>=25.1"]]
    steps += [[*install, *arguments] for arguments in environment.installs()]
    for step in steps:
        if call(step, log) != 0:
            return "failed", f"could not install: {' '.join(step[3:])}"
    call([inside, "-m", "pip", "freeze"], log)
    code = call([inside, "-m", "pytest", "-n", workers, "--dist", "worksteal", "-m", TESTS], log)
    log.seek(0)
    ends = [line for line in log if re.search(r"\d+ (passed|failed|error)", line)]
    detail = ends[-1].strip(" =\n") if ends else f"pytest ended with {code}"
    return ("passed" if code == 0 else "failed"), detail


def call(command: list[str], log: TextIO) -> int:
    """Run a command, all of its output into the log; return its exit code."""
    print("$", *command, file=log, flush=True)
    # Neither the caller's paths nor its environment may lend packages to the one under test.
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        command, cwd=PROJECT, env=clean, stdout=log, stderr=subprocess.STDOUT, check=False
    ).returncode


def find_python(version: str) -> str | None:
    """Return the interpreter of a version, this one if it fits."""
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = [shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python")]
    return next((str(place) for place in places if place and runs(place)), None)


def runs(python: str | Path) -> bool:
    """Return whether an interpreter starts; pyenv has stubs for versions that are switched off."""
    return subprocess.run([python, "-V"], capture_output=True, check=False).returncode == 0


def lower_bounds(of: str) -> list[str]:
    """Write the lower bounds in pyproject.toml as exact versions; return the arguments for pip."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lists = {"core": [project["dependencies"]], "extras": [extras[e] for e in extras if e != "all"]}
    # A constraint has neither extras nor markers.
    pin = re.compile(r"([\w.-]+)(?:\[.*?\])?\s*>=\s*([\w.]+).*")
    pins = [pin.sub(r"\1==\2", line) for each in lists[of] for line in each]
    path = PROJECT / ".matrix" / f"lowest-{of}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*pins, ""]), encoding="utf-8")
    return ["--constraint", str(path)]


def print_table(outcomes: list[Outcome]) -> None:
    """Print one line per environment."""
    width = max(len(outcome.name) for outcome in outcomes)
    print()
    for outcome in outcomes:
        minutes = f"{outcome.duration_s / 60:5.1f} min" if outcome.duration_s else ""
        print(f"{outcome.name:<{width}}  {outcome.result:<8}{minutes:<11}{outcome.detail}")


if __name__ == "__main__":
    sys.exit(main())
